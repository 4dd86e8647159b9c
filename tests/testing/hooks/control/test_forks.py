"""Second brokers that are asked for over HTTP, and what is left of them when theirs has ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kwire.testing import BrokerProcess, ControlError, Kafka
from kwire.testing.control import ControlClient
from kwire.testing.hosting.ending import process_exists
from kwire.testing.hosting.folders import PREFIX
from kwire.testing.hosting.ports import free_port
from kwire.testing.topics import Topic
from tests.commands.forked import run_kwire
from tests.waiting import until

pytestmark = pytest.mark.slow

SECRET = "s3cret-of-the-keystore"
KWIRE = [sys.executable, "-m", "kwire.cli"]


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


Serving = Callable[..., tuple[BrokerProcess, ControlClient]]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Starts `kwire serve --control` with its data below `tmp_path`, and such settings."""
    started: list[BrokerProcess] = []

    def start(**settings: str) -> tuple[BrokerProcess, ControlClient]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        port, broker = free_port(), BrokerProcess(tmp_path, named)
        options = [f"--set={name}={value}" for name, value in broker.settings.items()]
        serve = [*KWIRE, "serve", "--exit-on-eof", f"--control={port}", *options]
        broker.command = lambda: serve  # type: ignore[method-assign]  # one option more
        started.append(broker)
        broker.start()
        return broker, ControlClient(f"127.0.0.1:{port}")

    yield start
    for broker in started:
        broker.kill()


def fork(control: ControlClient, **asked: object) -> dict[str, Any]:
    told: dict[str, Any] = control.post("/forks", asked)
    return told


def listed(control: ControlClient) -> list[dict[str, Any]]:
    return list(control.get("/forks")["forks"])


def parent_of(pid: int) -> int:
    found = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)
    return int(found.stdout)


def folders_below(path: Path) -> list[Path]:
    return list(path.glob(f"{PREFIX}*"))


def ports_of(told: dict[str, Any]) -> list[int]:
    return [int(told[name].rpartition(":")[2]) for name in ("bootstrap", "control")]


