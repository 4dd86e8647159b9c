"""`kwire serve`: what it says, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.cli.app import app
from kwire.cli.serve import DATA_DIR, developed
from kwire.testing import BrokerProcess, free_port
from tests.commands.forked import run_kwire

BrokerFactory = Callable[..., BrokerProcess]


def refused(*arguments: str) -> str:
    """What a broker that does not start says."""
    done = run_kwire("serve", *arguments)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Start `kwire serve` in an empty folder; returns it and what it says until it is ready."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "serve", *arguments],
            stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
        running.append(process)
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if " is ready." in line:
                return process, said
        raise AssertionError(said)

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_serve_logs_data_folder_and_addresses(
    started: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path
) -> None:
    process, said = started("--port", "0")
    assert f"data in {tmp_path / 'kwire-data'}\n" in said
    assert re.search(
        r"PLAINTEXT listens on localhost:[1-9]\d+ and advertises the same address\n", said
    )
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} serve: kwire \d+\.\d+", said)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert (tmp_path / "kwire-data" / ".kafka_cleanshutdown").exists()


def test_serve_logs_json_lines_that_name_the_broker(
    started: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path
) -> None:
    process, said = started("--port", "0", "--log-format", "json", "--set", "node.id=7")
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=120)
    lines = [json.loads(line) for line in (said + rest).splitlines()]
    assert {each["broker"] for each in lines} == {7}
    assert f"data in {tmp_path / 'kwire-data'}" in [each["message"] for each in lines]
    assert lines[-1]["level"] == "info"


def test_serve_brokers_takes_the_log_format_from_the_environment(tmp_path: Path) -> None:
    """As a container gets it.  The lines of each broker name it, those about all of them do not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kwire.cli", "serve", "--brokers", "1", "--port", "0"],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "KWIRE_LOG_FORMAT": "json"},
    )  # fmt: skip
    assert process.stderr is not None
    lines = []
    try:
        while "1 broker is ready" not in (line := process.stderr.readline()):
            lines.append(json.loads(line))
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
    lines += map(json.loads, [line, *rest.splitlines()])
    by_broker = {each.get("broker"): each["message"] for each in lines}
    assert by_broker.keys() == {None, 1}


def test_error_that_ends_serve_is_a_json_line_too() -> None:
    code = (
        "from kwire.cli.repeats import start_logging\n"
        "start_logging('info', 'json')\nraise ValueError('x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    found = json.loads(done.stderr)
    assert (found["level"], done.returncode) == ("critical", 1)
    assert found["exception"].endswith("ValueError: x")


def test_serve_stops_cleanly_at_ctrl_c(
    started: Callable[..., tuple[subprocess.Popen[str], str]],
) -> None:
    process, _ = started("--port", "0")
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0


def test_serve_reports_ctrl_c_before_it_is_ready(tmp_path: Path) -> None:
    """It waits for its settings then: a pipe that nobody writes to."""
    path = tmp_path / "server.properties"
    os.mkfifo(path)
    process = subprocess.Popen(
        [sys.executable, "-m", "kwire.cli", "serve", str(path)], stderr=subprocess.PIPE, text=True
    )
    with open(path, "w"):  # when the broker has opened it too
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=240)
    assert said.split("\n")[-2] == "kwire: interrupted before the broker was ready"
    assert process.returncode == 130


CUT_SHORT = """
import sys
import kwire.cli.serve
class Attribute:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
def start_logging(*_):
    class Settings:
        attribute = Attribute()
kwire.cli.serve.start_logging = start_logging
sys.argv = ["kwire", "serve"]
from kwire.cli import main
main()
"""


