"""Whether `leader-epoch-checkpoint` fits the batches, each of which names the epoch it is of.

    the batch at an entry's start   is of its epoch
    the batch before that           is of the entry's before it
    the first batch of the log      is of some entry's epoch
    the last batch of the log       is of the last entry's before the end of the log

An entry at the end of the log is of a leader that nobody has written to yet: nothing speaks for it
or against it.  Opening a log drops what its file says there, so it is one made since.

Epochs only grow along a log, so the segments in which one begins are all that is read when the
entries have to be made anew.  What compaction or retention has taken is not looked for.
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
    """Have the epochs of a log from `start` to `end` right.  OSError, CorruptBatch."""
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
    """Whether the epoch at a batch, if there is one, is its own."""
    if batch is None:
        return True
    return batch.partition_leader_epoch in (UNDEFINED_EPOCH, epochs.epoch_for(batch.last_offset))


def make_anew(epochs: LeaderEpochCache, segments: Segments, log_start_offset: int) -> None:
    """Replace all entries by what the batches say; not written yet."""
    _logger.warning("%s does not fit the log; making it anew", epochs.path)
    epochs.clear()
    for segment in segments:
        for header in _where_epochs_begin(segment):
            if header.partition_leader_epoch > epochs.latest_epoch:
                epochs.add(header.partition_leader_epoch, header.base_offset)
    epochs.truncate_from_start(log_start_offset)
    epochs.checked = True


def _covers(epochs: LeaderEpochCache, segments: Segments, start: int, end: int) -> bool:
    """Whether there is an entry for the first batch, and one for the last."""
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
    """Whether `epoch` begins at `first`, and the next one at `following`."""
    found = segments.batch_at(first)
    if found is None or found.base_offset >= following:
        return True  # nothing of that epoch is left
    if found.partition_leader_epoch != epoch:
        return False
    if first <= start:
        return True
    before = segments.batch_at(first - 1)
    if before is None or before.base_offset >= first:
        return True
    return before.last_offset < first and agrees(epochs, before)


def _where_epochs_begin(segment: Segment) -> Iterable[BatchHeader]:
    """Headers of the segment, those among which a new epoch may begin."""
    first = next((header for _, header in segment.headers()), None)
    last = segment.last_header()
    if first is None or last is None or first.partition_leader_epoch == last.partition_leader_epoch:
        return [] if first is None else [first]
    return (header for _, header in segment.headers())
