"""Leading: the leader's side of a partition that has followers (high watermark and ISR).

    on an append            wake the Fetches of followers that wait for records
    on a follower's Fetch   note how far the follower is, advance the high watermark, and propose
                            the follower for the ISR if it has caught up
    periodically            propose an ISR without the followers that have not been caught up for
                            replica.lag.time.max.ms

Only the controller changes the ISR (AlterPartition, KIP-497).  One change is proposed at a time.
Until the controller answers, the high watermark waits for the maximal ISR (committed and proposed),
and min.insync.replicas is checked against the committed ISR.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log import LogError
from kwire.storage.partitions.progress import Follower, FollowerProgress

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.cluster.replication.isr import IsrChanges
    from kwire.storage.partitions.partition import Partition

LowWatermarkWaiter = tuple[int, Callable[[ErrorCode, int], None]]


class LeaderContext:
    """What all partitions that this broker leads share."""

    __slots__ = ("changes", "is_alive", "is_eligible", "is_stale", "lag_max_ms", "now_ms")

    def __init__(
        self,
        changes: IsrChanges,
        *,
        now_ms: Callable[[], int],
        is_alive: Callable[[int], bool],
        is_eligible: Callable[[Follower], bool],
        is_stale: Callable[[int, int], bool],
        lag_max_ms: int,
    ) -> None:
        """`lag_max_ms` is replica.lag.time.max.ms.

        `is_alive(broker_id)` is whether the broker is in the metadata, `is_eligible(follower)`
        whether it may join an ISR, and `is_stale(broker_id, broker_epoch)` whether the broker has
        registered again since it got that epoch.
        """
        self.changes = changes
        self.now_ms = now_ms
        self.is_alive = is_alive
        self.is_eligible = is_eligible
        self.is_stale = is_stale
        self.lag_max_ms = lag_max_ms


class Leading:
    """The leader's state of one partition that has followers, while this broker leads it."""

    __slots__ = (
        "_context",
        "_has_ineligible",
        "_partition",
        "_progress",
        "_uncommitted",
        "_waiters",
        "proposed",
    )

    def __init__(self, partition: Partition, context: LeaderContext) -> None:
        """Starts without any follower's progress: each follower is in it once it fetches."""
        self._partition = partition
        self._context = context
        self._progress = FollowerProgress()
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._waiters: list[LowWatermarkWaiter] = []
        self.proposed: tuple[int, ...] | None = None
        """The ISR proposed to the controller; None if no proposal waits for its answer."""
        self._has_ineligible = False
        """Whether the controller refused a replica since it last committed an ISR: then followers
        that no longer fetch are out of sync, even if they had all records."""

    def follow(
        self, state: PartitionImage, *, new_leader: bool, new_epoch: bool, is_known: bool = False
    ) -> None:
        """Applies `state`, which the controller sent and the partition has already taken over.

        `new_leader`: this broker did not lead the partition before.  `is_known`: the ISR of `state`
        is not newer than the one on which the pending proposal is based.
        """
        partition = self._partition
        if not is_known:
            self.proposed, self._has_ineligible = None, False
        self._progress.assign(
            broker_id for broker_id in state.replicas if broker_id != partition.node_id
        )
        if new_epoch:
            now_ms = self._context.now_ms()
            end_offset = partition.log.log_end_offset
            self._progress.begin_epoch(end_offset, state.isr, now_ms, new_leader=new_leader)
        self.advance()

    # -- state

    @property
    def is_lagging(self) -> bool:
        """Whether the high watermark is below the log end offset at the start of this epoch.

        Until it is not, this leader does not know which older records are committed.
        """
        return self._progress.epoch_start_offset > self._partition.high_watermark

    @property
    def _maximal_isr(self) -> tuple[int, ...]:
        isr = self._partition.isr
        return isr if self.proposed is None else (*isr, *self.proposed)

    def follower(self, broker_id: int) -> Follower | None:
        return self._progress.followers.get(broker_id)

    @property
    def followers(self) -> list[Follower]:
        return list(self._progress.followers.values())

    # -- events

    def appended(self, size_bytes: int) -> None:
        """Notes that the leader appended a batch of `size_bytes`."""
        partition = self._partition
        self._uncommitted.append((partition.log.log_end_offset, size_bytes))
        self.advance()
        if partition.replica_waiters:
            for waiter in tuple(partition.replica_waiters):
                waiter.data_arrived(size_bytes)

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Handles a follower's fetch from `offset` on: the follower has all records before it.

        This may raise the high watermark, or let the follower join the ISR.  Raises LogError
        NOT_LEADER_OR_FOLLOWER if the follower has restarted since it sent the fetch (KIP-903): its
        log may be shorter by now.
        """
        partition, progress = self._partition, self._progress
        if self._context.is_stale(follower.broker_id, broker_epoch):
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        before, start_before = follower.log_end_offset, follower.log_start_offset
        now_ms = self._context.now_ms()
        end_offset = partition.log.log_end_offset
        follower.fetched(offset, log_start_offset, end_offset, now_ms, broker_epoch)
        self._maybe_expand(follower)
        if follower.log_end_offset != before:
            self.advance()
        if self._waiters and start_before != log_start_offset:
            self._release_low_watermark_waiters()
        assert progress is self._progress

    def advance(self) -> None:
        """Move the high watermark up to the offset that all of the maximal ISR have reached.

        The maximal ISR is the committed one and the proposed one together (KIP-497).
        """
        partition, context = self._partition, self._context
        if partition.is_under_min_isr:
            return  # KIP-966: the high watermark stands still below min.insync.replicas
        log = partition.log
        high_watermark = self._progress.high_watermark(
            # With `flush.messages` the leader has only the records that it has flushed.
            log.recovery_point if partition.is_flushing else log.log_end_offset,
            self._maximal_isr,
            context.now_ms(),
            context.lag_max_ms,
            context.is_eligible,
        )
        if high_watermark > partition.high_watermark:
            size_bytes = 0
            uncommitted = self._uncommitted
            while uncommitted and uncommitted[0][0] <= high_watermark:
                size_bytes += uncommitted.popleft()[1]
            partition.advance_high_watermark(high_watermark, size_bytes)

    # -- the ISR

    def _maybe_expand(self, follower: Follower) -> None:
        """Proposes to add a follower to the ISR, if it has all committed records.

        Does nothing while another proposal waits for the controller's answer.
        """
        partition, broker_id = self._partition, follower.broker_id
        if (
            self.proposed is None
            and broker_id not in partition.isr
            and self._context.is_eligible(follower)
            and self._progress.may_join(follower, partition.high_watermark)
        ):
            self._propose((*partition.isr, broker_id))

    def maybe_shrink(self) -> None:
        """Propose an ISR without the followers that are out of sync, if there are any."""
        if self.proposed is None:
            self._shrink(None)

    def _shrink(self, refused: tuple[int, ...] | None) -> None:
        """Proposes an ISR without the followers that are out of sync, unless it is `refused`."""
        partition = self._partition
        now_ms, lag_max_ms = self._context.now_ms(), self._context.lag_max_ms
        out_of_sync = self._progress.out_of_sync(
            partition.isr, partition.log.log_end_offset, now_ms, lag_max_ms
        )
        if out_of_sync and self._has_ineligible:
            out_of_sync |= self._progress.silent(partition.isr, now_ms, lag_max_ms)
        if out_of_sync:
            isr = tuple(broker_id for broker_id in partition.isr if broker_id not in out_of_sync)
            if isr != refused:
                self._propose(isr)
        elif partition.high_watermark < partition.log.log_end_offset:
            # The high watermark may have waited for a follower about to join, which has gone.
            self.advance()

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.proposed = isr
        self._context.changes.propose(self._partition, isr)

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller committed `isr`."""
        partition = self._partition
        partition.isr, partition.partition_epoch = isr, partition_epoch
        self.proposed, self._has_ineligible = None, False
        self.advance()

    def refused(self, *, ineligible: bool = False) -> None:
        """Handles a refused proposal: the ISR that the controller committed before stays.

        Shrink the ISR at once if needed.  A follower that is proposed and refused again and again
        would otherwise have a proposal in flight whenever the periodic check runs.  The ISR that
        was refused waits for that check.

        With `ineligible`, the controller says that a replica of the proposal cannot be in sync.  It
        may have restarted since its last fetch.  If it cannot reach this leader, it would stay in
        the ISR because it had all records, and the controller would refuse each ISR with it.
        """
        refused, self.proposed = self.proposed, None
        self._has_ineligible |= ineligible
        self.advance()
        self._shrink(refused)

    # -- deleted records

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the leader and the live followers."""
        start = self._partition.log.log_start_offset
        return self._progress.low_watermark(start, self._context.is_alive)

    @property
    def deletions_awaited(self) -> int:
        """The number of DeleteRecords that wait until the followers have deleted, too."""
        return len(self._waiters)

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None:
        """Calls `callback` once no live replica has records before `offset`.

        Its arguments are NONE and the low watermark, or an error if this broker stops leading.
        """
        low_watermark = self.low_watermark
        if low_watermark >= offset:
            callback(ErrorCode.NONE, low_watermark)
        else:
            self._waiters.append((offset, callback))

    def _release_low_watermark_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for offset, callback in waiters:
            self.when_deleted(offset, callback)

    def stop(self, error: ErrorCode) -> None:
        """This broker stops leading; answer waiting DeleteRecords requests with `error`."""
        self.proposed = None
        waiters, self._waiters = self._waiters, []
        for _, callback in waiters:
            callback(error, -1)


def check_replica(partition: Partition, broker_id: int, *, named_epoch: bool) -> Follower:
    """Return the follower `broker_id` of a partition.  Raises LogError if it is not a replica.

    `named_epoch`: the request named the leader epoch, and it is the current one.
    """
    leading = partition.leading
    follower = None if leading is None else leading.follower(broker_id)
    if follower is None:
        # A broker that names the epoch believes it is a replica: it knows a later assignment.
        raise LogError(
            ErrorCode.UNKNOWN_LEADER_EPOCH if named_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
    return follower
