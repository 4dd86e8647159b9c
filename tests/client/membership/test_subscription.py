"""Subscriptions and assignments of a group's members, and the range assignor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.client.cluster import TopicPartition
from kwire.client.membership.subscription import (
    assign_ranges,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)

topics = st.sampled_from(["a", "b", "c"])
wishes = st.dictionaries(st.text("mno", min_size=1), st.sets(topics), min_size=1, max_size=6)
counts = st.dictionaries(topics, st.integers(0, 9))


def test_assign_ranges_assigns_as_kafkas_range_assignor() -> None:
    """Of seven partitions among three members the first by name gets three; each gets a range."""
    assigned = assign_ranges({"m2": ["t"], "m1": ["t"], "m3": ["t", "u"]}, {"t": 7, "u": 1})
    assert assigned["m1"] == [TopicPartition("t", index) for index in (0, 1, 2)]
    assert assigned["m2"] == [TopicPartition("t", index) for index in (3, 4)]
    assert assigned["m3"] == [TopicPartition("t", index) for index in (5, 6)] + [
        TopicPartition("u", 0)
    ]


@given(wishes, counts)
def test_assign_ranges_gives_each_partition_to_one_subscribed_member(
    wished: dict[str, set[str]], partition_counts: dict[str, int]
) -> None:
    assigned = assign_ranges(wished, partition_counts)
    given_out = [partition for partitions in assigned.values() for partition in partitions]
    wanted = {topic for topics_of_one in wished.values() for topic in topics_of_one}
    expected = {
        TopicPartition(topic, index)
        for topic, count in partition_counts.items()
        for index in range(count)
        if topic in wanted
    }
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == expected
    for member, partitions in assigned.items():
        assert {partition.topic for partition in partitions} <= wished[member]


@given(st.sets(st.text(min_size=1)), st.sets(st.builds(TopicPartition, topics, st.integers(0, 99))))
def test_written_subscription_and_assignment_are_read_back(
    names: set[str], partitions: set[TopicPartition]
) -> None:
    assert read_subscription(write_subscription(names)) == sorted(names)
    assert read_assignment(write_assignment(partitions)) == sorted(partitions)


def test_read_subscription_reads_newer_versions() -> None:
    """Version 3 as the Java client 4.3 writes it: topics, user data, owned, generation, rack."""
    data = bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 00000005 ffff")
    assert read_subscription(data) == ["t"]


def test_read_subscription_reads_future_versions() -> None:
    """Later versions only append fields."""
    data = bytes.fromhex("0009 00000001 0001 74 ffffffff 00000000 00000005 ffff 1234")
    assert read_subscription(data) == ["t"]


def test_read_assignment_of_no_bytes_is_empty() -> None:
    assert read_assignment(b"") == []
