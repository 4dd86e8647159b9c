"""What a follower does next with one partition; no clock and no I/O.

A log must be a beginning of its leader's.  Where it has batches that its leader has not (they were
never committed), it is cut back to where the two part (KIP-101, KIP-279):

    leader of today      the Fetch names the epoch of the log's last batch; where the leader's log
                         leaves the follower's it answers with the epoch and the end offset that
                         both may share (KIP-595)
    before Fetch v12     OffsetForLeaderEpoch is asked first, until the two agree

                 the leader's answer (epoch, end offset)      cut to
    unknown      end offset -1                                the follower's high watermark
    no epochs    epoch -1                                     min(end offset, own end)
    known here   an epoch that the follower has               min(end offset, own end of that epoch)
    not known    one that it has not: own epoch before it     own end of that; asked again

An offset that the leader's log lacks (OFFSET_OUT_OF_RANGE) asks where it begins and ends:

    the leader ends before this log     an unclean election: cut to its end
    the leader begins behind this log   everything goes, the log begins where the leader's does
    else                                it was a race: fetch again
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

UNDEFINED = -1


class FollowerLog(Protocol):
    """As much of a log as a decision needs."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """Of its last batch; -1 where none is known."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch up to `epoch`; (-1, -1) if unknown."""


class Cut(NamedTuple):
    """Everything from `offset` on goes.  `is_final`: what is left is the leader's as well."""

    offset: int
    is_final: bool


class Restart(NamedTuple):
    """The whole log goes; it begins again at `offset`."""

    offset: int


class Next(Enum):
    """What a partition's fetcher does with it."""

    FETCH = "fetch"
    ASK_EPOCH = "ask where an epoch ended"
    ASK_ENDS = "ask where the leader's log begins and ends"
    WAIT_FOR_CONTROLLER = "nothing, until the controller says who leads"


def first_step(log: FollowerLog, *, truncates_on_fetch: bool) -> Next:
    """How to begin to follow a leader.

    A log without epochs is empty, or of a time before them: nothing is known of it but what is
    committed, so it is cut to the high watermark and needs no question.
    """
    if truncates_on_fetch or log.latest_epoch == UNDEFINED:
        return Next.FETCH
    return Next.ASK_EPOCH


def cut_after_answer(log: FollowerLog, high_watermark: int, epoch: int, end_offset: int) -> Cut:
    """What to cut by the leader's answer where an epoch ended."""
    own_end = log.log_end_offset
    if end_offset == UNDEFINED:
        return Cut(min(high_watermark, own_end), True)
    if epoch == UNDEFINED:
        return Cut(min(end_offset, own_end), True)
    own_epoch, own_epoch_end = log.end_offset_for_epoch(epoch)
    if own_epoch == UNDEFINED:
        return Cut(min(end_offset, own_end), True)
    if own_epoch != epoch:
        return Cut(min(own_epoch_end, own_end), False)
    return Cut(min(own_epoch_end, end_offset, own_end), True)


def after_out_of_range(
    log: FollowerLog, leader_start: int, leader_end: int
) -> Cut | Restart | None:
    """What to do where the leader's log lacks the offset asked for; None: fetch again."""
    own_end = log.log_end_offset
    if leader_end < own_end:
        return Cut(leader_end, True)
    if leader_start > own_end:
        return Restart(leader_start)
    return None
