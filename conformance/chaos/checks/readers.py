"""Checks of the records that consumers got.

`assign` {group, partitions}: a consumer got these partitions in addition to those that it had.
`revoke` {group, partitions}: it no longer has these partitions. `poll` {group} -> {records:
[[partition, offset, process, number], ...]}, in the order of arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.logs import Entry, final_logs
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import Event, History, Type

READER_EVENTS = frozenset(
    {("assign", Type.INVOKE), ("revoke", Type.INVOKE), ("poll", Type.OK)},
)


def offsets_are_contiguous(history: History) -> Iterator[Violation]:
    """Check that offsets are contiguous while a consumer keeps a partition, except for control
    records."""
    control = {
        partition: {offset for offset, who, _ in log if who is None}
        for partition, log in final_logs(history).items()
    }
    last: dict[tuple[str, str], int] = {}
    for event in _reader_events(history):
        for partition in event.value.get("partitions", ()):
            last.pop((event.process, partition), None)
        for partition, offset, *_ in event.value.get("records", ()):
            before = last.get((event.process, partition))
            last[event.process, partition] = offset
            if before is None:
                continue
            skipped = set(range(before + 1, offset)) - control.get(partition, set())
            if skipped or offset <= before:
                yield Violation(
                    "not contiguous", f"{event.process} read {partition} {offset} after {before}"
                )


def _reader_events(history: History) -> Iterator[Event]:
    for event in history.events:
        if (event.f, event.type) in READER_EVENTS:
            yield event


def what_was_read_is_there(history: History) -> Iterator[Violation]:
    """Check that a record that a consumer got is in the log at the end, at the same offset."""
    logs = {p: {entry[0]: entry for entry in log} for p, log in final_logs(history).items()}
    for poll in history.operations("poll"):
        for partition, offset, who, number in poll.result.get("records", ()):
            if partition not in logs:
                continue
            entry: Entry | None = logs[partition].get(offset)
            if entry is None or entry[1:] != (who, number):
                present = "nothing" if entry is None else f"{entry[1]}'s {entry[2]}"
                yield Violation(
                    "read differs",
                    f"{poll.process} read {who}'s {number} at {partition} {offset}, where"
                    f" {present} is",
                )


def every_record_was_read(history: History) -> Iterator[Violation]:
    """Check that each group that reads until the end reads every record, by any of its members."""
    seen: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for poll in history.operations("poll"):
        for partition, offset, *_ in poll.result.get("records", ()):
            seen[poll.arguments["group"]][partition].add(offset)
    groups = {assign.arguments["group"] for assign in history.operations("assign")}
    for group in sorted(groups):
        for partition, log in final_logs(history).items():
            wanted = {offset for offset, who, _ in log if who is not None}
            missing = sorted(wanted - seen[group][partition])
            if missing:
                yield Violation(
                    "unread", f"{group}: {partition} {missing[:5]}, {len(missing)} in all"
                )


READER_CHECKS = (offsets_are_contiguous, what_was_read_is_there, every_record_was_read)
