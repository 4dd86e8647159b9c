"""Groups as the pages show them."""

from __future__ import annotations

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer, Reset
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.groups import GroupDescription, commit_offsets, fetch_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.console.cluster.groups import (
    MemberRow,
    PartitionRow,
    describe,
    group_rows,
    list_groups,
    notes_on,
)
from kwire.console.cluster.resets import ResetChoice, carry_out, preview, time_ms


@pytest.fixture
def topic(cluster: Cluster, unique: str) -> str:
    """A topic with 10 records in partition 0 and none in partition 1."""
    create_topic(cluster, unique, partitions=2)
    producer = Producer(cluster)
    for number in range(10):
        producer.send(unique, None, str(number).encode(), partition=0)
    producer.flush()
    return unique


def test_list_has_members_lag_and_topics_of_each_group(cluster: Cluster, topic: str) -> None:
    commit_offsets(cluster, topic, {TopicPartition(topic, 0): 4})
    listed = [each for each in list_groups(cluster).groups if each.group_id == topic]
    [row] = group_rows(cluster, listed)
    assert (row.type, row.state, row.members, row.lag) == ("classic", "Empty", 0, 6)
    assert (row.topics, row.trouble) == ([topic], None)


def test_page_of_a_consumer_group_has_members_targets_and_progress(
    cluster: Cluster, topic: str
) -> None:
    consumer = Consumer(cluster, reset=Reset.EARLIEST)
    consumer.subscribe(topic, [topic], consumer_protocol=True)
    while not consumer.positions:
        consumer.poll(0.1)
    page = describe(cluster, topic)
    consumer.close()
    assert (page.type, page.state, page.assignor) == ("consumer", "Stable", "uniform")
    assert page.epoch is not None
    assert page.epoch == page.assignment_epoch
    [member] = page.members
    assert member.by_topic == {topic: [0, 1]}
    assert (member.adding, member.revoking, member.epoch) == ([], [], page.epoch)
    assert [(row.partition.partition, row.end_offset) for row in page.partitions] == [
        (0, 10),
        (1, 0),
    ]
    assert all(row.members == [member.member_id] for row in page.partitions)


def test_page_of_an_unknown_group_is_refused(cluster: Cluster, unique: str) -> None:
    with pytest.raises(BrokerRefused, match="GROUP_ID_NOT_FOUND"):
        describe(cluster, unique)


def test_preview_of_a_reset_shows_what_is_read_again_and_changes_nothing(
    cluster: Cluster, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    commit_offsets(cluster, topic, {place: 4})
    plan = preview(cluster, topic, ResetChoice("earliest"))
    [row] = plan.rows
    assert (row.committed, row.new, row.moved, row.lag) == (4, 0, -4, 10)
    assert (plan.back, plan.skipped) == (4, 0)
    assert plan.words == ["groups", "reset", topic, "--all-topics", "--to-earliest"]
    assert fetch_offsets(cluster, topic)[place].offset == 4
    plan = preview(cluster, topic, ResetChoice("offset", "7", [topic]))
    assert [(each.committed, each.new) for each in plan.rows] == [(4, 7), (None, 0)]
    assert plan.skipped == 3
    carry_out(cluster, topic, {each.partition: each.new for each in plan.rows})
    assert fetch_offsets(cluster, topic)[place].offset == 7
    plan = preview(cluster, topic, ResetChoice("shift", "-2"))
    assert [each.new for each in plan.rows] == [5, 0]
    assert plan.words[-1] == "--shift-by=-2"


def test_reset_with_an_invalid_value_is_refused(cluster: Cluster, topic: str) -> None:
    commit_offsets(cluster, topic, {TopicPartition(topic, 0): 4})
    for choice, reason in (
        (ResetChoice("offset", "x"), "is not a whole number"),
        (ResetChoice("offset", "-1"), "is not an offset"),
        (ResetChoice("shift", "9" * 30), "is not an offset"),
        (ResetChoice("datetime", "soon"), "is not a time"),
        (ResetChoice("sideways"), "a reset goes to"),
    ):
        with pytest.raises(Misuse, match=reason):
            preview(cluster, topic, choice)


def test_times_are_utc_without_a_zone() -> None:
    assert time_ms("2026-03-01T12:00") == 1772366400000
    assert time_ms("2026-03-01T13:00+01:00") == 1772366400000
    assert time_ms(" 1772366400000 ") == 1772366400000
    with pytest.raises(Misuse, match="before 1970"):
        time_ms("1969-12-31T00:00")


def member(name: str, epoch: int | None = 3, *, reads: bool = True) -> MemberRow:
    places = [TopicPartition("t", 0)] if reads else []
    return MemberRow(name, name, "/127.0.0.1", None, "consumer", epoch, places, (), ())


def progress(
    partition: int, *, offset: int, start: int = 0, members: tuple[str, ...] = ()
) -> PartitionRow:
    return PartitionRow(TopicPartition("t", partition), offset, start, 100, 100 - offset, members)


def test_notes_say_what_a_group_waits_for() -> None:
    group = GroupDescription(
        "g", "consumer", "Reconciling", "uniform", 1, epoch=4, assignment_epoch=4
    )
    rows = [progress(0, offset=50, members=("a",)), progress(1, offset=10, start=30)]
    notes = notes_on(group, [member("a", 3), member("b", 4, reads=False)], rows)
    assert notes == [
        "Members give up and take over partitions, to reach the target assignment.",
        "1 of 2 members have not reached the target assignment: a.",
        "No member reads t-1, where the group has lag.",
        "Records of t-1 were deleted before the group read them (retention).",
    ]


def test_notes_of_a_stable_group_name_idle_members_and_nothing_else() -> None:
    group = GroupDescription("g", "classic", "Stable", "range", 1)
    rows = [progress(0, offset=100, members=("a",))]
    assert notes_on(group, [member("a", None)], rows) == []
    [note] = notes_on(group, [member("a", None), member("b", None, reads=False)], rows)
    assert note.startswith("1 of 2 members have nothing to read")


def test_notes_of_a_group_without_members_name_its_lag() -> None:
    group = GroupDescription("g", "classic", "Empty", "", 1)
    assert notes_on(group, [], [progress(0, offset=100)]) == []
    assert notes_on(group, [], [progress(0, offset=99)]) == [
        "The group has lag and no members: nobody reads."
    ]
