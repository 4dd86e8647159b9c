"""Findings about the committed offsets of groups.  No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kwire.client.checkup.finding import CheckGrade, ClusterFinding, named, quoted
from kwire.client.cluster import TopicPartition


class GroupOffset(NamedTuple):
    """A committed offset, and the offsets of the records that the partition has."""

    group: str
    partition: TopicPartition
    offset: int
    start: int
    end: int


def group_findings(committed: Sequence[GroupOffset]) -> Iterator[ClusterFinding]:
    """Yield findings about groups whose committed offsets are outside of the log.

    A consumer that begins there gets OFFSET_OUT_OF_RANGE, and auto.offset.reset decides.
    """
    below: dict[str, list[GroupOffset]] = {}
    beyond: dict[str, list[GroupOffset]] = {}
    for each in committed:
        if each.offset < each.start:
            below.setdefault(each.group, []).append(each)
        elif each.offset > each.end:
            beyond.setdefault(each.group, []).append(each)
    for group, places in below.items():
        count = sum(each.start - each.offset for each in places)
        yield ClusterFinding(
            CheckGrade.RISK,
            "records-deleted-unread",
            f"group {group}",
            f"{count} offsets of {_partitions(places)} were deleted before it read them; a consumer"
            " that begins there goes where auto.offset.reset says",
            f"kwire groups reset {quoted(group)} --topic {_topic(places)} --to-earliest, and a"
            " longer retention.ms",
        )
    for group, places in beyond.items():
        yield ClusterFinding(
            CheckGrade.RISK,
            "offset-beyond-end",
            f"group {group}",
            f"it has committed offsets beyond the end of {_partitions(places)}: the topic was"
            " created again, or records were lost; a consumer that begins there goes where"
            " auto.offset.reset says",
            f"kwire groups reset {quoted(group)} --topic {_topic(places)} --to-earliest",
        )


def _partitions(places: Sequence[GroupOffset]) -> str:
    return named([str(each.partition) for each in places], "partition")


def _topic(places: Sequence[GroupOffset]) -> str:
    """The first topic, for a command that takes one."""
    return quoted(places[0].partition.topic)
