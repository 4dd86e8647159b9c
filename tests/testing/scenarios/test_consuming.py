"""Faults that befall who reads in a group: each record comes once, and what is committed is right.

Some are what issue trackers tell of: librdkafka #1195, #2630 and #2791 and platformatic/kafka #290
(a coordinator that is not asked for anew), KAFKA-6366 (commits while it is away).
"""

from __future__ import annotations

import time

from kwire.testing import Kafka, Topic
from tests.testing.scenarios.clients import Client, Clients, Refused, assert_refused
from tests.testing.scenarios.scenario import by_all

VALUES = [str(number) for number in range(10)]
PASSING = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "REBALANCE_IN_PROGRESS",
    "_WAIT_COORD",
    "_TRANSPORT",
)
"""What a client may leave to its caller, who tries again."""
GONE = (
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "CommitFailedException",
    "REBALANCE_IN_PROGRESS",
    "_ASSIGNMENT_LOST",
)
"""By which a member is told that its group has gone on without it."""
WAIT_S = 120


def commit(consumer: Client) -> None:
    """As its caller would, again where the error says that this may help."""
    deadline = time.monotonic() + WAIT_S
    while (refusal := refusal_of(consumer)) is not None:
        assert refusal.name in PASSING, refusal
        assert time.monotonic() < deadline, refusal


def refusal_of(consumer: Client) -> Refused | None:
    """Of a commit; None once it is done."""
    try:
        consumer.do("commit")
    except Refused as refused:
        return refused
    return None


