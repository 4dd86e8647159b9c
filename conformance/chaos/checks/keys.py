"""Checks of a compacted log: for each key, the last written record remains.

`put` {partition, key, number, tombstone} -> {offset}: one record. Each key has one writer, which
numbers its records from 0. `offset` is -1 if the broker did not return it. `read_keys` {partition}
-> {start, end, records: [[offset, key, number], ...]}: the whole partition at the end; the number
of a tombstone is None.

An acknowledged record may be missing only if a later record of its key is present, or, if no record
of the key is present, if its last record may have been a tombstone. A record that was not
acknowledged may be present or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, HistoryOperation, Type

Key = tuple[str, str]
"""Partition and key."""
Entry = tuple[int, int | None]
"""Offset and number."""


def found_at_the_end(history: History) -> dict[Key, list[Entry]]:
    """Return the result of `read_keys` by key, in the order of the reads."""
    entries: dict[Key, list[Entry]] = defaultdict(list)
    for read in history.operations("read_keys"):
        if read.ok:
            for offset, key, number in read.result["records"]:
                entries[read.arguments["partition"], key].append((offset, number))
    return entries


def every_partition_was_read(history: History) -> Iterator[Violation]:
    """Yield the partitions not read at the end; the other checks see nothing of these."""
    written = {put.arguments["partition"] for put in history.operations("put")}
    read = {each.arguments["partition"] for each in history.operations("read_keys") if each.ok}
    for partition in sorted(written - read):
        yield Violation("no end", f"{partition} could not be read")


def last_values_are_there(history: History) -> Iterator[Violation]:
    """Check that the newest record of each key is its last acknowledged one, or a later one."""
    entries = found_at_the_end(history)
    for key, puts in _by_key(history).items():
        last = max((put for put in puts if put.ok), key=_number, default=None)
        if last is None:
            continue
        later = [put for put in puts if _number(put) > _number(last) and put.type is Type.INFO]
        offset, newest = last.result["offset"], entries.get(key, [])
        if not newest:
            if not any(put.arguments["tombstone"] for put in (last, *later)):
                yield Violation("lost", f"{_name(key)}: {_number(last)}, acknowledged at {offset}")
        elif not _is_explained(newest[-1], last, later):
            yield Violation(
                "resurrected" if last.arguments["tombstone"] else "lost",
                f"{_name(key)}: {_number(last)} was acknowledged last, at {offset};"
                f" number {newest[-1][1]} at {newest[-1][0]} is present",
            )


def _is_explained(newest: Entry, last: HistoryOperation, later: list[HistoryOperation]) -> bool:
    """Return whether a key's newest record is its last acknowledged one, or a later one."""
    offset, number = newest
    at = last.result["offset"]
    if offset == at or (at < 0 and number == _shown(last)):
        return number == _shown(last)
    return offset > at and any(number == _shown(put) for put in later)


def each_key_goes_on(history: History) -> Iterator[Violation]:
    """Check that offsets and numbers of a key ascend, since its one writer is idempotent."""
    for key, entries in found_at_the_end(history).items():
        for (before, older), (offset, number) in pairwise(entries):
            if offset <= before:
                yield Violation("twice", f"{_name(key)}: offset {offset} follows {before}")
            if older is not None and number is not None and number <= older:
                what = f"number {number} at {offset} follows {older} at {before}"
                yield Violation("order", f"{_name(key)}: {what}")


def only_what_was_written_is_there(history: History) -> Iterator[Violation]:
    """Yield the records in the log that no writer has sent."""
    puts = _by_key(history)
    for key, entries in found_at_the_end(history).items():
        known = {_shown(put) for put in puts.get(key, ())}
        for offset, number in entries:
            if number not in known:
                yield Violation("never sent", f"{_name(key)}: number {number} at {offset}")


def _by_key(history: History) -> dict[Key, list[HistoryOperation]]:
    """Return the writes of each key, in the order of their begin."""
    puts: dict[Key, list[HistoryOperation]] = defaultdict(list)
    for put in history.operations("put"):
        puts[put.arguments["partition"], put.arguments["key"]].append(put)
    return puts


def _number(put: HistoryOperation) -> int:
    number: int = put.arguments["number"]
    return number


def _shown(put: HistoryOperation) -> int | None:
    """Return the number as a reader sees it."""
    return None if put.arguments["tombstone"] else _number(put)


def _name(key: Key) -> str:
    return "/".join(key)


KEY_CHECKS = (
    every_partition_was_read,
    last_values_are_there,
    each_key_goes_on,
    only_what_was_written_is_there,
)
