"""Apache Kafka's tools in the Java machine that stays answer as in a process of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kwire.conformance import apache_kafka, resident

pytestmark = pytest.mark.java

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def run_apart(class_name: str, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = apache_kafka.command(class_name, arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("class_name", "arguments"),
    [
        (TOPICS, ["--version"]),
        (TOPICS, ["--help"]),
        (CONFIGS, ["--bootstrap-server", "x:1", "--describe", "--entity-type", "moons"]),
    ],
    ids=["succeeds", "prints its usage", "is written in Scala"],
)
def test_tool_ends_with_the_status_and_texts_of_a_process_of_its_own(
    class_name: str, arguments: list[str], apache_kafka_tools: Path
) -> None:
    apart = run_apart(class_name, arguments)
    for attempt in range(2):
        done = apache_kafka.run(class_name, arguments)
        ended = (done.returncode, done.stdout, done.stderr)
        assert ended == (apart.returncode, apart.stdout, apart.stderr), f"attempt {attempt}"


def test_exception_of_a_tool_ends_it_with_status_1(
    apache_kafka_tools: Path, tmp_path: Path
) -> None:
    missing = str(tmp_path / "00000000000000000000.log")
    done = apache_kafka.run(DUMP, ["--files", missing])
    assert done.returncode == 1
    assert "NoSuchFileException" in done.stderr
    assert apache_kafka.run(TOPICS, ["--version"]).stdout.startswith(apache_kafka.TOOLS_VERSION)


def test_tool_that_does_not_end_is_stopped_and_the_next_one_runs(apache_kafka_tools: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        apache_kafka.run(TOPICS, ["--version"], timeout_s=0)
    assert apache_kafka.run(TOPICS, ["--version"]).returncode == 0


def test_client_of_records_has_a_process_of_its_own() -> None:
    assert "org.apache.kafka.tools.consumer.ConsoleConsumer" not in resident.TOOLS
    assert "org.apache.kafka.tools.ConsoleProducer" not in resident.TOOLS
