"""Searches a partition of a dead-letter topic for dead letters that an earlier attempt has written.

The whole partition is searched, because the share state does not say when the attempt was made.
A search is rare: a leader was killed while it wrote, or lost its connection.  Batches without the
name of a source topic are not decoded, so the search is about as fast as reading.

A dead letter has its source's topic, partition, offset, group and delivery count.  If a topic was
deleted and created again, or a group started over, an earlier record may have the same ones.  Then
the search takes the earlier dead letter for the new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import trio

from kwire.codecs.batches import (
    Compression,
    CorruptBatch,
    iter_batches,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.dead_letters import LetterOrigin, LetterSource, origin_of
from kwire.coordinators.share_partitions.dead_letter_batches import PendingLetters
from kwire.coordinators.share_partitions.dead_letter_topics import DeadLetterPartition
from kwire.log import LogError

READS_MIN = 2
"""Reads at the end of the log, at least.

A broker may append the request of a lost connection after the first read, but not after the second:
see RemotePartition."""


async def find_written(target: DeadLetterPartition, pending: Sequence[PendingLetters]) -> None:
    """Add the offsets of dead letters in the topic to `written` of their entries.

    Raises LogError if the topic cannot be read.
    """
    wanted: defaultdict[tuple[LetterSource, int], list[PendingLetters]] = defaultdict(list)
    for entry in pending:
        wanted[entry.source, entry.letters.delivery_count].append(entry)
    marks = {source.mark for source, _ in wanted}
    offset = reads = 0
    while True:
        data = await target.read(offset)
        reads += 1
        before = offset
        try:
            for origin in _origins(data, marks):
                for entry in wanted.get((origin.source, origin.delivery_count), ()):
                    if entry.next_offset <= origin.offset <= entry.letters.last:
                        entry.written.add(origin.offset)
            for _, header in iter_batches(data):
                offset = header.last_offset + 1
        except CorruptBatch as error:
            raise LogError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if offset == before and reads >= READS_MIN:
            return
        await trio.lowlevel.checkpoint()


def _origins(data: bytes, marks: Iterable[bytes]) -> Iterator[LetterOrigin]:
    """Yield the origins of the dead letters in some batches, of those with one of the marks.

    Raises CorruptBatch.
    """
    for pos, header in iter_batches(data):
        batch = data[pos : pos + header.size_bytes]
        is_plain = header.magic >= 2 and header.compression is Compression.NONE
        if header.is_control or (is_plain and not any(mark in batch for mark in marks)):
            continue
        for record in records(batch):
            origin = origin_of(record)
            if origin is not None:
                yield origin
