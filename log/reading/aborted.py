"""Checks a transaction index from disk against the log, as the file has no checksum.

    producer id, last offset    at the last offset is an ABORT marker of that producer
    first offset                a transactional batch of that producer begins there
    last stable offset          a transactional batch begins there, or it is just behind the marker

Batches that compaction or retention has removed do not count.  An index is checked once, when a
read_committed reader needs it first.  A wrong index is rebuilt from the batches.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kwire.codecs.batches import ControlType
from kwire.log.error import CorruptFile
from kwire.log.producers import replay
from kwire.log.producers.state import ProducerState

if TYPE_CHECKING:
    from kwire.log.index.txn_index import AbortedTxn
    from kwire.log.producers.snapshots import ProducerSnapshots
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments

_logger = logging.getLogger(__name__)


def ensure_checked(
    segment: Segment,
    segments: Segments,
    snapshots: ProducerSnapshots,
    *,
    expiration_ms: int,
    compacted: bool,
) -> None:
    """Check the transaction index of `segment`, and rebuild a wrong one.

    `compacted` says that batches may be missing.  Raises OSError, CorruptBatch.
    """
    index = segment.txn_index
    if index.checked:
        return
    if not all(_fits(segments, segment, entry, compacted=compacted) for entry in index.entries):
        _logger.warning("%s does not fit the log; rebuilding it", index.path)
        producers = _state_before(segments, snapshots, segment.base_offset, expiration_ms)
        index.replace(_rebuilt(segments, segment, producers))
    index.checked = True


def _fits(segments: Segments, segment: Segment, entry: AbortedTxn, *, compacted: bool) -> bool:
    """Return whether the log agrees with the entry of the transaction index.

    The abort marker must be at its last offset, of its producer, and a batch of the producer must
    begin at its first offset. The last stable offset must be one that the log can have had. In a
    `compacted` log batches may have gone.
    """
    found = segment.find(entry.last_offset)
    if found is None or found[1].base_offset > entry.last_offset:
        return False
    position, header = found
    if header.producer_id != entry.producer_id:
        return False
    marker = replay.marker_at(segment, position, header)
    if marker is None or marker.kind is not ControlType.ABORT:
        return False
    begins = partial(_begins, segments, compacted=compacted)
    if not begins(entry.first_offset, entry.producer_id):
        return False
    stable = entry.last_stable_offset
    return stable == entry.last_offset + 1 or (stable <= entry.last_offset and begins(stable, None))


def _begins(segments: Segments, offset: int, producer_id: int | None, *, compacted: bool) -> bool:
    """Return whether a transactional batch of that producer (None: of any) begins at `offset`."""
    header = segments.batch_at(offset) if offset >= 0 else None
    if header is None or header.base_offset > offset:
        may_be_gone = compacted or offset < segments.first.base_offset
        return offset >= 0 and may_be_gone
    return (
        header.base_offset == offset
        and header.is_transactional
        and not header.is_control
        and producer_id in (None, header.producer_id)
    )


def _rebuilt(segments: Segments, segment: Segment, producers: ProducerState) -> list[AbortedTxn]:
    """Return the index entries of `segment`, from a replay of the log behind the state of
    `producers`.
    """
    entries = []
    for replayed in segments.between(producers.end_offset, segment.base_offset + 1):
        for position, header in replayed.headers():
            if header.last_offset >= producers.end_offset:
                aborted = replay.note(producers, replayed, position, header)
                if aborted is not None and replayed is segment:
                    entries.append(aborted)
    return entries


def _state_before(
    segments: Segments, snapshots: ProducerSnapshots, offset: int, expiration_ms: int
) -> ProducerState:
    """Return the producer state of the newest valid snapshot at or before `offset`; else an empty
    one.
    """
    producers = ProducerState(expiration_ms)
    for taken in sorted(snapshots.offsets, reverse=True):
        if taken <= offset:
            try:
                entries = snapshots.read(taken)
            except (CorruptFile, FileNotFoundError):
                continue
            producers.restore(entries, taken, 0)
            return producers
    producers.clear(segments.first.base_offset)
    return producers
