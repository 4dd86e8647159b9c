"""Decides how far a follower truncates its log; no clock and no I/O.

The log of a follower must be a prefix of its leader's log.  Batches that the leader does not have
were never committed: the follower truncates its log to the offset where the two logs diverge
(KIP-101, KIP-279).

    from Fetch v12 on    the follower's Fetch names the epoch of its last batch; if the logs
                         diverge, the leader answers with an epoch and its end offset (KIP-595)
    before Fetch v12     the follower sends OffsetForLeaderEpoch first, until the two agree

The answer (epoch, end offset) decides:

    end offset -1: the leader does not know           truncate to the follower's high watermark
    epoch -1: the leader has no epochs                to min(end offset, own log end offset)
    the follower has this epoch too                   to min(end offset, own end of this epoch)
    the follower lacks it, has an earlier one         to the own end of that one, then ask again

If the leader answers OFFSET_OUT_OF_RANGE, the follower asks where the leader's log starts and ends:

    the leader ends before the follower's end         truncate to it (after an unclean election)
    the leader starts after the follower's end        remove all records, start where it starts
    otherwise                                         fetch again: the logs changed meanwhile
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

UNDEFINED = -1


class FollowerLog(Protocol):
    """What a decision needs of a log."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last batch; -1 if the log has no epochs."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch up to `epoch`; (-1, -1) if unknown."""


class Truncation(NamedTuple):
    """Remove the records from `offset` on.

    `is_final`: the leader has all records that are left, so fetching may begin.
    """

    offset: int
    is_final: bool


class FullTruncation(NamedTuple):
    """Remove all records; the log starts again at `offset`."""

    offset: int


class FetchStep(Enum):
    """What the fetcher does next with a partition."""

    FETCH = "fetch"
    ASK_EPOCH = "ask where an epoch ended"
    ASK_ENDS = "ask where the leader's log starts and ends"
    WAIT_FOR_CONTROLLER = "nothing, until the controller names a leader"


def first_step(log: FollowerLog, *, truncates_on_fetch: bool) -> FetchStep:
    """Return the first step of a partition after a new leader is named.

    A log without epochs is empty, or older than leader epochs.  Only its records below the high
    watermark are sure to be the leader's: the fetcher truncates it to that and need not ask.
    """
    if truncates_on_fetch or log.latest_epoch == UNDEFINED:
        return FetchStep.FETCH
    return FetchStep.ASK_EPOCH


def truncation_for_epoch_end(
    log: FollowerLog, high_watermark: int, epoch: int, end_offset: int
) -> Truncation:
    """Return the truncation that follows from the leader's end offset of an epoch.

    The module's table has the cases.
    """
    own_end = log.log_end_offset
    if end_offset == UNDEFINED:
        return Truncation(min(high_watermark, own_end), True)
    if epoch == UNDEFINED:
        return Truncation(min(end_offset, own_end), True)
    own_epoch, own_epoch_end = log.end_offset_for_epoch(epoch)
    if own_epoch == UNDEFINED:
        return Truncation(min(end_offset, own_end), True)
    if own_epoch != epoch:
        return Truncation(min(own_epoch_end, own_end), False)
    return Truncation(min(own_epoch_end, end_offset, own_end), True)


def truncation_after_out_of_range(
    log: FollowerLog, leader_start: int, leader_end: int
) -> Truncation | FullTruncation | None:
    """Return the truncation after OFFSET_OUT_OF_RANGE; None means fetch again."""
    own_end = log.log_end_offset
    if leader_end < own_end:
        return Truncation(leader_end, True)
    if leader_start > own_end:
        return FullTruncation(leader_start)
    return None
