"""The end state of the logs against what their producers were told.

`produce` {partition, number} -> {offset}: one record; its number is the producer's own count in
that partition, from 0 on. `offset` is -1 where the broker did not say.
`read_log` {partition} -> {start, end, records: [[offset, process, number], ...]}: all of a
partition as it was at the end, from its log start offset to its high watermark. A control record
has None for process and number.
`ends` {} -> {offsets: [[partition, offset], ...]}: the high watermarks while it happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Operation, Type

Entry = tuple[int, str | None, int | None]
"""Offset, producer, number."""


def final_logs(history: History) -> dict[str, list[Entry]]:
    """What `read_log` found last, by partition."""
    found: dict[str, list[Entry]] = {}
    for read in history.operations("read_log"):
        if read.ok:
            found[read.asked["partition"]] = [
                (offset, process, number) for offset, process, number in read.answered["records"]
            ]
    return found


def everything_was_read_at_the_end(history: History) -> Iterator[Violation]:
    """Without the end state the other checks of the logs would have nothing to say."""
    partitions = {each.asked["partition"] for each in history.operations("produce")}
    for partition in sorted(partitions - final_logs(history).keys()):
        yield Violation("no end", f"{partition} could not be read")


def acknowledged_records_are_there(history: History) -> Iterator[Violation]:
    """At the offset that was acknowledged; anywhere, if none was said."""
    logs = final_logs(history)
    at = {p: {offset: (who, n) for offset, who, n in log} for p, log in logs.items()}
    there = {p: {(who, n) for _, who, n in log} for p, log in logs.items()}
    for produce in _of_read_logs(history):
        if not produce.ok:
            continue
        partition, number = produce.asked["partition"], produce.asked["number"]
        record, offset = (produce.process, number), produce.answered["offset"]
        if record not in there[partition]:
            yield Violation("lost", f"{partition}: {_name(record)}, acknowledged at {offset}")
        elif offset >= 0 and at[partition].get(offset) != record:
            found = at[partition].get(offset)
            yield Violation(
                "moved",
                f"{partition}: {_name(record)} was acknowledged at {offset}, where"
                f" {_name(found) if found else 'nothing'} is",
            )


def refused_records_are_not_there(history: History) -> Iterator[Violation]:
    there = {p: {(who, n) for _, who, n in log} for p, log in final_logs(history).items()}
    for produce in _of_read_logs(history):
        partition, record = produce.asked["partition"], (produce.process, produce.asked["number"])
        if produce.type is Type.FAIL and record in there[partition]:
            error = produce.answered.get("error")
            yield Violation("ghost", f"{partition}: {_name(record)}, refused with {error}")


def nothing_is_there_twice(history: History) -> Iterator[Violation]:
    for partition, log in final_logs(history).items():
        counts = Counter((who, number) for _, who, number in log if who is not None)
        for record, count in counts.items():
            if count > 1:
                offsets = [offset for offset, *found in log if tuple(found) == record]
                yield Violation("twice", f"{partition}: {_name(record)} is at {offsets}")


def order_is_kept(history: History) -> Iterator[Violation]:
    """A producer's records follow each other in a partition as it sent them."""
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
    sent: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for produce in history.operations("produce"):
        sent[produce.asked["partition"]].add((produce.process, produce.asked["number"]))
    for partition, log in final_logs(history).items():
        for offset, who, number in log:
            if who is not None and number is not None and (who, number) not in sent[partition]:
                yield Violation("never sent", f"{partition}: {_name((who, number))} is at {offset}")


def offsets_have_no_holes(history: History) -> Iterator[Violation]:
    """From the log start offset to the high watermark; nothing is compacted here."""
    for read in history.operations("read_log"):
        if not read.ok:
            continue
        expected = read.answered["start"]
        for offset, *_ in read.answered["records"]:
            if offset != expected:
                yield Violation(
                    "hole", f"{read.asked['partition']}: {offset} comes instead of {expected}"
                )
            expected = offset + 1
        if expected != read.answered["end"]:
            yield Violation(
                "hole",
                f"{read.asked['partition']}: ends at {expected}, the high watermark is"
                f" {read.answered['end']}",
            )


def the_end_never_goes_back(history: History) -> Iterator[Violation]:
    """Whoever asks sees what was acknowledged, or seen as the end, before they asked."""
    floors: dict[str, list[tuple[int, int]]] = defaultdict(list)  # (known since, end offset)
    for produce in history.operations("produce"):
        if produce.ok and produce.ended_ns is not None:
            since, offset = produce.ended_ns, produce.answered["offset"]
            floors[produce.asked["partition"]].append((since, offset + 1))
    looks = [look for look in history.operations("ends") if look.ok]
    for look in looks:
        assert look.ended_ns is not None
        for partition, offset in look.answered["offsets"]:
            floors[partition].append((look.ended_ns, offset))
    yield from _ends_below_floors(looks, floors)


def _ends_below_floors(
    looks: list[Operation], floors: dict[str, list[tuple[int, int]]]
) -> Iterator[Violation]:
    waiting = {partition: sorted(known, reverse=True) for partition, known in floors.items()}
    floor: dict[str, int] = defaultdict(int)
    for look in looks:
        for partition, offset in look.answered["offsets"]:
            known = waiting.get(partition, [])
            while known and known[-1][0] < look.invoked_ns:
                floor[partition] = max(floor[partition], known.pop()[1])
            if offset < floor[partition]:
                yield Violation(
                    "end went back", f"{partition}: from {floor[partition]} to {offset}"
                )


def _of_read_logs(history: History) -> list[Operation]:
    logs = final_logs(history)
    return [each for each in history.operations("produce") if each.asked["partition"] in logs]


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
