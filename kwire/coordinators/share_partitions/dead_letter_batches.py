"""Makes the batches of a dead-letter topic, with keys and values of source records if asked.

A batch has as many dead letters as `max.message.bytes` of the topic allows, and at least one.  So
memory is bounded, however many records a group gives up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kwire.codecs.batches import (
    HEADER_SIZE,
    INFLATED_SIZE_BYTES_MAX,
    BatchHeader,
    Compression,
    CorruptBatch,
    Record,
    build,
    iter_batches,
    records,
)
from kwire.coordinators.share.dead_letters import DeadLetters, LetterSource
from kwire.log import LogError
from kwire.storage.partitions.partition import Partition

READ_BYTES = 1 << 20
"""Bytes of the source partition to read at once, as Apache Kafka does."""


class PendingLetters:
    """Dead letters of one share partition that are being written.

    `next_offset` is the first one that is not written yet, and `written` has later ones that are.
    """

    __slots__ = (
        "attempts",
        "copies_records",
        "done",
        "is_wanted",
        "letters",
        "may_be_written",
        "next_offset",
        "partition",
        "source",
        "written",
    )

    def __init__(
        self,
        source: LetterSource,
        partition: Partition,
        letters: DeadLetters,
        *,
        copies_records: bool,
        may_be_written: bool,
        is_wanted: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """`partition` has the source records.

        `may_be_written`: whether an earlier attempt may have written some of them.  `is_wanted`
        returns whether this broker still leads the share partition.  `done` is called once they are
        written, or cannot be written.
        """
        self.source = source
        self.partition = partition
        self.letters = letters
        self.copies_records = copies_records
        self.may_be_written = may_be_written
        self.is_wanted = is_wanted
        self.done = done
        self.next_offset = letters.first
        self.written: set[int] = set()
        self.attempts = 0

    @property
    def is_complete(self) -> bool:
        return self.next_offset > self.letters.last

    def overlaps(self, other: PendingLetters) -> bool:
        """Whether both have the same record."""
        mine, theirs = self.letters, other.letters
        is_apart = mine.last < theirs.first or theirs.last < mine.first
        return self.source == other.source and not is_apart

    def offsets(self) -> Iterator[int]:
        """Yield the offsets that are not written yet."""
        for offset in range(self.next_offset, self.letters.last + 1):
            if offset not in self.written:
                yield offset

    def wrote_through(self, offset: int) -> None:
        """Note that everything up to `offset` is written."""
        self.next_offset = offset + 1
        while self.next_offset in self.written:
            self.written.discard(self.next_offset)
            self.next_offset += 1


class LetterBatch(NamedTuple):
    """A batch for the dead-letter topic; `through` has the last offset of each pending entry."""

    data: bytearray
    through: list[tuple[PendingLetters, int]]


def letter_batch(
    pending: Iterable[PendingLetters], now_ms: int, size_bytes_max: int
) -> LetterBatch:
    """Return a batch with the next dead letters of the pending entries, at least one in total.

    Every entry must have letters that are not written.
    """
    letters: list[Record] = []
    through: list[tuple[PendingLetters, int]] = []
    room = size_bytes_max - HEADER_SIZE
    for entry in pending:
        last = None
        for letter, source_offset in _letters(entry, now_ms, size_bytes_max):
            letter.offset = len(letters)
            size_bytes = _size_bytes(letter)
            if letters and size_bytes > room:
                break
            room -= size_bytes
            letters.append(letter)
            last = source_offset
        if last is None:
            break
        through.append((entry, last))
        if last != entry.letters.last or room <= 0:
            break  # the rest follows in later batches, in order
    return LetterBatch(build(letters), through)


def _size_bytes(record: Record) -> int:
    """Return the size of a record in a batch whose records have the same timestamp."""
    return len(build([record], keep_offsets=True)) - HEADER_SIZE


def _letters(
    entry: PendingLetters, now_ms: int, size_bytes_max: int
) -> Iterator[tuple[Record, int]]:
    """Yield the next dead letters of an entry, each with the offset of its source record.

    With copies, these are as many as one read of the source partition has records for.
    """
    letters = entry.letters
    last, copied = letters.last, Copies({}, letters.last)
    if entry.copies_records:
        copied = copies(entry.partition, entry.next_offset, letters.last, size_bytes_max)
        last = max(entry.next_offset, copied.last)
    for offset in entry.offsets():
        if offset > last:
            return
        key, value = copied.records.get(offset, (None, None))
        headers = entry.source.headers(offset, letters.delivery_count, letters.cause)
        yield Record(0, now_ms, key, value, headers), offset


# -- copies of the source records


class Copies(NamedTuple):
    """Keys and values of source records by offset, for all offsets up to `last` that have one."""

    records: Mapping[int, tuple[bytes | None, bytes | None]]
    last: int


def copies(partition: Partition, first: int, last: int, size_bytes_max: int) -> Copies:
    """Read the source records from `first` to `last`, about `size_bytes_max` in total.

    Those are left out that are larger than that, or in a compressed batch that is, and all that
    cannot be read.  Their dead letters have only headers, as on Apache Kafka.
    """
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    room, next_offset = size_bytes_max, first
    while next_offset <= last:
        data = _read(partition, next_offset)
        before = next_offset
        for pos, header in iter_batches(data):
            if header.last_offset < next_offset:
                continue
            for record in _records(data, pos, header, size_bytes_max):
                if not next_offset <= record.offset <= last:
                    continue
                size_bytes = len(build([record], base_offset=record.offset)) - HEADER_SIZE
                if size_bytes > size_bytes_max:
                    continue
                if size_bytes > room:
                    return Copies(found, record.offset - 1)
                room -= size_bytes
                found[record.offset] = record.key, record.value
            next_offset = header.last_offset + 1
            if next_offset > last:
                break
        if next_offset == before:
            break
    return Copies(found, last)


def _read(partition: Partition, offset: int) -> bytes:
    """Return committed batches from `offset` on; nothing if they cannot be read."""
    try:
        region = partition.read(
            offset, READ_BYTES, max_offset=partition.high_watermark, min_one_batch=True
        )
    except LogError:
        return b""
    return b"" if region is None else region.read()


def _records(data: bytes, pos: int, header: BatchHeader, size_bytes_max: int) -> Iterable[Record]:
    """Return the records of the batch at `pos`.

    It has none if the batch is corrupt, or larger than `size_bytes_max` when it is decompressed.
    """
    try:
        is_plain = header.compression is Compression.NONE
        return list(records(data, pos, INFLATED_SIZE_BYTES_MAX if is_plain else size_bytes_max))
    except CorruptBatch:
        return ()
