"""The progress of a partition's followers, as its leader sees it; it has no clock and no I/O.

The fetch offset of a follower is its log end offset.  The follower is caught up if its log ends
where the leader's log ended at this fetch.  Under load it hardly ever does, so its fetch before
this one counts too:

    fetch offset >= leader's end at this fetch             caught up now
    fetch offset >= leader's end at the previous fetch     caught up at the time of that fetch

    in sync            the follower was caught up within the last replica.lag.time.max.ms
    maximal ISR        every replica that may be in the ISR while the controller has not answered a
                       proposal.  A record is not committed while one of them lacks it, as that one
                       may be elected (KIP-497)
    high watermark     the smallest log end offset of the leader, of the maximal ISR, and of
                       followers that are about to join it; it never decreases
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

UNKNOWN_OFFSET: Final = -1


class Follower:
    """What the leader knows of one follower."""

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
        """Describe a follower that has not fetched yet."""
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = 0
        self.last_fetch_ms = 0
        self.leader_end_offset = UNKNOWN_OFFSET
        """The leader's log end offset at the follower's last fetch."""
        self.broker_epoch = -1

    def begin(self, end_offset: int, now_ms: int, *, in_sync: bool, new_leader: bool) -> None:
        """Begin a leader epoch.  With `new_leader` this broker did not lead before, and so knows
        nothing of the follower."""
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
        """Note a fetch from `offset`, while the leader's log ended at `end_offset`."""
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


class FollowerProgress:
    """All followers of one partition, for as long as one broker leads it."""

    __slots__ = ("epoch_start_offset", "followers")

    def __init__(self) -> None:
        self.followers: dict[int, Follower] = {}
        self.epoch_start_offset = UNKNOWN_OFFSET
        """The leader's log end offset when this leader epoch began."""

    def assign(self, followers: Iterable[int]) -> None:
        """Set the followers; those that stay keep their progress."""
        before = self.followers
        self.followers = {
            broker_id: before.get(broker_id) or Follower(broker_id) for broker_id in followers
        }

    def begin_epoch(
        self, end_offset: int, isr: Collection[int], now_ms: int, *, new_leader: bool
    ) -> None:
        """Begin a leader epoch, whose first record gets `end_offset`."""
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
        is_eligible: Callable[[Follower], bool],
    ) -> int:
        """Return the smallest end of the logs of the leader, the maximal ISR, and joining
        followers.

        `end_offset` is the leader's own share: its log end offset, or where its last flush ended.
        """
        smallest = end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < smallest and (
                follower.broker_id in maximal_isr
                or (follower.is_caught_up(end_offset, now_ms, lag_max_ms) and is_eligible(follower))
            ):
                smallest = follower.log_end_offset
        return smallest

    def out_of_sync(
        self, isr: Collection[int], end_offset: int, now_ms: int, lag_max_ms: int
    ) -> set[int]:
        """Return the followers in `isr` that lag behind or no longer fetch."""
        return {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in isr
            and not follower.is_caught_up(end_offset, now_ms, lag_max_ms)
        }

    def silent(self, isr: Collection[int], now_ms: int, lag_max_ms: int) -> set[int]:
        """Return the followers in `isr` that have not fetched for `lag_max_ms`."""
        return {
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in isr and now_ms - follower.last_fetch_ms > lag_max_ms
        }

    def may_join(self, follower: Follower, high_watermark: int) -> bool:
        """Return whether the follower may join the ISR.

        It needs all committed records, and all records from before this leader epoch.
        """
        return (
            0 <= self.epoch_start_offset <= follower.log_end_offset
            and follower.log_end_offset >= high_watermark
        )

    def low_watermark(self, log_start_offset: int, is_alive: Callable[[int], bool]) -> int:
        """Return the smallest log start offset of all live replicas: none of them has earlier
        records.
        """
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if is_alive(follower.broker_id)
        ]
        return min([log_start_offset, *starts])
