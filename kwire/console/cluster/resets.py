"""A reset of a group's offsets: first the preview, then the reset of the same partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.groups import SHARE, commit_offsets, delete_group, describe_group, fetch_offsets
from kwire.client.offsets import end_offsets, start_offsets
from kwire.client.reset import Target, plan_reset
from kwire.client.share_groups import alter_share_offsets, share_offsets

TARGETS: Final[Mapping[str, Target]] = {
    "earliest": Target.EARLIEST,
    "latest": Target.LATEST,
    "offset": Target.OFFSET,
    "datetime": Target.TIMESTAMP,
    "shift": Target.SHIFT,
}
"""The kinds of resets by their names in a form."""
NUMBER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ResetChoice:
    """What a form asks for."""

    target: str
    """A name of TARGETS."""
    value: str = ""
    """The offset, the number of records, or the time, as text."""
    topics: Sequence[str] = ()
    """The topics to reset; empty for all with an offset."""

    def number(self) -> int:
        """The value as `plan_reset` takes it.  Raises Misuse."""
        if self.target == "datetime":
            return time_ms(self.value)
        if self.target in ("earliest", "latest"):
            return 0
        try:
            number = int(self.value)
        except ValueError:
            raise Misuse(f"{self.value[:60]!r} is not a whole number") from None
        if abs(number) > NUMBER_MAX or (self.target == "offset" and number < 0):
            raise Misuse(f"{self.value[:60]} is not an offset")
        return number


@dataclass(frozen=True, slots=True)
class PlannedReset:
    """The new offset of one partition."""

    partition: TopicPartition
    committed: int | None
    new: int
    start_offset: int
    end_offset: int

    @property
    def moved(self) -> int | None:
        """By how many records the group goes on, or back if negative."""
        return None if self.committed is None else self.new - self.committed

    @property
    def lag(self) -> int:
        """The lag after the reset."""
        return max(0, self.end_offset - self.new)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The preview of a reset."""

    group_id: str
    type: str
    state: str
    members: int
    choice: ResetChoice
    rows: Sequence[PlannedReset]

    @property
    def words(self) -> Sequence[str]:
        """The words of the `kwire` command that does the same."""
        option = {
            "earliest": ["--to-earliest"],
            "latest": ["--to-latest"],
            "offset": ["--to-offset", self.choice.value],
            "datetime": ["--to-datetime", self.choice.value],
            "shift": [f"--shift-by={self.choice.value}"],
        }[self.choice.target]
        topics = [word for topic in self.choice.topics for word in ("--topic", topic)]
        return ["groups", "reset", self.group_id, *(topics or ["--all-topics"]), *option]

    @property
    def back(self) -> int:
        """How many records the group would read again."""
        return sum(-row.moved for row in self.rows if row.moved is not None and row.moved < 0)

    @property
    def skipped(self) -> int:
        """How many records the group would never read."""
        return sum(row.moved for row in self.rows if row.moved is not None and row.moved > 0)


def preview(cluster: Cluster, group_id: str, choice: ResetChoice) -> ResetPlan:
    """The new offsets that a reset would set; changes nothing.  Raises ClientError."""
    if choice.target not in TARGETS:
        raise Misuse(f"a reset goes to {', '.join(TARGETS)}, not {choice.target[:60]!r}")
    group = describe_group(cluster, group_id)
    committed = _committed(cluster, group_id, is_share=group.type == SHARE)
    partitions = sorted(committed)
    if choice.topics:
        partitions = [
            TopicPartition(topic, each.partition_index)
            for topic in choice.topics
            for each in cluster.topic(topic).partitions
        ]
    new = plan_reset(cluster, committed, partitions, TARGETS[choice.target], choice.number())
    starts, ends = start_offsets(cluster, new), end_offsets(cluster, new)
    rows = [
        PlannedReset(place, committed.get(place), offset, starts[place], ends[place])
        for place, offset in sorted(new.items())
    ]
    return ResetPlan(group_id, group.type, group.state, len(group.members), choice, rows)


def carry_out(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the offsets of a preview.  The group must have no members.  Raises ClientError."""
    if describe_group(cluster, group_id).type == SHARE:
        alter_share_offsets(cluster, group_id, offsets)
    else:
        commit_offsets(cluster, group_id, offsets)


def delete(cluster: Cluster, group_id: str) -> None:
    """Delete a group without members, and its offsets.  Raises ClientError."""
    delete_group(cluster, group_id)


def _committed(cluster: Cluster, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
    """The committed offsets of a group, or the start offsets of a share group."""
    if is_share:
        shares = share_offsets(cluster, group_id).items()
        return {each: at.start_offset for each, at in shares if at.start_offset is not None}
    return {each: at.offset for each, at in fetch_offsets(cluster, group_id).items()}


def time_ms(text: str) -> int:
    """The time of a text such as `2026-03-01T12:00` (UTC), or ms since 1970.  Raises Misuse."""
    text = text.strip()
    if text.isascii() and text.isdigit() and 9 <= len(text) <= 15:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"{text[:60]!r} is not a time such as 2026-03-01T12:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise Misuse("records have no timestamps before 1970")
    return milliseconds
