"""pytest's fixtures of a broker, in a pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def kafka_settings():
    return {"num.partitions": "3"}
"""

TESTS = """
import pytest
from confluent_kafka import Producer

SEEN = []

def produce(kafka, topic, value):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(60) == 0

def test_one(kafka, kafka_topic):
    SEEN.append(kafka_topic.name)
    produce(kafka, kafka_topic.name, b"1")
    kafka_topic.assert_holds(["1"])

@pytest.mark.parametrize("value", ["odd name / é"])
def test_two(kafka, kafka_topic, value):
    assert kafka.topics() == sorted([*SEEN, kafka_topic.name])

def test_fresh(kafka_reset):
    assert kafka_reset.topics() == []
    produce(kafka_reset, "auto", b"1")
    assert len({r.partition for r in kafka_reset.topic("auto").records()}) == 1

def test_dead_before(kafka):
    kafka.kill()

def test_alive_again(kafka_topic):
    kafka_topic.seed(["1"])

def test_that_fails(kafka, kafka_topic):
    kafka_topic.seed(["shown"])
    kafka_topic.assert_holds(["other"])

def test_that_fails_without_a_broker(kafka):
    kafka.kill()
    assert not kafka.running, "as it should"
    assert False

def test_that_has_no_broker():
    import sys
    assert "kwire.testing.plugin" in sys.modules
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    told = run_pytest(tmp_path)
    assert "2 failed, 6 passed" in told, told
    failed, without = told.split("_ test_that_fails_without_a_broker _")
    assert "E         - other\nE         + shown" in failed, told
    assert "def assert_holds" not in failed, told
    assert "kwire: topics" in failed, told
    assert "0  null → shown" in failed, told
    assert "kwire: log" in failed, told
    assert "not known: " in without, told


OF_SEVERAL = """
import pytest

@pytest.fixture(scope="session")
def kafka_cluster_settings():
    return {"num.partitions": "5"}

def test_one(kafka_cluster, kafka_cluster_topic):
    assert sorted(kafka_cluster.brokers) == [1, 2, 3]
    kafka_cluster_topic.seed([1])
    kafka_cluster_topic.assert_holds([1])
    kafka_cluster.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    kafka_cluster.brokers[2].kill()
    kafka_cluster.brokers[3].pause()

def test_all_are_there_again(kafka_cluster, kafka_cluster_topic):
    assert all(broker.running for broker in kafka_cluster.brokers.values())
    kafka_cluster_topic.seed([2])
    kafka_cluster_topic.assert_holds([2])
    assert len(kafka_cluster.topics()) == 2
    assert kafka_cluster.faults.happened == []

def test_that_fails(kafka_cluster, kafka_cluster_topic):
    kafka_cluster_topic.seed(["shown"])
    kafka_cluster_topic.assert_holds(["other"])
"""


def test_three_brokers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(OF_SEVERAL)
    told = run_pytest(tmp_path)
    assert "1 failed, 2 passed" in told, told
    assert "0  null → shown" in told, told
    assert "kwire: log" in told, told


PARALLEL = """
import os
import pytest
from kwire.testing import Record

@pytest.mark.parametrize("number", range(12))
def test_each(kafka, kafka_topic, number):
    assert kafka.topics() == [kafka_topic.name] or number
    kafka_topic.seed([number])
    kafka_topic.assert_holds([number])
    with open(os.environ["SEEN"], "a") as seen:
        seen.write(f"{kafka.port}\\n")
"""


def test_each_worker_has_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "ports"
    monkeypatch.setenv("SEEN", str(seen))
    (tmp_path / "test_it.py").write_text(PARALLEL)
    told = run_pytest(tmp_path, "-n", "3", "--dist", "load")
    assert "12 passed" in told, told
    assert len(set(seen.read_text().split())) == 3


IMPORTED = """
import sys
import kwire.testing.plugin
print(*sorted(name for name in sys.modules if name.startswith("kwire")))
"""


def test_a_run_without_a_broker_imports_next_to_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["kwire", "kwire.testing", "kwire.testing.plugin"]
