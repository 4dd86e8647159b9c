"""Tests how many records members of share groups hold, and how long (KIP-1206, KIP-1222).

The program HeldRecords.java, with Java's share consumer, must print the same for Apache Kafka.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka, command
from kwire.testing import BrokerProcess
from tests.clients.programs.java_source import compiled

pytestmark = [pytest.mark.java, pytest.mark.slow]

SOURCE = Path(__file__).with_name("HeldRecords.java")
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
}
PATIENCE_S = 300.0
ATTEMPTS = 10
LATE = "late"
"""Output of a run in which the machine was so slow that an acquisition lock may have expired."""
PLAYS = {
    "renewed": """\
        lock 4000
        renewed: delivered [1]
        third has the others true
        forgotten: delivered 2
        settled well
        released: delivered [2]
        nothing else true""",
    "refused": """\
        renewed org.apache.kafka.common.errors.InvalidRecordStateException: The record state is\
 invalid. The acknowledgement of delivery could not be completed.
        has 0""",
    "limited record_limit": """\
        first has 0 to 59
        nobody has more true
        accepted well
        then they do""",
    "limited batch_optimized": """\
        first has 0 to 74
        nobody has more true
        accepted well
        then they do""",
}


@pytest.fixture(scope="module")
def classes(apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(SOURCE, apache_kafka_libs, tmp_path_factory.mktemp("classes"))


def played(classes: Path, bootstrap: str, name: str, play: str) -> list[str]:
    """The output of the first attempt that was not late."""
    for attempt in range(ATTEMPTS):
        words = command("HeldRecords", [bootstrap, f"{name}-{attempt}", *play.split()])
        words[words.index("-cp") + 1] += f":{classes}"
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        output = done.stdout.splitlines()
        if output[-1] != LATE:
            break
    return output


def expected(play: str) -> list[str]:
    return [line.strip() for line in PLAYS[play].splitlines()]


@pytest.mark.parametrize(
    "play",
    [
        pytest.param(play, marks=[pytest.mark.long] if number % 2 else ())
        for number, play in enumerate(PLAYS)
    ],
)
def test_share_member_holds_records_within_the_limits_of_time_and_number(
    classes: Path, broker_factory: Callable[..., BrokerProcess], unique: str, play: str
) -> None:
    broker = broker_factory(SETTINGS)
    assert played(classes, broker.bootstrap, unique, play) == expected(play)


@pytest.mark.long
def test_held_records_are_the_same_on_apache_kafka(
    classes: Path, unique: str, tmp_path: Path
) -> None:
    with ApacheKafka(tmp_path, settings=SETTINGS) as node:
        for play in PLAYS:
            name = f"{unique}-{play.replace(' ', '-')}"
            assert played(classes, node.bootstrap, name, play) == expected(play)