def test_serve_exits_with_130_at_ctrl_c_while_a_class_is_created() -> None:
    """As some are while the broker's modules are imported; Python 3.11 has another error then."""
    done = subprocess.run(
        [sys.executable, "-c", CUT_SHORT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_second_name_of_a_setting_replaces_the_development_default() -> None:
    """What a setting is by default does not hide what was asked for under its other name."""
    found = developed({"log.dir": "d", "broker.id": "7"})
    assert not found.keys() & {"log.dirs", "node.id"}
    assert (found["log.dir"], found["broker.id"]) == ("d", "7")
    assert developed({})["log.dirs"] == DATA_DIR


def test_serve_with_a_file_uses_kafkas_defaults_and_warns_of_unknown_settings(
    started: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path
) -> None:
    port = free_port()
    path = tmp_path / "server.properties"
    path.write_text(
        f"node.id=7\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'd'}\n"
        "no.such.setting=1\nnum.partitons=2\nnum.io.threads=8\nbackground.threads=4\n"
    )
    _, said = started(str(path))
    assert f"node 7, settings from {path}" in said
    assert "WARNING serve: unknown setting no.such.setting" in said
    assert "unknown setting num.partitons: did you mean num.partitions?" in said
    (idle,) = [line for line in said.splitlines() if "without effect" in line]
    assert idle.endswith(
        "WARNING serve: settings without effect: background.threads, num.io.threads"
        " (see docs/settings.md)"
    )


def test_serve_refuses_a_misspelt_setting() -> None:
    said = refused("--set", "num.partitons=3")
    assert "ERROR serve: unknown setting num.partitons: did you mean num.partitions?" in said


def test_serve_refuses_an_invalid_value() -> None:
    assert "num.partitions" in refused("--set", "num.partitions=many")
    assert "advertised.listeners" in refused("--set", "advertised.listeners=PLAINTEXT://0.0.0.0:1")


def test_serve_refuses_a_data_folder_in_use(broker: BrokerProcess) -> None:
    said = refused("--port", "0", "--data", str(broker.data_dir))
    assert f"{broker.data_dir} is in use" in said


def test_serve_refuses_a_port_in_use(broker: BrokerProcess, tmp_path: Path) -> None:
    arguments = ["--set", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}"]
    said = refused(*arguments, "--data", str(tmp_path / "other"))
    assert f"port {broker.port}: address already in use" in said


def test_serve_refuses_a_host_name_that_cannot_be_resolved(tmp_path: Path) -> None:
    arguments = ["--set", "listeners=PLAINTEXT://no-such-host.invalid:9092"]
    said = refused(*arguments, "--data", str(tmp_path))
    assert "cannot resolve a host name in listeners" in said


def test_serve_warns_of_an_advertised_name_that_cannot_be_resolved(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"})
    deadline = time.monotonic() + 120
    while "this machine cannot resolve that name" not in broker.log:
        assert time.monotonic() < deadline, broker.log
        time.sleep(0.02)
    assert "advertises no-such-host.invalid:9092" in broker.log


def test_serve_imports_few_modules_at_its_start() -> None:
    """A start is mostly imports: a first reply within 0.4 s leaves no room for these."""
    modules = "kwire.cli.serve, kwire.server.server, kwire.server.startup"
    code = f"import sys, {modules}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "trio" in loaded
    heavy = {"rich", "asyncio", "multiprocessing", "unittest", "sqlite3", "http"}
    too_much = loaded & heavy
    assert not too_much
    messages = [name for name in loaded if name.startswith("kwire.codecs.messages.")]
    assert len(messages) < 30, "messages are imported when a client first asks for them"
    coordinators = {name for name in loaded if name.startswith("kwire.coordinators.runtime.")}
    assert coordinators <= {"kwire.coordinators.runtime.coordinators"}, (
        "a coordinator is imported for the first group, or the first transactional producer"
    )
    kraft = [name for name in loaded if name.startswith("kwire.cluster.stores.kraft")]
    assert not kraft, "only a broker with KRaft controllers follows their log"
    assert not loaded & {"email", "argparse", "crc32c"}, "nothing of a library but its checksum"


def test_metrics_option_and_setting_exclude_each_other() -> None:
    words = ["serve", "--metrics", "9404", "--set", "metrics.port=9405"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 2
    assert "give --metrics or --set metrics.port, not both" in told.output
