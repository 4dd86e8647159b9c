"""The code and commands of README and docs work as written, apart from broker addresses."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.offsets import end_offsets
from kwire.testing import BrokerProcess, free_port
from kwire.testing.hosting.process import answers
from tests.conftest import BrokerFactory
from tests.typed import serving, typed

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WAIT_S = 240
"""For a Spark that starts on a busy machine."""
JOBS_S = 3600
"""For five of them one after another: at load 15 each took five minutes."""
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A Java that lives for seconds gains nothing by what it does for those that live long."""


class Block(NamedTuple):
    page: str
    language: str
    text: str

    @property
    def first_line(self) -> str:
        return self.text.splitlines()[0]


def blocks() -> Iterator[Block]:
    for page in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        ROOT / "docker/README.md",
    ]:
        for language, text in BLOCK.findall(page.read_text()):
            yield Block(str(page.relative_to(ROOT)), language, text)


def block(first_line: str) -> str:
    """The text of the one block that begins so, on the pages whose blocks are run here."""
    (text,) = [b.text for b in blocks() if b.page in PAGES and b.first_line == first_line]
    return text


PAGES = frozenset({"README.md", "docs/spark.md", "docs/commands.md"})
"""Pages whose blocks are run here."""

GUIDES = frozenset(
    f"docs/{name}.md"
    for name in ("bitnami", "clusters", "control", "moving", "python", "security", "tutorial")
)
"""Pages whose blocks tests/guides/test_guides.py runs."""

WHOLE = {
    "docs/first-test.md": "tests/testing/test_first_test.py",
    "docs/other-languages.md": "tests/testing/test_other_languages.py",
    "docs/declared-state.md": "tests/cli/declared_state/test_guide.py",
    "docs/github-actions.md": "tests/tools/test_github_action.py",
    "docker/README.md": "tests/docker: the recipes' settings, and the image where it can be built",
}
"""Pages of which one test runs all blocks."""

KAFKA_PYTHON = "from kafka import KafkaConsumer, KafkaProducer"
PYSPARK = "from pyspark.sql import SparkSession"
IN_A_TEST = "from kafka import KafkaProducer"
SERVE = "kwire serve --set num.partitions=3              # any broker setting of Apache Kafka 4.4"
COMMANDS = "kwire topics create orders --partitions 6 --set retention.ms=86400000"
JOBS = (
    "kwire pipeline archive orders --to archive      # Parquet by topic and date, each record once"
)
CLUSTER = (
    "kwire serve --brokers 3                         # a cluster on this machine, "
    "without ZooKeeper or Java"
)
HERE = frozenset({KAFKA_PYTHON, PYSPARK, IN_A_TEST, SERVE, COMMANDS, JOBS, CLUSTER})

ELSEWHERE = {
    "kwire serve --data D": "tests/cli/hosting/test_several.py, from one broker to three and back",
    "kwire serve --brokers 3 --data D": "likewise",
    "kwire cluster up --kraft ": "tests/cli/test_up_kraft.py",
    "kwire cluster adopt --kraft ": "tests/cli/test_adopt_kraft.py",
    "process.roles=broker": "tests/cli/test_up_kraft.py, with the addresses of the test",
    "make run ": "what .ci/run does in a fresh clone",
    "make upgrade ": "tests/tools/test_upgrade_*.py, in parts",
    "kubectl apply ": "needs a Kubernetes; tests/docker/test_kubernetes.py has the parts",
    "helm install ": "likewise; make kubernetes renders the chart with these values",
    "# helm install ": "likewise, with the values of the block",
    "make image ": "tests/docker/test_image.py, where a base image is named",
    "python3 -m venv .venv ": "half a gigabyte from PyPI",
    "pip install '.[console]'": "tests/test_install_lines.py; the commands in tests/console",
    "pip install '.[mcp]'": "tests/test_install_lines.py; the command in tests/console/assistant",
    "pip install '.[registry]'": "tests/test_install_lines.py; the commands in tests/registry",
    "def test_orders_have_a_schema": "tests/registry/test_fixture.py",
    "kwire serve --metrics ": "tests/cli/test_serve.py and tests/server/metrics",
    "kwire top ": "tests/cli/operating/live",
    "kwire doctor ": "tests/cli/operating/test_doctor_cluster.py and test_doctor.py",
    "kwire serve --log-format json ": "tests/cli/test_serve.py",
    "import json": "tests/guides/test_guides.py",
    "value.": "tests/console/filtering/test_filtering.py",
}
"""By the beginning of a block: what runs it, or why nothing does."""


IN_TESTING = ("curl ", "pytest", "pip install ", "kwire trace ")
"""How the shell blocks of docs/testing.md begin: tests/testing/test_guide.py runs those of curl and
pytest; tests/test_install_lines.py has those of pip, tests/testing/replaying those of traces."""


def test_every_block_is_run_by_a_test() -> None:
    for found in blocks():
        if found.page in PAGES and found.first_line in HERE:
            continue
        if found.page == "docs/pipelines.md" and found.language in ("sh", "json"):
            continue  # tests/pipeline/test_guide.py
        if found.page == "docs/testing.md" and (
            found.language == "python" or found.first_line.startswith(IN_TESTING)
        ):
            continue  # tests/testing/test_guide.py, but for what IN_TESTING says
        if found.page == "docs/mcp.md" and found.language == "json":
            continue  # tests/console/assistant/test_page.py
        if found.page in GUIDES or found.page in WHOLE:
            continue
        assert found.first_line.startswith(tuple(ELSEWHERE)), found


