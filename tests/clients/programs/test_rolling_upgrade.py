"""Tests a rolling upgrade of Java consumers to the consumer protocol, and back (KIP-848)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import command
from kwire.testing import BrokerProcess
from tests.clients.librdkafka import create_topic
from tests.clients.programs.java_source import compiled

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

SOURCE = Path(__file__).with_name("RollingGroup.java")
PARTITIONS = 6
PATIENCE_S = 300.0
BRISK = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def classes(apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(SOURCE, apache_kafka_libs, tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_no_record_is_missed_during_a_rolling_protocol_upgrade(
    classes: Path, broker_factory: Callable[..., BrokerProcess], kind: str
) -> None:
    broker = broker_factory(BRISK)
    create_topic(broker.bootstrap, "t", PARTITIONS)
    words = command("RollingGroup", [broker.bootstrap, "t", str(PARTITIONS), "g", kind])
    words[words.index("-cp") + 1] += f":{classes}"
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = re.findall(r"^(\d) is (\w+)", done.stdout, re.M)
    turns = ["classic"] * 3 + ["consumer"] * 3 + ["classic"] * 3
    assert [protocol for _, protocol in steps] == turns
    told = re.search(r"written (\d+) read (\d+) twice (\d+)", done.stdout)
    assert told is not None
    written, read, twice = map(int, told.groups())
    assert written == read > 0
    assert twice == 0 or "late: " in done.stdout, done.stdout
    assert "to the consumer protocol, with" in broker.log
    assert "back to the classic protocol, with" in broker.log
