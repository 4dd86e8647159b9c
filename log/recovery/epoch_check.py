"""Checks `leader-epoch-checkpoint` against the batches, whose headers have their leader epoch.

    the batch at an entry's start offset    has the entry's epoch
    the batch before it                     has the previous entry's epoch
    the first batch of the log              has the epoch of some entry
    the last batch of the log               has the epoch of the last entry before the log's end

An entry at the end of the log is that of a leader without appends: no batch can confirm it.
Loading a log drops such entries of the file, so this one was added since.

Epochs only grow along a log.  To rebuild the entries, only the segments in which an epoch begins
are read.  Batches that compaction or retention has removed do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from kwire.log.leader_epochs import UNDEFINED_EPOCH

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from kwire.log.leader_epochs import LeaderEpochCache
    from kwire.log.segment import Segment
    from kwire.log.segments import Segments

_logger = logging.getLogger(__name__)


def ensure_checked(epochs: LeaderEpochCache, segments: Segments, start: int, end: int) -> None:
    """Check the epochs of a log from `start` to `end`, and rebuild wrong ones.

    Raises OSError, CorruptBatch.
    """
    if epochs.checked:
        return
    epochs.checked = True
    entries = [*epochs.entries, (UNDEFINED_EPOCH, end)]
    fit = all(
        _fits(epochs, segments, start, epoch, first, following)
        for (epoch, first), (_, following) in pairwise(entries)
    )
    if not (fit and _covers(epochs, segments, start, end)):
        elected = [entry for entry in epochs.entries if entry[1] >= end]
        make_anew(epochs, segments, start)
        for epoch, first in elected:
            epochs.add(epoch, first)
        epochs.flush()


def agrees(epochs: LeaderEpochCache, batch: BatchHeader | None) -> bool:
    """Whether the cache has the batch's epoch at its offset; True if `batch` is None."""
    if batch is None:
        return True
    return batch.partition_leader_epoch in (UNDEFINED_EPOCH, epochs.epoch_for(batch.last_offset))


def make_anew(epochs: LeaderEpochCache, segments: Segments, log_start_offset: int) -> None:
    """Rebuild all entries from the batches, without writing the file."""
    _logger.warning("%s does not fit the log; rebuilding it", epochs.path)
    epochs.clear()
    for segment in segments:
        for header in _where_epochs_begin(segment):
            if header.partition_leader_epoch > epochs.latest_epoch:
                epochs.add(header.partition_leader_epoch, header.base_offset)
    epochs.truncate_from_start(log_start_offset)
    epochs.checked = True


def _covers(epochs: LeaderEpochCache, segments: Segments, start: int, end: int) -> bool:
    """Return whether the epochs of the first and the last batch have entries."""
    first = segments.batch_at(start)
    if first is None or not agrees(epochs, segments.batch_at(end - 1)):
        return first is None
    known = epochs.epoch_for(max(start, first.base_offset))
    return first.partition_leader_epoch in (UNDEFINED_EPOCH, known)


def _fits(
    epochs: LeaderEpochCache,
    segments: Segments,
    start: int,
    epoch: int,
    first: int,
    following: int,
) -> bool:
    """Return whether `epoch` begins at `first`, and the next one at `following`."""
    batch = segments.batch_at(first)
    if batch is None or batch.base_offset >= following:
        return True  # no batch of that epoch is left
    if batch.partition_leader_epoch != epoch:
        return False
    if first <= start:
        return True
    before = segments.batch_at(first - 1)
    if before is None or before.base_offset >= first:
        return True
    return before.last_offset < first and agrees(epochs, before)


def _where_epochs_begin(segment: Segment) -> Iterable[BatchHeader]:
    """Headers of the segment; only the first one if all have the same epoch."""
    first = next((header for _, header in segment.headers()), None)
    last = segment.last_header()
    if first is None or last is None or first.partition_leader_epoch == last.partition_leader_epoch:
        return [] if first is None else [first]
    return (header for _, header in segment.headers())
