"""Checks of committed offsets: they never decrease, and never exceed what was processed.

`commit` {group, offsets: [[partition, offset], ...]}: a member's commit; `fail` only if the
coordinator refused it. `committed` {group} -> {offsets: [[partition, offset], ...]}: the committed
offsets at some moment; partitions without one are missing.

The offset at which a member starts to read an assigned partition shows its committed offset, too;
it may be a little higher because of control records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Type


class Look(NamedTuple):
    """An observation of a committed offset, between two points in time."""

    group: str
    partition: str
    offset: int
    asked_ns: int
    told_ns: int
    who: str


class RunningMaximum:
    """The largest of timed values known up to a point in time."""

    def __init__(self, known: list[tuple[int, int]]) -> None:
        self._times: list[int] = []
        self._values: list[int] = []
        for time_ns, value in sorted(known):
            self._times.append(time_ns)
            self._values.append(max(value, self._values[-1] if self._values else value))

    def before(self, time_ns: int, default: int) -> int:
        """Return the largest value known before `time_ns`."""
        position = bisect_left(self._times, time_ns)
        return self._values[position - 1] if position else default


def committed_offsets_never_go_back(history: History) -> Iterator[Violation]:
    """Check that an offset is at least as high as earlier acknowledged commits and earlier
    observations."""
    known: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for commit in history.operations("commit"):
        if commit.ok and commit.ended_ns is not None:
            for partition, offset in commit.arguments["offsets"]:
                known[commit.arguments["group"], partition].append((commit.ended_ns, offset))
    for look in _committed_offsets(history):
        known[look.group, look.partition].append((look.told_ns, look.offset))
    floors = {key: RunningMaximum(values) for key, values in known.items()}
    for look in (*_committed_offsets(history), *_first_offsets(history)):
        steps = floors.get((look.group, look.partition))
        floor = steps.before(look.asked_ns, 0) if steps else 0
        if look.offset < floor:
            yield Violation(
                "commit went back",
                f"{look.group} {look.partition}: {look.who} got {look.offset} after {floor}",
            )


def committed_offsets_were_processed(history: History) -> Iterator[Violation]:
    """Check that no committed offset is beyond the records that the group's members had read by
    then."""
    read: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for poll in history.operations("poll"):
        for partition, offset, *_ in poll.result.get("records", ()):
            # The records count from the begin of the poll, since the history has them a little
            # later.
            read[poll.arguments["group"], partition].append((poll.invoked_ns, offset + 1))
    processed = {key: RunningMaximum(values) for key, values in read.items()}
    for look in _committed_offsets(history):
        steps = processed.get((look.group, look.partition))
        done = steps.before(look.told_ns, 0) if steps else 0
        if look.offset > done:
            yield Violation(
                "commit ahead",
                f"{look.group} {look.partition}: {look.who} got {look.offset}, but only"
                f" records before {done} were processed",
            )


def refused_commits_do_not_show(history: History) -> Iterator[Violation]:
    """Check that each committed offset belongs to a commit that was not refused."""
    asked: dict[tuple[str, str], set[int]] = defaultdict(set)
    for commit in history.operations("commit"):
        if commit.type is not Type.FAIL:
            for partition, offset in commit.arguments["offsets"]:
                asked[commit.arguments["group"], partition].add(offset)
    for look in _committed_offsets(history):
        if look.offset not in asked[look.group, look.partition]:
            yield Violation(
                "commit from nowhere",
                f"{look.group} {look.partition}: {look.who} got {look.offset}",
            )


def _committed_offsets(history: History) -> Iterator[Look]:
    """Yield each committed offset that was read, with the time of the request."""
    for look in history.operations("committed"):
        if look.ok and look.ended_ns is not None:
            for partition, offset in look.result["offsets"]:
                group = look.arguments["group"]
                yield Look(group, partition, offset, look.invoked_ns, look.ended_ns, look.process)


def _first_offsets(history: History) -> Iterator[Look]:
    """Yield the first offset that a member read of each partition after its assignment."""
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
                assignment = assigned.pop((event.process, partition), None)
                if assignment is not None:
                    since, group = assignment
                    yield Look(group, partition, offset, since, event.time_ns, event.process)


COMMIT_CHECKS = (
    committed_offsets_never_go_back,
    committed_offsets_were_processed,
    refused_commits_do_not_show,
)
