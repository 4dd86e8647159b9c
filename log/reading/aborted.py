"""Whether a transaction index that was read from disk fits the log: it has no checksum.

    producer id, last offset    the batch there is an ABORT marker of that producer
    first offset                a transactional batch of that producer begins there
    last stable offset          a transactional batch begins there, or it is behind the marker

Batches that compaction or retention has taken are not looked for.  It is looked at once, when a
read_committed reader first needs the index; one that does not fit is made anew from the batches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kwire.codecs.batches import ControlType
from kwire.log.error import CorruptFile
from kwire.log.producers import replay
from kwire.log.producers import snapshot as producer_snapshot
from kwire.log.producers.state import ProducerState

if TYPE_CHECKING:
    from kwire.log.index.txn_index import AbortedTxn
    from kwire.log.segment import Segment
    from kwire.log.segmented_log import SegmentedLog

_logger = logging.getLogger(__name__)


def ensure_checked(log: SegmentedLog, segment: Segment) -> None:
    """Have the segment's transaction index right.  OSError, CorruptBatch."""
    index = segment.txn_index
    if index.checked:
        return
    if not all(_fits(log, segment, entry) for entry in index.entries):
        _logger.warning("%s does not fit the log; making it anew", index.path)
        index.replace(_made_anew(log, segment))
    index.checked = True


def _fits(log: SegmentedLog, segment: Segment, entry: AbortedTxn) -> bool:
    found = segment.find(entry.last_offset)
    if found is None or found[1].base_offset > entry.last_offset:
        return False
    position, header = found
    if header.producer_id != entry.producer_id:
        return False
    marker = replay.marker_at(segment, position, header)
    if marker is None or marker.kind is not ControlType.ABORT:
        return False
    if not _begins(log, entry.first_offset, entry.producer_id):
        return False
    stable = entry.last_stable_offset
    return stable == entry.last_offset + 1 or (
        stable <= entry.last_offset and _begins(log, stable, None)
    )


def _begins(log: SegmentedLog, offset: int, producer_id: int | None) -> bool:
    """Whether a batch of a transaction begins there: of that producer, or of any."""
    header = log.segments.batch_at(offset) if offset >= 0 else None
    if header is None or header.base_offset > offset:
        return offset >= 0 and _may_be_gone(log, offset)
    return (
        header.base_offset == offset
        and header.is_transactional
        and not header.is_control
        and producer_id in (None, header.producer_id)
    )


def _may_be_gone(log: SegmentedLog, offset: int) -> bool:
    compacted = log.config.compact or log.first_dirty_offset is not None
    return compacted or offset < log.segments.first.base_offset


def _made_anew(log: SegmentedLog, segment: Segment) -> list[AbortedTxn]:
    """What replaying the log up to the segment's end says."""
    producers = _state_before(log, segment.base_offset)
    found = []
    for each in log.segments.between(producers.end_offset, segment.base_offset + 1):
        for position, header in each.headers():
            if header.last_offset >= producers.end_offset:
                aborted = replay.note(producers, each, position, header)
                if aborted is not None and each is segment:
                    found.append(aborted)
    return found


def _state_before(log: SegmentedLog, offset: int) -> ProducerState:
    """The producers at the newest snapshot up to `offset`, or at the log's start."""
    producers = ProducerState(log.producers.expiration_ms)
    for taken in sorted(log.snapshots.offsets, reverse=True):
        if taken <= offset:
            try:
                entries = producer_snapshot.decode(log.files.read(log.snapshots.path(taken)))
            except (CorruptFile, FileNotFoundError):
                continue
            producers.restore(entries, taken, 0)
            return producers
    producers.clear(log.segments.first.base_offset)
    return producers
