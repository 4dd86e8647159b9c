"""One partition on this broker: its log, its leader epoch, its high watermark, and its waiters.

Handlers, coordinators and replication work with this object, and never with the log itself to
append.  If this broker is the only replica, `append` commits at once; otherwise `Followers`
(kwire.cluster.replication.leading) advances the high watermark as the in-sync replicas fetch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.log import AppendResult, Log, LogError, Origin, Region, Verification, append_markers

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import PartitionImage
    from kwire.codecs.batches import BatchHeader
    from kwire.codecs.control import EndTxnMarker
    from kwire.log import MarkerBatch
    from kwire.storage.partitions.flushing import Flusher
    from kwire.storage.partitions.progress import Follower

_ticket = count()


class FetchWaiter(Protocol):
    """A Fetch that waits for records; see kwire.storage.partitions.purgatory."""

    def data_arrived(self, size_bytes: int) -> None:
        """About `size_bytes` more may be readable in one of the fetch's partitions."""

    def partition_changed(self) -> None:
        """The partition was deleted, moved or got a new epoch: answer the fetch now."""


class Watch(Protocol):
    """A fetch session that has read everything of a partition; it hears of the next news once."""

    @property
    def is_awaited(self) -> bool:
        """Whether a Fetch of the session waits now."""

    def has_news(self, partition: Partition, size_bytes: int, *, changed: bool) -> None:
        """About `size_bytes` more may be readable, or the partition has `changed` otherwise: it was
        deleted, moved or got a new epoch."""


class Followers(Protocol):
    """The followers of a partition that this broker leads (kwire.cluster.replication.leading)."""

    proposed: tuple[int, ...] | None
    """The ISR that was proposed to the controller and is not decided yet, or None."""

    @property
    def is_lagging(self) -> bool:
        """Whether the high watermark may still be below what earlier leaders committed."""

    @property
    def deletions_awaited(self) -> int:
        """The number of DeleteRecords that wait until the followers have deleted, too."""

    def follower(self, broker_id: int) -> Follower | None: ...

    def appended(self, size_bytes: int) -> None:
        """Note that `size_bytes` were appended to the leader's log."""

    def advance(self) -> None:
        """Advance the high watermark as far as the in-sync replicas allow."""

    def fetched(
        self, follower: Follower, offset: int, log_start_offset: int, broker_epoch: int
    ) -> None: ...

    def maybe_shrink(self) -> None: ...

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> None: ...

    def refused(self, *, ineligible: bool = False) -> None: ...

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None: ...

    def stop(self, error: ErrorCode) -> None:
        """Answer all waiting requests with `error`: this broker no longer leads the partition."""


class Unattended:
    """Followers without replication, until it replaces this object.

    Nothing is committed while another replica is in sync.
    """

    proposed: tuple[int, ...] | None = None
    is_lagging = False
    deletions_awaited = 0

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

    def refused(self, *, ineligible: bool = False) -> None:
        return

    def when_deleted(self, offset: int, callback: Callable[[ErrorCode, int], None]) -> None:
        callback(ErrorCode.NONE, self._partition.log.log_start_offset)

    def stop(self, error: ErrorCode) -> None:
        return


