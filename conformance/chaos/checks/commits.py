"""Committed offsets: monotonic by group and partition, never ahead of what was processed.

`commit` {group, offsets: [[partition, offset], ...]}: a member's commit; `fail` is only for what
the coordinator refused.
`committed` {group} -> {offsets: [[partition, offset], ...]}: what somebody was told; partitions
without a committed offset are not in it.
Where a member begins to read a partition that it was assigned is one more look at what is
committed, or a little behind it where control records are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Type


class Look(NamedTuple):
    """Somebody asked between two points in time and was told `offset`."""

    group: str
    partition: str
    offset: int
    asked_ns: int
    told_ns: int
    who: str


class Steps:
    """The largest value known up to a point in time."""

    def __init__(self, known: list[tuple[int, int]]) -> None:
        self._times: list[int] = []
        self._values: list[int] = []
        for time_ns, value in sorted(known):
            self._times.append(time_ns)
            self._values.append(max(value, self._values[-1] if self._values else value))

    def before(self, time_ns: int, default: int) -> int:
        """The largest of those known before `time_ns`."""
        position = bisect_left(self._times, time_ns)
        return self._values[position - 1] if position else default


def committed_offsets_never_go_back(history: History) -> Iterator[Violation]:
    """Below a commit that was acknowledged, or a look that was answered, before the look began."""
    known: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for commit in history.operations("commit"):
        if commit.ok and commit.ended_ns is not None:
            for partition, offset in commit.asked["offsets"]:
                known[commit.asked["group"], partition].append((commit.ended_ns, offset))
    for look in _told(history):
        known[look.group, look.partition].append((look.told_ns, look.offset))
    floors = {key: Steps(values) for key, values in known.items()}
    for look in (*_told(history), *_begun(history)):
        steps = floors.get((look.group, look.partition))
        floor = steps.before(look.asked_ns, 0) if steps else 0
        if look.offset < floor:
            yield Violation(
                "commit went back",
                f"{look.group} {look.partition}: {look.who} was told {look.offset} after {floor}",
            )


def committed_offsets_were_processed(history: History) -> Iterator[Violation]:
    """No member was told an offset behind what the group's members had read by then."""
    read: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for poll in history.operations("poll"):
        for partition, offset, *_ in poll.answered.get("records", ()):
            # From when the poll began: it was handed out within, and noted a little later.
            read[poll.asked["group"], partition].append((poll.invoked_ns, offset + 1))
    processed = {key: Steps(values) for key, values in read.items()}
    for look in _told(history):
        steps = processed.get((look.group, look.partition))
        done = steps.before(look.told_ns, 0) if steps else 0
        if look.offset > done:
            yield Violation(
                "commit ahead",
                f"{look.group} {look.partition}: {look.who} was told {look.offset}, but only"
                f" what is before {done} was processed",
            )


def refused_commits_do_not_show(history: History) -> Iterator[Violation]:
    """An offset that was told is one that somebody's commit, not refused, has asked for."""
    asked: dict[tuple[str, str], set[int]] = defaultdict(set)
    for commit in history.operations("commit"):
        if commit.type is not Type.FAIL:
            for partition, offset in commit.asked["offsets"]:
                asked[commit.asked["group"], partition].add(offset)
    for look in _told(history):
        if look.offset not in asked[look.group, look.partition]:
            yield Violation(
                "commit from nowhere",
                f"{look.group} {look.partition}: {look.who} was told {look.offset}",
            )


def _told(history: History) -> Iterator[Look]:
    for look in history.operations("committed"):
        if look.ok and look.ended_ns is not None:
            for partition, offset in look.answered["offsets"]:
                group = look.asked["group"]
                yield Look(group, partition, offset, look.invoked_ns, look.ended_ns, look.process)


def _begun(history: History) -> Iterator[Look]:
    """The first offset that a member read of each partition after it was assigned."""
    assigned: dict[tuple[str, str], tuple[int, str]] = {}
    for event in history.events:
        if event.f == "assign" and event.type is Type.INVOKE:
            for partition in event.value["partitions"]:
                assigned[event.process, partition] = event.time_ns, event.value["group"]
        elif event.f == "revoke" and event.type is Type.INVOKE:
            for partition in event.value["partitions"]:
                assigned.pop((event.process, partition), None)
        elif event.f == "poll" and event.type is Type.OK:
            for partition, offset, *_ in event.value["records"]:
                given = assigned.pop((event.process, partition), None)
                if given is not None:
                    since, group = given
                    yield Look(group, partition, offset, since, event.time_ns, event.process)


COMMIT_CHECKS = (
    committed_offsets_never_go_back,
    committed_offsets_were_processed,
    refused_commits_do_not_show,
)
