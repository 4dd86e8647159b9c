"""How far the followers of a partition are, as its leader sees it; no clock and no I/O.

A follower's fetch offset is where its log ends.  It is caught up while that is where the leader's
log ended when it fetched, or, as it can hardly be that under load, when it fetched the time before:

    fetch offset >= the leader's end now                   caught up now
    fetch offset >= the leader's end at its fetch before   caught up when it fetched then

    in sync            it was caught up no longer ago than replica.lag.time.max.ms
    high watermark     the smallest end among the leader's own and those of the maximal ISR, and of
                       whoever is about to join it; it never goes back
    maximal ISR        while the controller has not answered, all that may be in the ISR by then:
                       a record must not count that a replica lacks which may be elected (KIP-497)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

UNKNOWN_OFFSET: Final = -1


class Follower:
    """One of the other replicas."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = 0
        self.last_fetch_ms = 0
        self.leader_end_offset = UNKNOWN_OFFSET
        """The leader's log end offset when it last fetched."""
        self.broker_epoch = -1

    def begin(self, end_offset: int, now_ms: int, *, in_sync: bool, new_leader: bool) -> None:
        """A leader epoch begins; a leader that was another one before knows nothing of it yet."""
        self.last_caught_up_ms = now_ms if in_sync else 0
        if new_leader:
            self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
            self.leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = 0
        else:
            self.leader_end_offset = end_offset
            self.last_fetch_ms = now_ms if in_sync else 0

    def fetched(
        self, offset: int, log_start_offset: int, end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """It asked for what comes from `offset` on; the leader's log ended at `end_offset`."""
        if offset >= end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.leader_end_offset = max(end_offset, self.leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


class Progress:
    """All followers of one partition in one leader epoch, or several of the same leader."""

    __slots__ = ("epoch_start_offset", "followers")

    def __init__(self) -> None:
        self.followers: dict[int, Follower] = {}
        self.epoch_start_offset = UNKNOWN_OFFSET
        """Where the leader's log ended when this leader epoch began."""

    def assign(self, followers: Iterable[int]) -> None:
        """These are the other replicas; what is known of those that stay, stays."""
        known = self.followers
        self.followers = {each: known.get(each) or Follower(each) for each in followers}

    def begin_epoch(
        self, end_offset: int, isr: Collection[int], now_ms: int, *, new_leader: bool
    ) -> None:
        """The leader leads in a new epoch, from `end_offset` on."""
        self.epoch_start_offset = end_offset
        for follower in self.followers.values():
            follower.begin(
                end_offset, now_ms, in_sync=follower.broker_id in isr, new_leader=new_leader
            )

    def high_watermark(
        self,
        end_offset: int,
        maximal_isr: Collection[int],
        now_ms: int,
        lag_max_ms: int,
        is_eligible: Callable[[int], bool],
    ) -> int:
        """Up to where all have the log that count; `end_offset` is how far the leader counts."""
        smallest = end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < smallest and (
                follower.broker_id in maximal_isr
                or (
                    follower.is_caught_up(end_offset, now_ms, lag_max_ms)
                    and is_eligible(follower.broker_id)
                )
            ):
                smallest = follower.log_end_offset
        return smallest

    def out_of_sync(
        self, isr: Collection[int], end_offset: int, now_ms: int, lag_max_ms: int
    ) -> set[int]:
        """Of `isr` those that have fallen behind, or no longer fetch."""
        return {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in isr
            and not follower.is_caught_up(end_offset, now_ms, lag_max_ms)
        }

    def may_join(self, follower: Follower, high_watermark: int) -> bool:
        """It has all that is committed, and all that was there when this epoch began."""
        return (
            0 <= self.epoch_start_offset <= follower.log_end_offset
            and follower.log_end_offset >= high_watermark
        )

    def low_watermark(self, log_start_offset: int, is_alive: Callable[[int], bool]) -> int:
        """Before it no live replica has a record."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if is_alive(follower.broker_id)
        ]
        return min([log_start_offset, *starts])
