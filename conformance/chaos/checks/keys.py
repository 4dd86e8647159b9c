"""A compacted log against what was written to it: of each key, what was written last is there.

`put` {partition, key, number, tombstone} -> {offset}: one record; each key has one writer, which
numbers what it writes to it from 0 on. `offset` is -1 where the broker did not say.
`read_keys` {partition} -> {start, end, records: [[offset, key, number], ...]}: all of a partition
as it was at the end; a tombstone has None for number.

A record that was acknowledged may only be gone when a later one of its key is there, or, if all of
them are gone, when a tombstone may have been the last. Of the records that nobody acknowledged any
may be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Operation, Type

Key = tuple[str, str]
"""Partition and key."""
Entry = tuple[int, int | None]
"""Offset and number."""


def found_at_the_end(history: History) -> dict[Key, list[Entry]]:
    """What `read_keys` found, by key, in the order of offsets as read."""
    found: dict[Key, list[Entry]] = defaultdict(list)
    for read in history.operations("read_keys"):
        if read.ok:
            for offset, key, number in read.answered["records"]:
                found[read.asked["partition"], key].append((offset, number))
    return found


def every_partition_was_read(history: History) -> Iterator[Violation]:
    """Without the end state the other checks would have nothing to say."""
    written = {put.asked["partition"] for put in history.operations("put")}
    read = {each.asked["partition"] for each in history.operations("read_keys") if each.ok}
    for partition in sorted(written - read):
        yield Violation("no end", f"{partition} could not be read")


def last_values_are_there(history: History) -> Iterator[Violation]:
    found = found_at_the_end(history)
    for key, puts in _by_key(history).items():
        last = max((put for put in puts if put.ok), key=_number, default=None)
        if last is None:
            continue
        later = [put for put in puts if _number(put) > _number(last) and put.type is Type.INFO]
        offset, newest = last.answered["offset"], found.get(key, [])
        if not newest:
            if not any(put.asked["tombstone"] for put in (last, *later)):
                yield Violation("lost", f"{_name(key)}: {_number(last)}, acknowledged at {offset}")
        elif not _explained(newest[-1], last, later):
            yield Violation(
                "resurrected" if last.asked["tombstone"] else "lost",
                f"{_name(key)}: {_number(last)} was acknowledged last, at {offset};"
                f" number {newest[-1][1]} at {newest[-1][0]} is there",
            )


def _explained(newest: Entry, last: Operation, later: list[Operation]) -> bool:
    """Whether the newest record of a key may be that: the last acknowledged, or a later one."""
    offset, number = newest
    at = last.answered["offset"]
    if offset == at or (at < 0 and number == _shown(last)):
        return number == _shown(last)
    return offset > at and any(number == _shown(put) for put in later)


def each_key_goes_on(history: History) -> Iterator[Violation]:
    """Offsets and numbers only grow: one writer, idempotent."""
    for key, entries in found_at_the_end(history).items():
        for (before, older), (offset, number) in pairwise(entries):
            if offset <= before:
                yield Violation("twice", f"{_name(key)}: offset {offset} follows {before}")
            if older is not None and number is not None and number <= older:
                what = f"number {number} at {offset} follows {older} at {before}"
                yield Violation("order", f"{_name(key)}: {what}")


def only_what_was_written_is_there(history: History) -> Iterator[Violation]:
    puts = _by_key(history)
    for key, entries in found_at_the_end(history).items():
        known = {_shown(put) for put in puts.get(key, ())}
        for offset, number in entries:
            if number not in known:
                yield Violation("never sent", f"{_name(key)}: number {number} at {offset}")


def _by_key(history: History) -> dict[Key, list[Operation]]:
    puts: dict[Key, list[Operation]] = defaultdict(list)
    for put in history.operations("put"):
        puts[put.asked["partition"], put.asked["key"]].append(put)
    return puts


def _number(put: Operation) -> int:
    number: int = put.asked["number"]
    return number


def _shown(put: Operation) -> int | None:
    """As a reader sees it."""
    return None if put.asked["tombstone"] else _number(put)


def _name(key: Key) -> str:
    return "/".join(key)


KEY_CHECKS = (
    every_partition_was_read,
    last_values_are_there,
    each_key_goes_on,
    only_what_was_written_is_there,
)