@contextlib.contextmanager
def running(command: list[str], output: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A process and what it starts, until the end of the block."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(words: str, output: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while words not in output.read_text(errors="replace"):
        assert time.monotonic() < deadline, output.read_text(errors="replace")
        time.sleep(0.05)


def script(first_line: str, broker: BrokerProcess, tmp_path: Path) -> list[str]:
    """The command that runs a block of Python on this broker."""
    path = tmp_path / "snippet.py"
    path.write_text(block(first_line).replace("localhost:9092", broker.bootstrap))
    return [sys.executable, "-u", str(path)]


@pytest.mark.slow
def test_kafka_python_example_prints_its_record(broker: BrokerProcess, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with running(script(KAFKA_PYTHON, broker, tmp_path), output, {}):
        wait_for("greetings 0 0 b'en' b'hello'\n", output)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_pyspark_example_shows_its_record(broker: BrokerProcess, tmp_path: Path) -> None:
    """In a separate process: this process's session has the connector already."""
    kwire("echo hello | kwire produce greetings", broker, tmp_path)
    output = tmp_path / "output"
    with running(script(PYSPARK, broker, tmp_path), output, {"JDK_JAVA_OPTIONS": QUICK}):
        wait_for("|hello|\n", output)


@pytest.mark.slow
def test_example_of_a_test_passes(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(block(IN_A_TEST), names)
    test = names["test_my_producer"]
    assert callable(test)
    test(tmp_path)


@pytest.mark.slow
def test_every_serve_command_of_the_page_starts_a_broker(tmp_path: Path) -> None:
    tmp_path.joinpath("server.properties").write_text("num.partitions=2\n")
    for command in block(SERVE).splitlines():
        port = free_port()
        data = tmp_path / f"data-{port}"
        words = [*command.partition("#")[0].split(), "--data", str(data), "--exit-on-eof"]
        if "--secure" in words:
            words += ["--port", str(port)]
        else:
            words += ["--set", f"listeners=PLAINTEXT://localhost:{port}"]
        serving = [str(Path(sys.executable).parent / words[0]), *words[1:]]
        with subprocess.Popen(serving, stdin=subprocess.PIPE, cwd=tmp_path) as process:
            try:
                if "--secure" in words:  # its clients: tests/cli/securing/test_secured.py
                    while not data.with_name(f"{data.name}-secure").exists():
                        assert process.poll() is None, command
                        time.sleep(0.05)
                    continue
                while not answers("localhost", port):
                    assert process.poll() is None, command
                with Cluster(f"localhost:{port}", timeout_s=30) as cluster:
                    expected = 3 if "num.partitions=3" in command else 2
                    assert len(cluster.topic("t", create=True).partitions) == expected
            finally:
                process.terminate()


def kwire(commands: str, broker: BrokerProcess, folder: Path) -> str:
    """The output of the commands, each of which must succeed."""
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "JDK_JAVA_OPTIONS": QUICK,
            "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        cwd=folder,
        timeout=JOBS_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_commands_of_the_page_work_on_a_broker(broker: BrokerProcess, tmp_path: Path) -> None:
    output = kwire(block(COMMANDS), broker, tmp_path)
    assert output.count("apples") == 3  # from the beginning, of the last hour, as a group


@pytest.mark.slow
@pytest.mark.long
def test_cluster_commands_of_the_page_work_on_a_cluster(tmp_path: Path) -> None:
    """In their order, on one cluster; it has the fourth broker that `--to 1,2,3,4` is about.

    `cluster up` needs Java (tests/cli/test_up.py and test_up_kraft.py), and `cluster adopt` a
    stopped node (test_adopt_kraft.py).
    """
    serve, up, kraft, watch, elect, spread, clear, adopt = block(CLUSTER).splitlines()
    assert up.startswith("kwire cluster up ")
    assert kraft.startswith("kwire cluster up --kraft ")
    assert adopt.startswith("kwire cluster adopt ")
    interrupted = "timeout --preserve-status --signal INT 5 " + watch.partition(" #")[0]
    watched = f"{interrupted} || [ $? = 130 ]"
    spread, clear = (line.replace("reassign ", "reassign --yes ") for line in (spread, clear))
    commands = "\n".join([watched, elect, spread, clear, "kwire cluster status"])
    with serving(serve.replace("--brokers 3", "--brokers 4"), tmp_path, ports=4) as bootstrap:
        here = {"KWIRE_BOOTSTRAP_SERVERS": bootstrap}
        typed("for t in a b c; do echo apples | kwire produce $t; done", tmp_path, here)
        output = typed(commands, tmp_path, here)
    emptied = [line.split() for line in output.splitlines() if re.match(r" +2 ", line)][-1]
    assert emptied[-5:-3] == ["0", "0"], output
    assert output.rstrip().endswith("all is well"), output


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(JOBS_S + 600)
def test_pipeline_commands_of_the_page_archive_mirror_audit_and_query(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    source, target = broker_factory(), broker_factory()
    kwire("printf '%s\\n' '{\"fruit\": \"apples\"}' | kwire produce orders", source, tmp_path)
    commands = block(JOBS).replace("localhost:9092", source.bootstrap)
    output = kwire(commands.replace("localhost:9192", target.bootstrap), source, tmp_path)
    assert list(tmp_path.glob("archive/**/*.parquet"))
    assert (tmp_path / "audit.html").exists()
    at = TopicPartition("orders", 0)
    with Cluster(target.bootstrap, timeout_s=30) as cluster:
        assert end_offsets(cluster, [at])[at] >= 1
    assert "apples" in output
