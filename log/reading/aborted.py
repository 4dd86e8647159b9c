"""Whether a transaction index that was read from disk fits the log: it has no checksum.

    producer id, last offset    the batch there is an ABORT marker of that producer
    first offset                a transactional batch of that producer begins there
    last stable offset          a transactional batch begins there, or it is behind the marker

Batches that compaction or retention has taken are not looked for.  It is looked at once, when a
read_committed reader first needs the index; one that does not fit is made anew from the batches.
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
    from kwire.log.producers.snapshots import Snapshots
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments

_logger = logging.getLogger(__name__)


def ensure_checked(
    segment: Segment,
    segments: Segments,
    snapshots: Snapshots,
    *,
    expiration_ms: int,
    compacted: bool,
) -> None:
    """Have the transaction index of one of `segments` right.  OSError, CorruptBatch.

    `compacted` says that batches may be missing.
    """
    index = segment.txn_index
    if index.checked:
        return
    if not all(_fits(segments, segment, entry, compacted=compacted) for entry in index.entries):
        _logger.warning("%s does not fit the log; making it anew", index.path)
        producers = _state_before(segments, snapshots, segment.base_offset, expiration_ms)
        index.replace(_made_anew(segments, segment, producers))
    index.checked = True


def _fits(segments: Segments, segment: Segment, entry: AbortedTxn, *, compacted: bool) -> bool:
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
    """Whether a batch of a transaction begins there: of that producer, or of any."""
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


def _made_anew(segments: Segments, segment: Segment, producers: ProducerState) -> list[AbortedTxn]:
    """What replaying the log from `producers` up to the segment's end says."""
    found = []
    for each in segments.between(producers.end_offset, segment.base_offset + 1):
        for position, header in each.headers():
            if header.last_offset >= producers.end_offset:
                aborted = replay.note(producers, each, position, header)
                if aborted is not None and each is segment:
                    found.append(aborted)
    return found


def _state_before(
    segments: Segments, snapshots: Snapshots, offset: int, expiration_ms: int
) -> ProducerState:
    """The producers at the newest snapshot up to `offset`, or at the log's start."""
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