def can_be_had(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def nothing_is_left(told: dict[str, Any], path: Path, *pids: int) -> None:
    until(lambda: not any(map(process_exists, (told["pid"], *pids))), "they have ended")
    until(lambda: not folders_below(path), "their folder is gone")
    until(lambda: all(map(can_be_had, ports_of(told))), "their ports are free")


def test_fork_begins_with_a_snapshot_or_with_current_contents(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("t").seed(["before"])
    kafka.control.post("/snapshots", {"name": "seeded", "folder": str(tmp_path)})
    kafka.topic("t").seed(["after"])
    first = fork(kafka.control, snapshot="seeded", folder=str(tmp_path))
    second = fork(kafka.control)
    assert [(each["fork"], each["snapshot"]) for each in (first, second)] == [
        (1, "seeded"), (2, None),
    ]  # fmt: skip
    assert listed(kafka.control) == [first, second]
    assert all(each["running"] for each in (first, second))
    there, here = Topic(first["bootstrap"], "t"), Topic(second["bootstrap"], "t")
    there.assert_holds(["before"])
    here.assert_holds(["before", "after"])
    there.seed(["there"])
    here.seed(["here"])
    kafka.topic("t").seed(["at home"])
    there.assert_holds(["before", "there"])
    here.assert_holds(["before", "after", "here"])
    kafka.topic("t").assert_holds(["before", "after", "at home"])


def test_ended_fork_has_no_process_and_no_folder(kafka: Kafka) -> None:
    kafka.create_topic("t").seed(["v"])
    told, other = fork(kafka.control), fork(kafka.control)
    Producer({"bootstrap.servers": told["bootstrap"]}).list_topics(timeout=120)
    (of_forks,) = folders_below(kafka.data_dir.parent)
    assert (of_forks / "fork-1").is_dir()
    kafka.control.delete("/forks/1")
    assert not process_exists(told["pid"])
    until(lambda: not (of_forks / "fork-1").exists(), "its data is gone")
    assert all(map(can_be_had, ports_of(told)))
    assert listed(kafka.control) == [other]
    with pytest.raises(ControlError, match="there is no fork 1"):
        kafka.control.delete("/forks/1")
    Topic(other["bootstrap"], "t").assert_holds(["v"])
    assert sorted(each.name for each in of_forks.iterdir() if each.is_dir()) == ["fork-2"]


def test_fork_has_its_own_faults_and_clock(kafka: Kafka) -> None:
    kafka.clock.advance(hours=1)
    told = fork(kafka.control)
    control = ControlClient(told["control"])
    assert control.get("/clock")["ahead_ms"] >= 3_600_000, "as its snapshot"
    control.post("/faults", {"api": "Fetch", "disconnect": True})
    control.post("/clock", {"advance_ms": 3_600_000})
    assert kafka.control.get("/faults")["faults"] == []
    assert kafka.clock.ahead_ms < 7_200_000


def test_invalid_fork_request_is_refused_with_a_reason(kafka: Kafka) -> None:
    told = fork(kafka.control, port=free_port())
    taken = ports_of(told)[0]
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]
        for asked, why in (
            ({"snapshot": "seeded"}, "there is no snapshot 'seeded'"),
            ({"port": taken}, f"fork 1 is at port {taken}"),
            ({"control": taken}, f"fork 1 is at port {taken}"),
            ({"port": port}, f"the fork did not start: .*{port}"),
            ({"port": 65_536}, "a port must be a number up to 65535"),
            ({"folder": "/tmp"}, "only together with snapshot"),
            ({"name": "seeded"}, "unknown field 'name'"),
        ):
            with pytest.raises(ControlError, match=why):
                kafka.control.post("/forks", asked)
    assert listed(kafka.control) == [told]
    (of_forks,) = folders_below(kafka.data_dir.parent)

    def of_first_alone() -> bool:
        return [each.name for each in of_forks.iterdir() if each.is_dir()] == ["fork-1"]

    until(of_first_alone, "nothing is left of those")


def test_dead_fork_is_listed_as_not_running(kafka: Kafka) -> None:
    told = fork(kafka.control)
    os.kill(told["pid"], signal.SIGKILL)
    until(lambda: not listed(kafka.control)[0]["running"], "it is seen")
    kafka.control.delete("/forks/1")
    again = fork(kafka.control, port=ports_of(told)[0])
    assert again["running"]


def test_forks_keep_running_when_their_broker_restores_a_snapshot(serving: Serving) -> None:
    broker, control = serving()
    Topic(broker.bootstrap, "t").seed(["before"])
    control.post("/snapshots", {"name": "seeded"})
    told = fork(control, snapshot="seeded")
    before = control.post("/snapshots/seeded/restore")["restored"]

    def is_restored() -> bool:
        try:
            return bool(control.get("/snapshots")["restored"] > before)
        except ControlError:
            return False

    until(is_restored, "it is there again")
    assert listed(control) == [told]
    Topic(told["bootstrap"], "t").assert_holds(["before"])
    assert broker.stop() == 0
    nothing_is_left(told, broker.directory)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_forks_end_when_their_broker_ends(serving: Serving, name: str) -> None:
    broker, control = serving()
    told, other = fork(control), fork(control)
    forking = parent_of(told["pid"])
    assert forking == parent_of(other["pid"]) != broker.pid
    nested = fork(ControlClient(told["control"]))
    assert len(folders_below(broker.directory)) == 1
    os.kill(broker.pid, signal.Signals[name])
    nothing_is_left(told, broker.directory, other["pid"], nested["pid"], forking)


def test_folder_of_killed_forks_is_removed_by_the_next_start(serving: Serving) -> None:
    broker, control = serving()
    told = fork(control)
    forking = parent_of(told["pid"])
    os.kill(forking, signal.SIGSTOP)  # it is not to see its end
    broker.kill()
    os.kill(forking, signal.SIGKILL)
    until(lambda: not process_exists(told["pid"]), "it sees the end of its input")
    (left,) = folders_below(broker.directory)
    broker.start()
    fork(control)
    (there,) = folders_below(broker.directory)
    assert there != left


def test_fork_takes_over_settings_without_showing_them(serving: Serving, tmp_path: Path) -> None:
    """With two log directories."""
    folders = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    secrets = {"log_dirs": folders, "num_partitions": "3", "ssl_keystore_password": SECRET}
    broker, control = serving(**secrets)
    Topic(broker.bootstrap, "t").seed(["v"])
    told = fork(control)
    Topic(told["bootstrap"], "t").assert_holds(["v"])
    Topic(told["bootstrap"], "u").seed(["v"])
    producer = Producer({"bootstrap.servers": told["bootstrap"]})
    assert len(producer.list_topics("u", timeout=120).topics["u"].partitions) == 3
    for pid in (told["pid"], parent_of(told["pid"])):
        args = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
        shown = subprocess.run(args, capture_output=True, text=True, check=True).stdout
        assert "kwire" in shown
        assert SECRET not in shown


def test_fork_takes_over_max_versions() -> None:
    with Kafka(max_versions={"Metadata": 8}) as kafka:
        told = fork(kafka.control)
        control = ControlClient(told["control"])
        number = control.post("/traces", {"api": "Metadata"})["trace"]
        Producer({"bootstrap.servers": told["bootstrap"]}).list_topics(timeout=120)
        events = control.get(f"/traces/{number}")["events"]
        assert {event["version"] for event in events} == {8}


def test_fork_commands_start_list_and_end_a_fork(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("t").seed(["before"])
    control = f"--control=http://127.0.0.1:{kafka.control_port}"
    command("snapshot", "take", "seeded", control)
    port = free_port()
    said = command("snapshot", "fork", "seeded", "--beside", f"--port={port}", control)
    assert said.startswith(f"fork 1: 127.0.0.1:{port}, controlled at http://127.0.0.1:")
    Topic(f"127.0.0.1:{port}", "t").assert_holds(["before"])
    shown = command("snapshot", "forks", control).splitlines()
    assert shown[1].split()[:3] == ["1", "seeded", f"127.0.0.1:{port}"]
    assert shown[1].endswith("runs")
    command("snapshot", "end", "1", control)
    assert listed(kafka.control) == []
    beside = ("snapshot", "fork", "seeded", "--beside")
    done = run_kwire(*beside, f"--into={tmp_path}", control)
    assert (done.returncode, "--beside goes with --port" in done.stderr) == (2, True)


def command(*arguments: str) -> str:
    done = run_kwire(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
