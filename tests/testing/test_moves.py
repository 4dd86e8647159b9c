"""Leaders and coordinators that really move, in a cluster of brokers in a test's hands.

What stock clients make of it in many a scenario is in scenarios/test_moving.py.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kwire.testing import ControlError, Kafka, KafkaCluster, Topic
from tests.commands.forked import run_kwire
from tests.waiting import until

pytestmark = pytest.mark.slow

QUIET = {"log_level": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 20}
WAIT_S = 120


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: KafkaCluster) -> KafkaCluster:
    shared.faults.clear()
    return shared


@pytest.fixture
def topic(cluster: KafkaCluster, unique: str) -> Topic:
    return cluster.create_topic(unique)


def producer(cluster: KafkaCluster, **settings: str | int | bool) -> Producer:
    given = {"enable.idempotence": True, **QUIET, **settings}
    return Producer({"bootstrap.servers": cluster.bootstrap, **given})


def read(reader: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        message = reader.poll(1)
        if message is not None and not message.error():
            found.append(message.value())
    return found


def test_producer_follows_a_moved_leader(cluster: KafkaCluster, topic: Topic) -> None:
    sender = producer(cluster)
    order = [cluster.leader_of(topic.name)]
    for value in ("a", "b", "c"):
        sender.produce(topic.name, value)
        assert sender.flush(WAIT_S) == 0
        moved = cluster.move_leader(topic.name)
        assert (moved["from"], moved["to"]) == (order[-1], cluster.leader_of(topic.name))
        order.append(moved["to"])
    assert all(before != after for before, after in pairwise(order))
    topic.assert_holds(["a", "b", "c"])
    moves = [each for each in cluster.faults.happened if each.get("moved") == "leader"]
    assert [each["to"] for each in moves] == order[1:]
    epochs = [each["leader_epoch"] for each in moves]
    assert epochs == sorted(set(epochs)), "each leader has an epoch of its own"


def test_old_leader_answers_not_leader_after_a_move(cluster: KafkaCluster, topic: Topic) -> None:
    """Who has not heard of the move yet is told so, finds the new one, and is served there."""
    sender = producer(cluster)
    sender.produce(topic.name, "a")
    assert sender.flush(WAIT_S) == 0
    before = cluster.leader_of(topic.name)
    trace_at = cluster.brokers[before].control
    number = trace_at.post("/traces", {"api": "Produce", "topic": topic.name})["trace"]
    moved = cluster.move_leader(topic.name)
    sender.produce(topic.name, "b")
    assert sender.flush(WAIT_S) == 0
    seen = trace_at.get(f"/traces/{number}")["events"]
    assert seen[0]["errors"] == ["NOT_LEADER_OR_FOLLOWER"]
    assert moved["to"] == cluster.leader_of(topic.name)
    topic.assert_holds(["a", "b"])


def test_leader_moves_to_the_given_broker_or_is_refused(
    cluster: KafkaCluster, topic: Topic
) -> None:
    before = cluster.leader_of(topic.name)
    wanted = next(each for each in (3, 2, 1) if each != before)
    assert cluster.move_leader(topic.name, to=wanted)["to"] == wanted
    with pytest.raises(ControlError, match=f"broker {wanted} leads {topic.name}-0 already"):
        cluster.move_leader(topic.name, to=wanted)
    with pytest.raises(
        ControlError, match=r"broker 9 cannot lead .*: the other in-sync replicas are "
    ):
        cluster.move_leader(topic.name, to=9)
    with pytest.raises(ControlError, match="there is no nothing-0"):
        cluster.move_leader("nothing")


def test_broker_is_killed_by_the_death_request(cluster: KafkaCluster, topic: Topic) -> None:
    before = cluster.leader_of(topic.name)
    sender = producer(cluster)
    sender.produce(topic.name, "a")
    assert sender.flush(WAIT_S) == 0
    with pytest.raises(ControlError, match="no answer from"):
        cluster.brokers[before].control.post("/death")
    sender.produce(topic.name, "b")
    assert sender.flush(WAIT_S) == 0
    until(lambda: not cluster.brokers[before].running, "dead")
    cluster.brokers[before].start()
    cluster.wait_until_members()
    topic.assert_holds(["a", "b"])


def test_rule_without_client_does_not_match_followers(cluster: KafkaCluster, topic: Topic) -> None:
    with cluster.faults.add(disconnect=True, topic=topic.name) as lost:
        time.sleep(0.1)  # they fetch all the time
        lost.assert_happened(times=0)


def run(cluster: KafkaCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    address = cluster.brokers[2].control.address
    return run_kwire("fault", *arguments, "--control", address)


def test_move_commands_move_leader_and_coordinator(cluster: KafkaCluster, topic: Topic) -> None:
    before = cluster.leader_of(topic.name)
    done = run(cluster, "move-leader", "--topic", topic.name)
    until(lambda: cluster.leader_of(topic.name) != before, "told of by all")
    after = cluster.leader_of(topic.name)
    assert done.stdout.startswith(f"{topic.name}-0: from {before} to {after}, leader epoch ")
    done = run(cluster, "move-leader", "--topic", topic.name, "--to", str(after))
    assert done.returncode == 1
    assert f"broker {after} leads {topic.name}-0 already" in done.stderr
    cluster.topic(topic.name).seed(["a"])
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic.name, **QUIET})
    asked = [TopicPartition(topic.name, 0)]
    until(lambda: reader.committed(asked, WAIT_S), "a coordinator that knows that it is one")
    reader.close()
    done = run(cluster, "move-coordinator", "--group", topic.name)
    assert done.stdout.startswith("__consumer_offsets-")
    told = json.loads(run(cluster, "happened", "--json").stdout)
    assert told[0]["moved"] == "leader"
    assert "leader moved" in run(cluster, "happened").stdout
    assert run(cluster, "die").stdout == "the broker is dead\n"
    cluster.brokers[2].start()
    cluster.wait_until_members()


def test_single_broker_reloads_its_coordinator() -> None:
    with Kafka() as kafka:
        topic = kafka.create_topic("t")
        topic.seed(["a"])
        with pytest.raises(ControlError, match="this broker is not in a cluster: start one"):
            kafka.control.post("/leaders", {"topic": "t"})
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g", **QUIET}
        reader = Consumer({**settings, "auto.offset.reset": "earliest"})
        reader.subscribe(["t"])
        assert read(reader, 1) == [b"a"]
        reader.commit(asynchronous=False)
        slow = kafka.faults.add(
            disk="slow", on="read", topic="__consumer_offsets", delay_ms=200, times=2
        )
        kafka.reload_coordinator(group="g")
        slow.assert_happened(within_s=WAIT_S)
        topic.seed(["b"])
        assert read(reader, 1) == [b"b"]
        reader.close()
        kafka.wait_until_consumed("g")
