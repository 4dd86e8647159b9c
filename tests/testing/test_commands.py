"""`kwire fault` and `kwire trace`, as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.testing import Kafka
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults(kafka: Kafka) -> None:
    kafka.faults.clear()


def words(kafka: Kafka, *arguments: str) -> list[str]:
    return [*arguments, "--control", f"http://127.0.0.1:{kafka.control_port}"]


def command(kafka: Kafka, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "kwire.cli", *words(kafka, *arguments)]


def run(kafka: Kafka, *arguments: str) -> str:
    done = run_kwire(*words(kafka, *arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(kafka: Kafka, *arguments: str) -> str:
    done = run_kwire(*words(kafka, *arguments))
    assert done.returncode == 1, done.stdout
    return done.stderr


def produce(kafka: Kafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "me"})
    producer.produce(topic, "v")
    assert producer.flush(120) == 0


def test_fault_command_adds_lists_and_removes_a_rule(kafka: Kafka, unique: str) -> None:
    topic = kafka.create_topic(unique)
    asked = ("--api", "Produce", "--topic", topic.name, "--error", "not_leader_or_follower")
    assert run(kafka, "fault", "add", *asked, "--times", "1").startswith("rule ")
    produce(kafka, topic.name)
    topic.assert_holds(["v"])
    (told,) = json.loads(run(kafka, "fault", "list", "--json"))
    assert (told["topic"], told["happened"], told["used_up"]) == (topic.name, 1, True)
    number = str(told["rule"])
    assert "NOT_LEADER_OR_FOLLOWER" in run(kafka, "fault", "happened", "--rule", number)
    (happened,) = json.loads(run(kafka, "fault", "happened", "--json"))
    assert happened["partitions"] == [{"topic": topic.name, "partition": 0}]
    assert number in run(kafka, "fault", "list")
    run(kafka, "fault", "remove", number)
    assert f"there is no rule {number}" in refused(kafka, "fault", "remove", number)
    run(kafka, "fault", "clear")
    assert json.loads(run(kafka, "fault", "happened", "--json")) == []


def test_fault_command_takes_presets_and_files(kafka: Kafka, tmp_path: Path) -> None:
    run(kafka, "fault", "add", "full-disk", "--topic", "t")
    rules = tmp_path / "rules.json"
    rules.write_text('[{"preset": "death", "skip": 1000}, {"client": "x", "disconnect": true}]')
    assert len(run(kafka, "fault", "load", str(rules)).splitlines()) == 2
    assert len(json.loads(run(kafka, "fault", "list", "--json"))) == 3
    rules.write_text("[")
    assert "is not JSON" in refused(kafka, "fault", "load", str(rules))


def test_fault_command_explains_an_invalid_rule(kafka: Kafka) -> None:
    assert "did you mean leader-moved?" in refused(kafka, "fault", "add", "leader-move")
    assert "the rule injects nothing" in refused(kafka, "fault", "add", "--api", "Produce")
    done = run_kwire("fault", "list", "--control", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("kwire: no answer from 127.0.0.1:1")


def test_trace_command_prints_a_table_or_json(kafka: Kafka, unique: str) -> None:
    topic = kafka.create_topic(unique)
    kafka.faults.add("leader-moved", api="Produce", topic=topic.name, times=1)
    arguments = ("trace", "--api", "Produce", "--topic", topic.name, "--count", "2")
    with (
        subprocess.Popen(command(kafka, *arguments), stdout=subprocess.PIPE, text=True) as table,
        subprocess.Popen(
            command(kafka, *arguments, "--json"), stdout=subprocess.PIPE, text=True
        ) as lines,
    ):
        wait_for_traces(kafka, 2)
        produce(kafka, topic.name)
        shown, _ = table.communicate(timeout=120)
        told, _ = lines.communicate(timeout=120)
    refused_line, good_line = shown.splitlines()
    assert f"{topic.name}-0" in refused_line
    assert "NOT_LEADER_OR_FOLLOWER (fault " in refused_line
    assert " me " in good_line
    assert "  ok, " in good_line
    first, second = map(json.loads, told.splitlines())
    assert first["errors"] == ["NOT_LEADER_OR_FOLLOWER"]
    assert second["response"]["responses"][0]["name"] == topic.name


def wait_for_traces(kafka: Kafka, count: int) -> None:
    """Until as many have begun."""
    deadline = time.monotonic() + 120
    while len(kafka.control.get("/traces")["traces"]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