@by_all
def test_a_truncated_fetch(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    fault = kafka.faults.add(api="Fetch", topic=topic.name, truncate=30, times=2)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    fault.assert_happened(times=2)


@by_all
def test_fetches_that_are_late_or_lost(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Java's consumer that has lost its only broker begins anew (KIP-899): it joins again, and goes
    on from what it has committed."""
    topic.seed(VALUES)
    script: list[dict[str, object]] = [
        {"disconnect": True},
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"delay_ms": 300, "carried_out": True},
        {"disconnect": True, "carried_out": True},
    ]
    fault = kafka.faults.add(api="Fetch", topic=topic.name, script=script)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    commit(consumer)
    topic.seed(["more"])
    assert consumer.poll(1) == ["more"]
    commit(consumer)
    fault.assert_happened(times=4)
    kafka.wait_until_consumed("g")


@by_all
def test_the_coordinator_moves_amid_a_commit(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    fault = kafka.faults.add("coordinator-moved", api="OffsetCommit", group="g", times=1)
    commit(consumer)
    fault.assert_happened(times=1)
    assert kafka.lag("g") == {topic.name: 0}


@by_all
def test_the_reply_to_a_commit_is_lost(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    fault = kafka.faults.add("lost-reply", api="OffsetCommit", group="g", times=1)
    commit(consumer)
    fault.assert_happened(times=1)
    assert kafka.lag("g") == {topic.name: 0}


@by_all
def test_the_coordinator_is_loaded_anew(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Really, from a disk that is slow: the group goes on where it was."""
    topic.seed(VALUES)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    commit(consumer)
    slow = kafka.faults.add(
        disk="slow", on="read", topic="__consumer_offsets", delay_ms=300, times=2
    )
    kafka.reload_coordinator(group="g")
    slow.assert_happened(within_s=WAIT_S)
    topic.seed(["more"])
    assert consumer.poll(1) == ["more"]
    commit(consumer)
    assert kafka.lag("g") == {topic.name: 0}


@by_all
def test_a_session_that_expires_by_the_clock(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Who was away for too long is told so when it commits; the next one begins where it was."""
    topic.seed(VALUES)
    consumer = clients.consumer(
        kafka, topic.name, "g", session_timeout_ms=30_000, heartbeat_ms=10_000
    )
    assert consumer.poll(10) == VALUES
    heartbeats = kafka.faults.add(api="Heartbeat", group="g", delay_ms=120_000)
    kafka.clock.advance(minutes=1)
    assert_refused(consumer.begin("commit"), *GONE)
    heartbeats.remove()
    consumer.begin("close")
    other = clients.consumer(kafka, topic.name, "g")
    assert other.poll(10) == VALUES, "nothing was committed"
    commit(other)
    assert kafka.lag("g") == {topic.name: 0}


@by_all
def test_records_that_are_gone(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """Where it wants to go on there is nothing any more: it is reset to what there is."""
    topic.seed(VALUES)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(1)[:1] == VALUES[:1]
    clients.admin(kafka).do("delete_records", topic=topic.name, partition=0, before=8)
    other = clients.consumer(kafka, topic.name, "h")
    assert other.poll(2) == VALUES[8:]


@by_all
def test_an_offset_out_of_range(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    error = "OFFSET_OUT_OF_RANGE"
    fault = kafka.faults.add(api="Fetch", topic=topic.name, error=error, times=1)
    consumer = clients.consumer(kafka, topic.name, "g")
    assert consumer.poll(10) == VALUES
    fault.assert_happened(times=1)


@by_all
def test_a_coordinator_that_nobody_finds(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    script: list[dict[str, object]] = [
        {"error": "COORDINATOR_NOT_AVAILABLE"},
        {"disconnect": True},
        {"error": "COORDINATOR_NOT_AVAILABLE"},
    ]
    fault = kafka.faults.add(api="FindCoordinator", script=script)
    assert clients.consumer(kafka, topic.name, "g").poll(10) == VALUES
    fault.assert_happened(times=3)


@by_all
def test_no_beginning_is_told(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    fault = kafka.faults.add("leader-moved", api="ListOffsets", topic=topic.name, times=2)
    assert clients.consumer(kafka, topic.name, "g").poll(10) == VALUES
    fault.assert_happened(times=2)


@by_all
def test_committed_offsets_that_are_not_told(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """It goes on behind what was committed, and not at the beginning.

    librdkafka 2.16 is not told of a coordinator that has moved: it asked nobody again in 90 s.
    """
    topic.seed(VALUES)
    first = clients.consumer(kafka, topic.name, "g")
    assert first.poll(10) == VALUES
    commit(first)
    first.do("close")
    topic.seed(["more"])
    script: list[dict[str, object]] = [
        {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
        {"disconnect": True},
    ]
    if clients.language != "python":
        script.append({"error": "NOT_COORDINATOR"})
    fault = kafka.faults.add(api="OffsetFetch", group="g", client="*", script=script)
    assert clients.consumer(kafka, topic.name, "g").poll(1) == ["more"]
    fault.assert_happened(times=len(script))


@by_all
def test_a_group_that_is_joined_with_trouble(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    topic.seed(VALUES)
    faults = [
        kafka.faults.add("coordinator-loading", api="JoinGroup", group="g", times=1),
        kafka.faults.add(api="JoinGroup", group="g", disconnect=True, carried_out=True, times=1),
        kafka.faults.add(api="SyncGroup", group="g", error="REBALANCE_IN_PROGRESS", times=1),
    ]
    consumer = clients.consumer(kafka, topic.name, "g", session_timeout_ms=6000)
    assert consumer.poll(10) == VALUES
    for fault in faults:
        fault.assert_happened(times=1)


@by_all
def test_what_is_not_committed_is_not_read(clients: Clients, kafka: Kafka, topic: Topic) -> None:
    """A transaction whose end is lost hides what is behind it, until it is tried again."""
    producer = clients.producer(kafka, transactional_id="x")
    producer.do("init")
    producer.do("begin")
    producer.send(topic.name, "a")
    topic.seed(["b"])
    consumer = clients.consumer(kafka, topic.name, "g", isolation="read_committed")
    assert consumer.poll(1, timeout_s=1) == []
    kafka.faults.add(api="EndTxn", transactional_id="x", disconnect=True, times=1)
    producer.do("commit")
    assert consumer.poll(2) == ["a", "b"]
