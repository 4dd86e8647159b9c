"""Tests groups of confluent-kafka members: assignments, protocols, joining and leaving."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from tests.clients.librdkafka import (
    TIMEOUT_S,
    consumer,
    create_topic,
    produce,
    take,
    values,
    wait_until,
)

pytestmark = pytest.mark.slow

STRATEGY = "partition.assignment.strategy"
BRISK = {"heartbeat.interval.ms": 300}


def held(member: Consumer) -> set[tuple[str, int]]:
    return {(each.topic, each.partition) for each in member.assignment()}


def described(bootstrap: str, group: str) -> ConsumerGroupDescription:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: ConsumerGroupDescription = admin.describe_consumer_groups([group])[group].result(
        TIMEOUT_S
    )
    return found


def error_of(member: Consumer) -> int:
    """The code of the next error that the member reports."""
    message = member.poll(TIMEOUT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    return error.code()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_no_record_is_missed_while_members_join_and_leave(
    bootstrap: str, unique: str, strategy: str
) -> None:
    """The new owner of a partition begins at the offset that the old one committed."""
    create_topic(bootstrap, unique, partitions=6)
    producer = Producer({"bootstrap.servers": bootstrap})
    settings = {STRATEGY: strategy, **BRISK, "auto.commit.interval.ms": 100}
    sent, seen = 0, Counter[int]()

    def send_some() -> None:
        nonlocal sent
        for _ in range(200):
            producer.produce(unique, str(sent).encode(), partition=sent % 6)
            sent += 1
        assert producer.flush(TIMEOUT_S) == 0

    def read_all(*members: Consumer) -> None:
        """Read all records and wait until the group is stable, so that members leave in order."""

        def done() -> bool:
            for member in members:
                while message := member.poll(0.02):
                    assert message.error() is None
                    seen.update(values([message]))
            shares = [len(member.assignment()) for member in members]
            return len(seen) == sent and sum(shares) == 6 and min(shares) >= 6 // len(members)

        wait_until(done)

    with consumer(bootstrap, unique, **settings) as first:
        first.subscribe([unique])
        for others in (1, 3, 2):
            with ExitStack() as stack:
                members = [first]
                for _ in range(others):
                    members.append(stack.enter_context(consumer(bootstrap, unique, **settings)))
                    members[-1].subscribe([unique])
                    send_some()
                    read_all(*members)
            send_some()
            read_all(first)
    assert set(seen) == set(range(sent))
    with consumer(bootstrap, unique) as late:
        ends = late.committed([TopicPartition(unique, number) for number in range(6)], TIMEOUT_S)
    assert sum(each.offset for each in ends) == sent


def test_member_without_a_common_protocol_is_refused(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=2)
    with (
        consumer(bootstrap, unique, **{STRATEGY: "range", **BRISK}) as first,
        consumer(bootstrap, unique, **{STRATEGY: "roundrobin", **BRISK}) as second,
    ):
        first.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 2, first)
        second.subscribe([unique])
        assert error_of(second) == KafkaError.INCONSISTENT_GROUP_PROTOCOL
        produce(bootstrap, unique, 10)
        assert sorted(values(take(first, 10))) == list(range(10))
        assert len(first.assignment()) == 2


def test_group_uses_a_protocol_that_all_members_support(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, partitions=4)
    with (
        consumer(bootstrap, unique, **{STRATEGY: "range,roundrobin", **BRISK}) as first,
        consumer(bootstrap, unique, **{STRATEGY: "roundrobin", **BRISK}) as second,
    ):
        first.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 4, first)
        assert described(bootstrap, unique).partition_assignor == "range"
        second.subscribe([unique])
        wait_until(lambda: len(first.assignment()) == 2 == len(second.assignment()), first, second)
        group = described(bootstrap, unique)
        assert (group.partition_assignor, group.state) == ("roundrobin", ConsumerGroupState.STABLE)
        assert len(group.members) == 2


def test_members_with_different_topics_get_partitions_of_their_own(
    bootstrap: str, unique: str
) -> None:
    """Each member gets partitions of its topics only, and more if it has more topics."""
    one, two = f"{unique}-one", f"{unique}-two"
    create_topic(bootstrap, one, partitions=2)
    create_topic(bootstrap, two, partitions=2)
    with consumer(bootstrap, unique, **BRISK) as first, consumer(bootstrap, unique) as second:
        first.subscribe([one])
        second.subscribe([two])
        wait_until(lambda: held(first) == {(one, 0), (one, 1)}, first, second)
        wait_until(lambda: held(second) == {(two, 0), (two, 1)}, first, second)
        first.subscribe([one, two])
        wait_until(lambda: len(held(first)) == 3 and len(held(second)) == 1, first, second)


def test_groups_read_the_same_topic_independently(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 20)
    groups = [
        unique,
        f"{unique} with spaces",
        f"{unique}/gr\N{LATIN SMALL LETTER U WITH DIAERESIS}",
    ]
    with ExitStack() as stack:
        members = [stack.enter_context(consumer(bootstrap, group)) for group in groups]
        for number, member in enumerate(members):
            member.subscribe([unique])
            assert values(take(member, 5 + number)) == list(range(5 + number))
            member.commit(asynchronous=False)
    for number, group in enumerate(groups):
        with consumer(bootstrap, group) as member:
            (committed,) = member.committed([TopicPartition(unique, 0)], TIMEOUT_S)
            assert committed.offset == 5 + number


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_session_timeout_outside_the_brokers_limits_is_refused(
    bootstrap: str, unique: str, session_timeout_ms: int
) -> None:
    """`group.min.session.timeout.ms` and `group.max.session.timeout.ms` are 6 s and 30 min."""
    create_topic(bootstrap, unique)
    settings = {
        "session.timeout.ms": session_timeout_ms,
        "max.poll.interval.ms": max(300_000, session_timeout_ms),
    }
    with consumer(bootstrap, unique, **settings) as member:
        member.subscribe([unique])
        assert error_of(member) == KafkaError.INVALID_SESSION_TIMEOUT


def test_member_without_partitions_takes_over_from_a_leaving_one(
    bootstrap: str, unique: str
) -> None:
    """A member without partitions gets some when another one leaves."""
    create_topic(bootstrap, unique, partitions=1)
    with consumer(bootstrap, unique, **BRISK) as idle:
        with consumer(bootstrap, unique, **BRISK) as works:
            works.subscribe([unique])
            wait_until(lambda: len(works.assignment()) == 1, works)
            idle.subscribe([unique])
            wait_until(lambda: len(described(bootstrap, unique).members) == 2, works, idle)
            wait_until(lambda: len(works.assignment()) + len(idle.assignment()) == 1, works, idle)
        wait_until(lambda: len(idle.assignment()) == 1, idle)


def test_offsets_of_a_group_without_members_remain(bootstrap: str, unique: str) -> None:
    produce(bootstrap, unique, 4)
    with consumer(bootstrap, unique) as member:
        member.subscribe([unique])
        take(member, 4)
    group = described(bootstrap, unique)
    assert (group.state, group.members) == (ConsumerGroupState.EMPTY, [])
    with consumer(bootstrap, unique) as member:
        (committed,) = member.committed([TopicPartition(unique, 0)], TIMEOUT_S)
        assert committed.offset == 4
