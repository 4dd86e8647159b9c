"""Members that join a group at once, and what follows of it, are replayed as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kwire.client.cluster import Cluster
from kwire.client.connection import BrokerConnection
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.testing import Kafka, Snapshot
from kwire.testing.clock import Clock
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow

TOPIC = "orders"
PARTITIONS = 6
RECORDS = 60
PATIENCE_S = 120
OF_GROUPS = {
    "group.consumer.assignment.interval.ms": "0",  # heartbeats of threads come at any time in it
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(OF_GROUPS) as kafka:
        yield kafka


class Members:
    """Consumers of one group, each in a thread, until all is read and dealt out."""

    def __init__(self, bootstrap: str, protocol: str, count: int) -> None:
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **({"heartbeat.interval.ms": 300} if protocol == "classic" else {}),
        }
        self._read: set[tuple[int | None, int | None]] = set()
        self._dealt = [0] * count
        self._over = threading.Event()

    def run(self) -> None:
        """All begin now."""
        threads = [
            threading.Thread(target=self._consume, args=(number,))
            for number in range(len(self._dealt))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self._is_over()

    def _consume(self, number: int) -> None:
        consumer = Consumer(self._settings | {"client.id": f"member-{number}"})
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + PATIENCE_S
        while not self._over.is_set() and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                self._read.add((message.partition(), message.offset()))
            self._dealt[number] = len(consumer.assignment())
            if self._is_over():
                self._over.set()
        consumer.close()

    def _is_over(self) -> bool:
        all_have_some = all(self._dealt) and sum(self._dealt) == PARTITIONS
        return self._over.is_set() or (all_have_some and len(self._read) == RECORDS)


def by_command(kafka: Kafka, trace: Path) -> str:
    """What `kwire trace replay` says."""
    at = [f"-b{kafka.bootstrap}", f"--control=http://127.0.0.1:{kafka.control_port}"]
    done = run_kwire("trace", "replay", str(trace), *at)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def recorded(
    kafka: Kafka, protocol: str, members: int, trace: Path
) -> Iterator[tuple[Snapshot, int]]:
    """What the broker held before they joined, and how many requests the trace has."""
    kafka.reset()
    kafka.create_topic(TOPIC, partitions=PARTITIONS).seed(range(RECORDS))
    with kafka.snapshot() as begun:
        with kafka.trace(keep_bytes=True) as seen:
            Members(kafka.bootstrap, protocol, members).run()
        seen.save(trace)
        assert seen.dropped == 0
        yield begun, len(seen.events)


@pytest.mark.parametrize("replays", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_that_joined_together_join_together_again(
    kafka: Kafka, tmp_path: Path, protocol: str, members: int, replays: int
) -> None:
    trace = tmp_path / "trace.jsonl"
    with recorded(kafka, protocol, members, trace) as (begun, requests):
        for _ in range(replays):
            kafka.restore(begun)
            outcome = kafka.replay(trace)
            outcome.assert_same()
            assert outcome.sent == outcome.compared == requests
            assert not kafka.clock.is_held


def test_replay_keeps_the_time_between_heartbeats_and_an_assignment(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with Kafka({"group.consumer.assignment.interval.ms": "1000"}) as kafka:
        kafka.create_topic(TOPIC, partitions=PARTITIONS)
        with kafka.snapshot() as begun:
            with kafka.trace(keep_bytes=True) as seen, Cluster(kafka.bootstrap) as cluster:
                coordinator = cluster.coordinator("readers")
                with kafka.clock.held():
                    told = [len(assigned) for assigned in heartbeats(kafka.clock, coordinator)]
            seen.save(trace)
            assert told == [PARTITIONS, 0, 0, PARTITIONS // 2]
            kafka.restore(begun)
            kafka.replay(trace).assert_same()


def heartbeats(clock: Clock, coordinator: BrokerConnection) -> Iterator[list[int]]:
    """The partitions that each response assigns.  Two members join; of the first one's heartbeats,
    one comes 3 ms before the next assignment is computed, and one 3 ms after."""
    first = member(coordinator, "first", 0, [TOPIC])
    yield partitions_in(first)
    yield partitions_in(member(coordinator, "second", 0, [TOPIC]))
    clock.advance(seconds=0.997)
    yield partitions_in(member(coordinator, "first", first.member_epoch))
    clock.advance(seconds=0.006)
    yield partitions_in(member(coordinator, "first", first.member_epoch))


def member(
    coordinator: BrokerConnection, member_id: str, epoch: int, topics: list[str] | None = None
) -> ConsumerGroupHeartbeatResponse:
    """The response to a member's heartbeat: to its first one if it names topics."""
    request = ConsumerGroupHeartbeatRequest("readers", member_id, epoch)
    if topics is not None:
        request.rebalance_timeout_ms = 300_000
        request.subscribed_topic_names = topics
        request.topic_partitions = []
    response: ConsumerGroupHeartbeatResponse = coordinator.call(request)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response


def partitions_in(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    topics = response.assignment.topic_partitions if response.assignment else []
    return [partition for topic in topics for partition in topic.partitions]


def test_replay_command_advances_the_clock(kafka: Kafka, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with recorded(kafka, "classic", 2, trace) as (begun, requests):
        kafka.restore(begun)
        assert f"{requests} the same, 0 not" in by_command(kafka, trace)
