"""Leading a partition that has followers: what they have decides what counts, and who is in sync.

    append      replicas that wait are woken; with nobody to wait for it counts at once
    a fetch     the follower's progress; the high watermark; does it join the ISR?
    in between  who has not been caught up for replica.lag.time.max.ms leaves the ISR

The ISR is the controller's to change (AlterPartition, KIP-497).  One change is asked for at a time;
until it is answered the partition counts by the maximal ISR, and takes writes by the committed one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.codecs.errors import ErrorCode
from kwire.log import LogError
from kwire.storage.partitions.progress import Follower, Progress

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.cluster.replication.isr import IsrChanges
    from kwire.storage.partitions.partition import Partition

LowWatermarkWaiter = tuple[int, Callable[[ErrorCode, int], None]]


class LeaderContext:
    """What all partitions led here share."""

    __slots__ = ("changes", "is_alive", "is_eligible", "lag_max_ms", "now_ms")

    def __init__(
        self,
        changes: IsrChanges,
        *,
        now_ms: Callable[[], int],
        is_alive: Callable[[int], bool],
        is_eligible: Callable[[int], bool],
        lag_max_ms: int,
    ) -> None:
        self.changes = changes
        self.now_ms = now_ms
        self.is_alive = is_alive
        self.is_eligible = is_eligible
        self.lag_max_ms = lag_max_ms


class Leading:
    """One partition's; it lives as long as this broker leads it and it has other replicas."""

    __slots__ = ("_context", "_partition", "_progress", "_uncommitted", "_waiters", "proposed")

    def __init__(self, partition: Partition, context: LeaderContext) -> None:
        self._partition = partition
        self._context = context
        self._progress = Progress()
        self._uncommitted: deque[tuple[int, int]] = deque()
        self._waiters: list[LowWatermarkWaiter] = []
        self.proposed: tuple[int, ...] | None = None
        """The ISR that the controller was asked for and that it has not answered."""

    def follow(self, state: PartitionImage, *, new_leader: bool, new_epoch: bool) -> None:
        """The controller's word, which the partition has taken over already."""
        partition = self._partition
        self.proposed = None
        self._progress.assign(each for each in state.replicas if each != partition.node_id)
        if new_epoch:
            now_ms = self._context.now_ms()
            end = partition.log.log_end_offset
            self._progress.begin_epoch(end, state.isr, now_ms, new_leader=new_leader)
        self.advance()

    # -- what it knows

    @property
    def is_lagging(self) -> bool:
        """Whether the followers have yet to confirm what was there when this epoch began."""
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

    # -- what happens

    def appended(self, size_bytes: int) -> None:
        partition = self._partition
        self._uncommitted.append((partition.log.log_end_offset, size_bytes))
        self.advance()
        if partition.replica_waiters:
            for waiter in tuple(partition.replica_waiters):
                waiter.data_arrived(size_bytes)

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """A follower asked for what comes from `offset` on: it has all before."""
        partition, progress = self._partition, self._progress
        before, start_before = follower.log_end_offset, follower.log_start_offset
        now_ms = self._context.now_ms()
        end = partition.log.log_end_offset
        follower.fetched(offset, log_start_offset, end, now_ms, broker_epoch)
        self._maybe_expand(follower)
        if follower.log_end_offset != before:
            self.advance()
        if self._waiters and start_before != log_start_offset:
            self._release_low_watermark_waiters()
        assert progress is self._progress

    def advance(self) -> None:
        """Let count what all have that must."""
        partition, context = self._partition, self._context
        if partition.is_under_min_isr:
            return  # KIP-966: what too few have does not count
        log = partition.log
        high_watermark = self._progress.high_watermark(
            # What is not flushed where `flush.messages` asks for it, the leader does not have.
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
        partition, broker_id = self._partition, follower.broker_id
        if (
            self.proposed is None
            and broker_id not in partition.isr
            and self._context.is_eligible(broker_id)
            and self._progress.may_join(follower, partition.high_watermark)
        ):
            self._propose((*partition.isr, broker_id))

    def maybe_shrink(self) -> None:
        """Have those leave the ISR that have fallen behind."""
        if self.proposed is not None:
            return
        partition = self._partition
        late = self._progress.out_of_sync(
            partition.isr,
            partition.log.log_end_offset,
            self._context.now_ms(),
            self._context.lag_max_ms,
        )
        if late:
            self._propose(tuple(each for each in partition.isr if each not in late))
        elif partition.high_watermark < partition.log.log_end_offset:
            self.advance()  # it may have waited for somebody about to join, who has gone

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.proposed = isr
        self._context.changes.ask(self._partition, isr)

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller has made `isr` the ISR."""
        partition = self._partition
        partition.isr, partition.partition_epoch = isr, partition_epoch
        self.proposed = None
        self.advance()

    def refused(self) -> None:
        """The ISR stays what it was for certain.

        Who has fallen behind leaves it now: a follower that is refused again and again would have
        a change under way whenever the clock looks.
        """
        self.proposed = None
        self.advance()
        self.maybe_shrink()

    # -- deleted records

    @property
    def low_watermark(self) -> int:
        """Before it no live replica has a record."""
        start = self._partition.log.log_start_offset
        return self._progress.low_watermark(start, self._context.is_alive)

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None:
        """Call `callback(NONE, low watermark)` once no live replica has records before `offset`."""
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
        """This broker leads the partition no longer."""
        self.proposed = None
        waiters, self._waiters = self._waiters, []
        for _, callback in waiters:
            callback(error, -1)


def check_replica(partition: Partition, broker_id: int, *, named_epoch: bool) -> Follower:
    """The follower that asks; LogError if it is none of this partition."""
    leading = partition.leading
    follower = None if leading is None else leading.follower(broker_id)
    if follower is None:
        # Who knows the epoch and is no replica learned of that from a later one.
        raise LogError(
            ErrorCode.UNKNOWN_LEADER_EPOCH if named_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
    return follower