class Partition:
    """One partition on this broker; nobody else changes its state.

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
        "watches",
    )

    def __init__(
        self,
        log: Log,
        node_id: int,
        flusher: Flusher | None = None,
        high_watermark: int | None = None,
    ) -> None:
        """`flusher` flushes after appends that reach `flush.messages`; without it, the append does.

        `high_watermark` is that of the last checkpoint, if there are other replicas.  Without other
        replicas it is None, and the whole log is committed.
        """
        self.log = log
        self._flusher = flusher
        log.flush_inline = flusher is None
        self._flush_end = 0
        """The log end offset after the last append that reached `flush.messages`; 0 once everything
        before it is flushed."""
        self._unflushed_bytes = 0
        self._flush_waiters: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self.topic = log.topic
        self.topic_id = log.topic_id
        self.index = log.partition
        self.node_id = node_id
        self.leader = -1
        self.leader_epoch = -1
        self.led_since_epoch = -1
        """The leader epoch in which this broker began to lead, while it leads."""
        self.partition_epoch = 0
        self.replicas: tuple[int, ...] = (node_id,)
        self.isr: tuple[int, ...] = (node_id,)
        self.leading: Followers | None = None
        """The followers, while this broker leads a partition with other replicas; else None."""
        self.following = False
        """Whether this broker fetches from a leader on another broker."""
        end = log.log_end_offset
        self.high_watermark = end if high_watermark is None else min(high_watermark, end)
        log.high_watermark_advanced(self.high_watermark)  # for markers that recovery has found
        self.fetch_waiters: set[FetchWaiter] = set()
        """Consumers' fetches, which wait until records are committed."""
        self.replica_waiters: set[FetchWaiter] = set()
        """Followers' fetches, which wait until records are appended."""
        self.watches: set[Watch] | None = None
        """Consumers' sessions that know everything of this partition."""
        self._commit_waiters: list[tuple[int, int, Callable[[ErrorCode], None]]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether a consumer's Fetch waits for records."""
        return bool(self.fetch_waiters) or any(watch.is_awaited for watch in self.watches or ())

    def watch(self, watch: Watch) -> None:
        """Tell `watch` once when something changes that a consumer can see, except what
        `Log.moves` counts."""
        if self.watches is None:
            self.watches = set()
        self.watches.add(watch)

    def unwatch(self, watch: Watch) -> None:
        """Do not tell `watch` any more."""
        if self.watches is not None:
            self.watches.discard(watch)

    def replace_log(self, log: Log) -> None:
        """Use `log`, a complete copy in another log directory, from now on."""
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
        """The first offset that a read_committed consumer may not read yet (KIP-98)."""
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return unstable

    def follow(self, state: PartitionImage) -> None:
        """Apply the partition's state in the metadata: leader, epochs, replicas, ISR.

        Raises LogError if the leader epoch cannot be written to disk; the leader is unchanged then.
        """
        self.replicas, self.isr = state.replicas, state.isr
        self.partition_epoch = state.partition_epoch
        self._set_followers(state)
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
            self._wake_fetches()  # the leader epoch that they named is no longer the current one

    def _set_followers(self, state: PartitionImage) -> None:
        """Begin to track followers if this broker leads, and stop if it does not any more.

        Waiting producers then get NOT_LEADER_OR_FOLLOWER. A partition without followers needs no
        tracking.
        """
        if state.leader == self.node_id and len(state.replicas) > 1:
            if self.leading is None:
                self.leading = Unattended(self)
        elif self.leading is not None:
            self.leading.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.leading = None

    def check_leader_epoch(self, epoch: int) -> None:
        """Raise LogError if `epoch`, the current one for a client, is older or newer (KIP-320)."""
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
        """Append one batch as the leader; writes offsets and leader epoch into `batches`.

        `required_acks` is `acks` of Produce: with -1 the ISR must have `min.insync.replicas`.  For
        `verification` and `transaction_version` see Log.append.  Raises LogError; the log is
        unchanged then.
        """
        self._check_may_append(required_acks)
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

    def append_own(self, batch: bytearray, records_count: int, *, now_ms: int) -> None:
        """Append a batch that this broker built, as with acks=-1; see Log.append_own.

        Raises LogError; the log is unchanged then.
        """
        self._check_may_append(-1)
        self.log.append_own(batch, records_count, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._appended(len(batch))

    def append_marker(
        self,
        batch: bytearray,
        header: BatchHeader,
        marker: EndTxnMarker,
        *,
        now_ms: int,
        transaction_version: int,
    ) -> None:
        """Append the marker of a transaction; `header` is that of `batch`.  Raises LogError."""
        self._check_may_append(-1)
        self.log.append_marker(
            batch,
            header,
            marker,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        self._appended(len(batch))

    def append_markers(self, markers: Sequence[MarkerBatch], *, now_ms: int) -> list[ErrorCode]:
        """Append the markers of several transactions; return the error of each.

        Raises LogError if no marker may be appended.
        """
        self._check_may_append(-1)
        errors = append_markers(self.log, markers, leader_epoch=self.leader_epoch, now_ms=now_ms)
        size_bytes = appends = 0
        for marker, error in zip(markers, errors, strict=True):
            if error is ErrorCode.NONE:
                size_bytes += len(marker.batch)
                appends += 1
        if appends:
            self._appended(size_bytes, appends)
        return errors

    def _appended(self, size_bytes: int, appends: int = 1) -> None:
        """Advance the high watermark after appends, or start what has to come before that.

        A leader without other replicas commits the batch at once, or after the flush that
        `flush.messages` asks for.
        """
        if self.log.flush_due:
            assert self._flusher is not None, "only an owner with a flusher clears flush_inline"
            self._flush_end = self.log.log_end_offset
            self._flusher.request(self)
        if self.leading is not None:
            self.leading.appended(size_bytes)
        elif self._flush_end and self.is_flushing:
            self._unflushed_bytes += size_bytes
        else:
            # Not `advance_high_watermark`: the append has marked the log for upkeep already.
            self._advance(self.log.log_end_offset, size_bytes)

    @property
    def is_flushing(self) -> bool:
        """Whether appended records have to be flushed before they are acknowledged."""
        return self.log.recovery_point < self._flush_end

    def flushed(self, offset: int) -> None:
        """Advance the high watermark and answer waiters: all before `offset` is on this disk."""
        size_bytes = self._unflushed_bytes
        is_flushing = self.is_flushing
        if not is_flushing:
            # Later appends have not reached `flush.messages`: they need no flush.
            self._flush_end = self._unflushed_bytes = 0
        if self.leading is not None:
            self.leading.advance()
        elif self.is_leader:  # a follower's high watermark comes from its leader
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

        If the disk fails, `callback` gets the error.
        """
        self._flush_waiters.append((offset, callback))

    def why_not_led(self) -> ErrorCode:
        """The error for requests while this broker is not the leader; its disk may have failed."""
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_leads(self) -> None:
        """Raise LogError if this broker is not the leader."""
        if self.leader != self.node_id:
            raise LogError(self.why_not_led())

    def _check_may_append(self, required_acks: int) -> None:
        """Raise LogError if this broker is not the leader, or too few replicas are in sync."""
        if self.leader != self.node_id:
            raise LogError(self.why_not_led())
        in_sync = len(self.isr)
        if (
            required_acks == -1
            and in_sync < self.log.config.min_insync_replicas
            and in_sync < len(self.replicas)  # all replicas are always enough, as in Apache Kafka
        ):
            raise LogError(ErrorCode.NOT_ENOUGH_REPLICAS)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether an append with acks=all would be refused."""
        in_sync = len(self.isr)
        return in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Region | None:
        """Whole batches from `offset` up to (not including) `max_offset`; see Log.read."""
        return self.log.read(offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)

    def followed(self, high_watermark: int, log_start_offset: int, size_bytes: int) -> None:
        """Note that `size_bytes` from the leader were appended; the offsets are the leader's."""
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
        """Lower the high watermark to the log end offset, after the log was truncated.

        Only followers truncate their logs, and `follow` has answered all who waited for a flush.
        """
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    def advance_high_watermark(self, offset: int, size_bytes: int) -> None:
        """Commit records before `offset`: every in-sync replica has them.  Answers who waits."""
        self.log.upkeep[self.log] = None  # the high watermark's checkpoint is out of date
        self._advance(offset, size_bytes)

    def _advance(self, offset: int, size_bytes: int) -> None:
        """Raise the high watermark to `offset`, and wake the requests that wait for it.

        `size_bytes` is the size of the new records. A lower offset leaves the high watermark.
        """
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self.log.producers.unreplicated:  # these markers may move the last stable offset
                self.log.high_watermark_advanced(offset)
        if self._commit_waiters:
            self._release_commit_waiters()
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                waiter.data_arrived(size_bytes)
        if self.watches:  # after the waiters, which a watch may join
            self._end_watches(size_bytes, changed=False)

    def _end_watches(self, size_bytes: int, *, changed: bool) -> None:
        """Tell all watches, which watch again when they have read the news."""
        watches, self.watches = self.watches, None
        for watch in watches or ():
            watch.has_news(self, size_bytes, changed=changed)

    def when_replicated(self, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback(NONE)` once everything before `offset` is committed, at once if it is.

        If this broker stops leading the partition first, `callback` gets the error.
        """
        if offset <= self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            heapq.heappush(self._commit_waiters, (offset, next(_ticket), callback))

    @property
    def commits_awaited(self) -> int:
        """The number of appends whose senders wait until they are committed."""
        return len(self._commit_waiters)

    def _release_commit_waiters(self) -> None:
        waiters = self._commit_waiters
        while waiters and waiters[0][0] <= self.high_watermark:
            heapq.heappop(waiters)[2](ErrorCode.NONE)

    def stop(self, error: ErrorCode) -> None:
        """Stop leading or following, and answer all waiters with `error`."""
        self.leader = -1
        self.following = False
        if self.leading is not None:
            self.leading.stop(error)
            self.leading = None
        self.release_waiters(error)

    def release_waiters(self, error: ErrorCode) -> None:
        """Answer all requests that wait for a commit or a flush with `error`, and wake fetches."""
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
        self._end_watches(0, changed=True)
