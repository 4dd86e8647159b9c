"""Who has its broker fresh again finds the next one ready: what that one is, and what it is not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from kwire.testing import Kafka
from kwire.testing.hosting.ending import process_exists
from kwire.testing.kafka import Fork
from tests.polling import until

pytestmark = pytest.mark.slow  # a process is started


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


def parents() -> dict[int, int]:
    """Of the processes that run."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, check=True)
    fields = [line.split() for line in listed.stdout.decode().splitlines()]
    return {int(pid): int(parent) for pid, parent, state in fields if not state.startswith("Z")}


def prepared(kafka: Kafka) -> int:
    """The broker that is to come next, once it is forked."""
    found: set[int] = set()

    def one_is_there() -> bool:
        found.clear()
        now = parents()
        forking = now[kafka.pid]
        found.update(pid for pid, parent in now.items() if parent == forking != pid)
        found.discard(kafka.pid)
        return len(found) == 1

    until(one_is_there)
    return found.pop()


def test_broker_is_not_prepared_before_one_was_ordered(kafka: Kafka) -> None:
    kafka.create_topic("t")
    now = parents()
    assert [pid for pid, parent in now.items() if parent == now[kafka.pid]] == [kafka.pid]


def test_next_broker_is_prepared_with_its_own_folder(kafka: Kafka) -> None:
    kafka.reset()
    following = prepared(kafka)
    kafka.create_topic("t").seed(["v"])
    kafka.clock.advance(hours=5)
    log = kafka.log_size_bytes
    before = kafka.pid

    kafka.reset()

    assert kafka.pid == following != before
    assert not process_exists(before)
    assert kafka.topics() == []
    assert kafka.clock.ahead_ms == 0
    assert kafka.log_since(log).count("is ready") == 1
    kafka.create_topic("t").assert_holds([])
    assert (kafka.data_dir / "t-0").is_dir()


def test_prepared_broker_logs_nothing_before_its_turn(kafka: Kafka) -> None:
    kafka.reset()
    log = kafka.log_size_bytes
    prepared(kafka)
    kafka.create_topic("t")
    assert "data in" not in kafka.log_since(log)


def test_prepared_broker_that_died_is_replaced(kafka: Kafka) -> None:
    kafka.reset()
    following = prepared(kafka)
    os.kill(following, signal.SIGKILL)
    kafka.reset()
    assert kafka.pid != following
    assert kafka.topics() == []


def test_restore_does_not_use_the_prepared_broker(kafka: Kafka) -> None:
    kafka.reset()
    following = prepared(kafka)
    kafka.create_topic("t").seed(["v"])
    with kafka.snapshot() as seeded:
        kafka.restore(seeded)
    kafka.topic("t").assert_holds(["v"])
    assert kafka.pid != following
    kafka.reset()
    assert kafka.pid == following
    assert kafka.topics() == []


def test_restart_with_data_uses_another_process(kafka: Kafka) -> None:
    kafka.reset()
    following = prepared(kafka)
    kafka.create_topic("t").seed(["v"])
    kafka.kill()
    kafka.start()
    kafka.topic("t").assert_holds(["v"])
    assert kafka.pid != following


def test_forks_end_with_their_broker(kafka: Kafka) -> None:
    with Fork(kafka, None) as other:
        other.reset()
        until(lambda: len(children_of(kafka)) == 3)
    assert children_of(kafka) == {kafka.pid}


def children_of(kafka: Kafka) -> set[int]:
    now = parents()
    return {pid for pid, parent in now.items() if parent == now[kafka.pid]}


@pytest.mark.parametrize("ended", ["the process that forks", "all in good order"])
def test_prepared_broker_ends_with_the_parent(ended: str) -> None:
    kafka = Kafka()
    kafka.start()
    kafka.reset()
    following, forking = prepared(kafka), parents()[kafka.pid]
    if ended == "the process that forks":
        os.kill(forking, signal.SIGKILL)
        until(lambda: not process_exists(following))
    kafka.stop()
    assert not process_exists(following)


def test_drawn_ports_are_known_before_the_broker_listens() -> None:
    """A listener of the test's own may be at any free port."""
    first = "PLAINTEXT://127.0.0.1:0"
    with Kafka({"listeners": first, "advertised.listeners": first}) as kafka:
        kafka.reset()
        prepared(kafka)
        kafka.reset()
        assert "127.0.0.1:0" not in kafka.log
