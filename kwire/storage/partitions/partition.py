"""One partition as this broker holds it: its log, its epoch, its high watermark and who waits.

Handlers, coordinators and (later) replication see this object only.  A broker alone is the case of
one replica that is in sync with itself: `append` then commits at once, by the same code that a
follower's progress will call.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.log import AppendResult, Log, LogError, Origin, Region, Verification

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.codecs.batches import BatchHeader
    from kwire.codecs.control import EndTxnMarker
    from kwire.storage.partitions.flushing import Flusher
    from kwire.storage.partitions.progress import Follower

_ticket = count()


class FetchWaiter(Protocol):
    """A parked Fetch; see kwire.storage.partitions.purgatory."""

    def data_arrived(self, size_bytes: int) -> None:
        """Some `size_bytes` more may be readable in a partition that this fetch asked for."""

    def partition_changed(self) -> None:
        """The partition went away, moved or changed its epoch: answer now."""


class Followers(Protocol):
    """The other replicas of a partition that is led here; see kwire.cluster.replication.leading."""

    proposed: tuple[int, ...] | None

    @property
    def is_lagging(self) -> bool:
        """Whether it is not known yet what of the log of earlier leaders counts."""

    def follower(self, broker_id: int) -> Follower | None: ...

    def appended(self, size_bytes: int) -> None:
        """The log is that much longer."""

    def advance(self) -> None:
        """Have count what does."""

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None: ...

    def maybe_shrink(self) -> None: ...

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> None: ...

    def refused(self) -> None: ...

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None: ...

    def stop(self, error: ErrorCode) -> None:
        """The partition is led here no longer."""


class Unattended:
    """Followers that nobody keeps an eye on: nothing counts while another is in sync."""

    proposed: tuple[int, ...] | None = None
    is_lagging = False

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def follower(self, broker_id: int) -> None:
        return None

    def appended(self, size_bytes: int) -> None:
        if len(self._partition.isr) == 1 and not self._partition.is_flushing:
            self._partition.advance_high_watermark(self._partition.log.log_end_offset, size_bytes)

    def advance(self) -> None:
        self.appended(0)

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        raise AssertionError("no follower is known")

    def maybe_shrink(self) -> None:
        return

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        return

    def refused(self) -> None:
        return

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None:
        callback(ErrorCode.NONE, self._partition.log.log_start_offset)

    def stop(self, error: ErrorCode) -> None:
        return


class Partition:
    """The one owner of a partition's state on this broker.

    Offsets: `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
    """

    __slots__ = (
        "_commit_waiters",
        "_flush_end",
        "_flush_waiters",
        "_flusher",
        "_unflushed_bytes",
        "fetch_waiters",
        "following",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "led_since_epoch",
        "log",
        "node_id",
        "partition_epoch",
        "replica_waiters",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        log: Log,
        node_id: int,
        flusher: Flusher | None = None,
        high_watermark: int | None = None,
    ) -> None:
        """`flusher` makes durable what `flush.messages` asks for; without one each append does.

        `high_watermark` is up to where others are known to have the log; without one there are
        none, and all of it counts.
        """
        self.log = log
        self._flusher = flusher
        log.flush_inline = flusher is None
        self._flush_end = 0
        """Where the log ended with the last append that reached `flush.messages`; 0 once all before
        it is flushed."""
        self._unflushed_bytes = 0
        self._flush_waiters: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self.topic = log.topic
        self.topic_id = log.topic_id
        self.index = log.partition
        self.node_id = node_id
        self.leader = -1
        self.leader_epoch = -1
        self.led_since_epoch = -1
        """The leader epoch since which it is led here, while it is."""
        self.partition_epoch = 0
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: tuple[int, ...] = (node_id,)
        self.leading: Followers | None = None
        """While it is led here and has other replicas: what they have."""
        self.following = False
        """Whether another broker leads it, as far as is known here."""
        end = log.log_end_offset
        self.high_watermark = end if high_watermark is None else min(high_watermark, end)
        log.high_watermark_advanced(self.high_watermark)  # markers found by recovery are stable
        self.fetch_waiters: set[FetchWaiter] = set()
        self.replica_waiters: set[FetchWaiter] = set()
        """Followers that wait for what is appended; the others wait until it counts."""
        self._commit_waiters: list[tuple[int, int, Callable[[ErrorCode], None]]] = []

    def replace_log(self, log: Log) -> None:
        """The log has been moved to another directory: this one has all that it had."""
        self.log = log
        log.flush_inline = self._flusher is None
        log.high_watermark_advanced(self.high_watermark)

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed consumer may not see yet (KIP-98)."""
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return unstable

    def follow(self, state: PartitionImage) -> None:
        """Take over what the cluster says of this partition: leader, epochs, replicas, ISR.

        LogError if the disk does not take the leader's epoch; the leader is the one before then.
        """
        self.replicas, self.isr = state.replicas, state.isr
        self.partition_epoch = state.partition_epoch
        self._expect_followers(state)
        if (self.leader, self.leader_epoch) == (state.leader, state.leader_epoch):
            return
        if state.leader == self.node_id:
            self.log.assign_epoch(state.leader_epoch, self.log.log_end_offset)
            if not self.is_leader:
                self.led_since_epoch = state.leader_epoch
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.following = False
        if not self.is_leader:
            self.release_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._wake_fetches()  # what they named as the current epoch is none any longer

    def _expect_followers(self, state: PartitionImage) -> None:
        if state.leader == self.node_id and len(state.replicas) > 1:
            if self.leading is None:
                self.leading = Unattended(self)
        elif self.leading is not None:
            self.leading.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.leading = None

    def check_leader_epoch(self, epoch: int) -> None:
        """LogError if `epoch`, named as the current one, is an older or a later one (KIP-320)."""
        if epoch < self.leader_epoch:
            raise LogError(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > self.leader_epoch:
            raise LogError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(
        self,
        batches: bytearray | memoryview,
        *,
        now_ms: int,
        required_acks: int = 1,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append one batch as the leader; offsets and epoch are written into `batches`.

        `required_acks` is Produce's `acks`: -1 asks for `min.insync.replicas` beforehand.
        For `verification` and `transaction_version` see Log.append.
        Raises LogError; the log is unchanged then.
        """
        self._check_leads(required_acks)
        log = self.log
        result = log.append(
            batches,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            verification=verification,
            transaction_version=transaction_version,
        )
        self._appended(result.size_bytes)
        return result

    def append_marker(
        self,
        batch: bytearray,
        header: BatchHeader,
        marker: EndTxnMarker,
        *,
        now_ms: int,
        transaction_version: int,
    ) -> None:
        """Append the marker of a transaction: `batch`, which has `header`.  Raises LogError."""
        self._check_leads(-1)
        self.log.append_marker(
            batch,
            header,
            marker,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        self._appended(len(batch))

    def _appended(self, size_bytes: int) -> None:
        """A broker that is alone in sync has committed the batch, once it is flushed if it must."""
        if self.log.flush_due:
            assert self._flusher is not None, "only an owner with a flusher clears flush_inline"
            self._flush_end = self.log.log_end_offset
            self._flusher.request(self)
        if self.leading is not None:
            self.leading.appended(size_bytes)
        elif self._flush_end and self.is_flushing:
            self._unflushed_bytes += size_bytes
        else:
            self._advance(self.log.log_end_offset, size_bytes)  # the log knows it has changed

    @property
    def is_flushing(self) -> bool:
        """Whether something that was appended may not be acknowledged before it is flushed."""
        return self.log.recovery_point < self._flush_end

    def flushed(self, offset: int) -> None:
        """Everything before `offset` is on this broker's disk."""
        size_bytes = self._unflushed_bytes
        is_flushing = self.is_flushing
        if not is_flushing:
            # What has come since does not reach the setting: it waits for no flush.
            self._flush_end = self._unflushed_bytes = 0
        if self.leading is not None:
            self.leading.advance()
        elif self.is_leader:  # to a follower its leader says what counts
            self.advance_high_watermark(
                offset if is_flushing else self.log.log_end_offset, size_bytes
            )
        waiters, self._flush_waiters = self._flush_waiters, []
        for wanted, callback in waiters:
            if wanted > offset and is_flushing:
                self.when_flushed(wanted, callback)
            else:
                callback(ErrorCode.NONE)

    def when_flushed(self, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback(NONE)` once everything before `offset` is on this broker's disk.

        It is called with an error instead where the disk refuses.
        """
        self._flush_waiters.append((offset, callback))

    def why_not_led(self) -> ErrorCode:
        """What clients are told where this broker is not the leader: its disk may be the reason."""
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_leads(self) -> None:
        """LogError if this broker is not the leader."""
        if self.leader != self.node_id:
            raise LogError(self.why_not_led())

    def _check_leads(self, required_acks: int) -> None:
        if self.leader != self.node_id:
            raise LogError(self.why_not_led())
        in_sync = len(self.isr)
        if (
            required_acks == -1
            and in_sync < self.log.config.min_insync_replicas
            and in_sync < len(self.replicas)  # there cannot be more: Kafka caps it
        ):
            raise LogError(ErrorCode.NOT_ENOUGH_REPLICAS)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all would be refused."""
        in_sync = len(self.isr)
        return in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Region | None:
        """Whole batches from `offset` up to (not including) `max_offset`; see Log.read."""
        return self.log.read(offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)

    def followed(self, high_watermark: int, log_start_offset: int, size_bytes: int) -> None:
        """What a leader has sent is appended: `size_bytes`, and what it says of its own log."""
        log = self.log
        self.advance_high_watermark(
            max(self.high_watermark, min(high_watermark, log.log_end_offset)), size_bytes
        )
        if log.log_start_offset < log_start_offset <= self.high_watermark:
            log.increment_log_start_offset(log_start_offset)
        if (
            log.flushes_by_messages
            and log.log_end_offset - log.recovery_point >= log.config.flush_messages
            and self._flusher is not None
        ):
            log.flush_due = True
            self._flusher.request(self)

    def truncated(self) -> None:
        """The log ends earlier than it did: what it has lost was never committed, or is lost.

        Only followers cut their logs, and `follow` has let go of all that waited for a flush.
        """
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def advance_high_watermark(self, offset: int, size_bytes: int) -> None:
        """Records below `offset` are on every in-sync replica; wake who waits for that."""
        self.log.upkeep[self.log] = None  # for the checkpoint
        self._advance(offset, size_bytes)

    def _advance(self, offset: int, size_bytes: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.log.producers.unreplicated:  # markers that move the last stable offset
                self.log.high_watermark_advanced(offset)
        if self._commit_waiters:
            self._release_commit_waiters()
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                waiter.data_arrived(size_bytes)

    def when_replicated(self, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback(NONE)` once everything before `offset` is committed, at once if it is.

        It is called with an error instead when the partition stops being led here.
        """
        if offset <= self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            heapq.heappush(self._commit_waiters, (offset, next(_ticket), callback))

    def _release_commit_waiters(self) -> None:
        waiters = self._commit_waiters
        while waiters and waiters[0][0] <= self.high_watermark:
            heapq.heappop(waiters)[2](ErrorCode.NONE)

    def stop(self, error: ErrorCode) -> None:
        """The partition is deleted or led elsewhere: nobody may wait for it any longer."""
        self.leader = -1
        self.following = False
        if self.leading is not None:
            self.leading.stop(error)
            self.leading = None
        self.release_waiters(error)

    def release_waiters(self, error: ErrorCode) -> None:
        """Answer everybody who waits here: there will be nothing to wait for."""
        commit_waiters, self._commit_waiters = self._commit_waiters, []
        flush_waiters, self._flush_waiters = self._flush_waiters, []
        self._flush_end = self._unflushed_bytes = 0
        for _, _, callback in commit_waiters:
            callback(error)
        for _, callback in flush_waiters:
            callback(error)
        self._wake_fetches()

    def _wake_fetches(self) -> None:
        for waiter in (*self.fetch_waiters, *self.replica_waiters):
            waiter.partition_changed()
