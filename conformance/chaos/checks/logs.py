"""Checks of the logs at the end against the acknowledgements of their producers.

`produce` {partition, number} -> {offset}: one record; its number is the producer's count of its
records in that partition, from 0. `offset` is -1 if the broker did not return it. `read_log`
{partition} -> {start, end, records: [[offset, process, number], ...]}: the whole partition at the
end, from its log start offset to its high watermark. Process and number of a control record are
None. `ends` {} -> {offsets: [[partition, offset], ...]}: the high watermarks at some moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, HistoryOperation, Type

Entry = tuple[int, str | None, int | None]
"""Offset, producer, number."""


def final_logs(history: History) -> dict[str, list[Entry]]:
    """Return the last result of `read_log`, by partition."""
    logs: dict[str, list[Entry]] = {}
    for read in history.operations("read_log"):
        if read.ok:
            logs[read.arguments["partition"]] = [
                (offset, process, number) for offset, process, number in read.result["records"]
            ]
    return logs


def everything_was_read_at_the_end(history: History) -> Iterator[Violation]:
    """Yield the partitions not read at the end; the other checks see nothing of these."""
    partitions = {each.arguments["partition"] for each in history.operations("produce")}
    for partition in sorted(partitions - final_logs(history).keys()):
        yield Violation("no end", f"{partition} could not be read")


def acknowledged_records_are_there(history: History) -> Iterator[Violation]:
    """Check that an acknowledged record is at its acknowledged offset; anywhere, if none was
    returned."""
    logs = final_logs(history)
    at = {p: {offset: (who, n) for offset, who, n in log} for p, log in logs.items()}
    present = {p: {(who, n) for _, who, n in log} for p, log in logs.items()}
    for produce in _read_logs(history):
        if not produce.ok:
            continue
        partition, number = produce.arguments["partition"], produce.arguments["number"]
        record, offset = (produce.process, number), produce.result["offset"]
        if record not in present[partition]:
            yield Violation("lost", f"{partition}: {_name(record)}, acknowledged at {offset}")
        elif offset >= 0 and at[partition].get(offset) != record:
            other = at[partition].get(offset)
            yield Violation(
                "moved",
                f"{partition}: {_name(record)} was acknowledged at {offset}, where"
                f" {_name(other) if other else 'nothing'} is",
            )


def refused_records_are_not_there(history: History) -> Iterator[Violation]:
    """Yield the records in the logs whose producer got an error that excludes success."""
    present = {p: {(who, n) for _, who, n in log} for p, log in final_logs(history).items()}
    for produce in _read_logs(history):
        partition, record = (
            produce.arguments["partition"],
            (produce.process, produce.arguments["number"]),
        )
        if produce.type is Type.FAIL and record in present[partition]:
            error = produce.result.get("error")
            yield Violation("ghost", f"{partition}: {_name(record)}, refused with {error}")


def nothing_is_there_twice(history: History) -> Iterator[Violation]:
    """Yield the records that occur more than once in a log, with their offsets."""
    for partition, log in final_logs(history).items():
        counts = Counter((who, number) for _, who, number in log if who is not None)
        for record, count in counts.items():
            if count > 1:
                offsets = [offset for offset, *entry in log if tuple(entry) == record]
                yield Violation("twice", f"{partition}: {_name(record)} is at {offsets}")


def order_is_kept(history: History) -> Iterator[Violation]:
    """Check that a producer's records are in a partition in the order in which it sent them."""
    for partition, log in final_logs(history).items():
        newest: dict[str, int] = {}
        for offset, who, number in log:
            if who is None or number is None:
                continue
            if number < newest.get(who, -1):
                yield Violation(
                    "order", f"{partition}: {who}'s {number} is at {offset}, after {newest[who]}"
                )
            newest[who] = max(number, newest.get(who, -1))


def nothing_came_from_nowhere(history: History) -> Iterator[Violation]:
    """Yield the records in the logs that no producer has sent."""
    sent: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for produce in history.operations("produce"):
        sent[produce.arguments["partition"]].add((produce.process, produce.arguments["number"]))
    for partition, log in final_logs(history).items():
        for offset, who, number in log:
            if who is not None and number is not None and (who, number) not in sent[partition]:
                yield Violation("never sent", f"{partition}: {_name((who, number))} is at {offset}")


def offsets_have_no_holes(history: History) -> Iterator[Violation]:
    """Check that offsets are contiguous from the log start offset to the high watermark, without
    compaction."""
    for read in history.operations("read_log"):
        if not read.ok:
            continue
        expected = read.result["start"]
        for offset, *_ in read.result["records"]:
            if offset != expected:
                yield Violation(
                    "hole", f"{read.arguments['partition']}: {offset} comes instead of {expected}"
                )
            expected = offset + 1
        if expected != read.result["end"]:
            yield Violation(
                "hole",
                f"{read.arguments['partition']}: ends at {expected}, the high watermark is"
                f" {read.result['end']}",
            )


def the_end_never_goes_back(history: History) -> Iterator[Violation]:
    """Check that a high watermark is at least as high as earlier acknowledgements and
    observations."""
    floors: dict[str, list[tuple[int, int]]] = defaultdict(list)  # (known since, end offset)
    for produce in history.operations("produce"):
        if produce.ok and produce.ended_ns is not None:
            since, offset = produce.ended_ns, produce.result["offset"]
            floors[produce.arguments["partition"]].append((since, offset + 1))
    looks = [look for look in history.operations("ends") if look.ok]
    for look in looks:
        assert look.ended_ns is not None
        for partition, offset in look.result["offsets"]:
            floors[partition].append((look.ended_ns, offset))
    yield from _ends_below_floors(looks, floors)


def _ends_below_floors(
    looks: list[HistoryOperation], floors: dict[str, list[tuple[int, int]]]
) -> Iterator[Violation]:
    """Yield the high watermarks that are lower than an end known before they were read.

    `floors` has for each partition the known ends: (when it was known, in ns; the offset).
    """
    waiting = {partition: sorted(known, reverse=True) for partition, known in floors.items()}
    floor: dict[str, int] = defaultdict(int)
    for look in looks:
        for partition, offset in look.result["offsets"]:
            known = waiting.get(partition, [])
            while known and known[-1][0] < look.invoked_ns:
                floor[partition] = max(floor[partition], known.pop()[1])
            if offset < floor[partition]:
                yield Violation(
                    "end went back", f"{partition}: from {floor[partition]} to {offset}"
                )


def _read_logs(history: History) -> list[HistoryOperation]:
    logs = final_logs(history)
    return [each for each in history.operations("produce") if each.arguments["partition"] in logs]


def _name(record: tuple[str | None, int | None]) -> str:
    who, number = record
    return "a control record" if who is None else f"{who}'s {number}"


LOG_CHECKS = (
    everything_was_read_at_the_end,
    acknowledged_records_are_there,
    refused_records_are_not_there,
    nothing_is_there_twice,
    order_is_kept,
    nothing_came_from_nowhere,
    offsets_have_no_holes,
    the_end_never_goes_back,
)
