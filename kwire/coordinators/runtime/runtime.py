"""Runs coordinator machines on a broker: one machine (shard) per partition of an internal topic.

A machine only decides.  The runtime appends the decided records, applies them to the machine, and
sends the replies once the records are committed.  It works with any machine whose state is a fold
over the records of its partition; it knows nothing about groups or transactions.
kwire.coordinators.contract defines decisions and the order of their effects; this module supplies
the partition, the clock, the timers and the waiting requests.

States of a shard:

    LOADING  the partition is replayed, in slices with a checkpoint between them;
             requests get COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE   serves requests; a partition without records is ACTIVE at once
    FAILED   the partition cannot be replayed; requests get NOT_COORDINATOR, because serving
             requests from part of the records would lose state
    CLOSED   this broker does not lead the partition any more
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, cast

import trio

from kwire.broker.timers import Timer, Timers
from kwire.codecs import batches
from kwire.codecs.batches import Compression, CorruptBatch
from kwire.codecs.coordinator_errors import client_error
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract.driver import AnyEffects, Driver
from kwire.coordinators.contract.effects import Ticket, TimerKey
from kwire.coordinators.contract.machine import Machine
from kwire.coordinators.contract.replaying import (
    ReplayedRecord,
    ReplayedTransactionEnd,
    ReplaySlice,
)
from kwire.coordinators.runtime.deferring import Deferrals, DeferredRecords, Pair, size_of
from kwire.coordinators.runtime.promise import Promise
from kwire.log import LogError, Origin, Verification
from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.coordinators.runtime")

LOAD_SLICE_BYTES = 256 * 1024
"""Bytes replayed between two checkpoints; decoding them takes some milliseconds."""

SEGMENT_BYTES_MAX = 16 * 1024 * 1024
"""Size at which the active segment is rolled, whatever `segment.bytes` says (Kafka: 100 MB).

The cleaner never cleans the active segment.  After a kill the whole segment is checked and then
replayed, which takes about half a second at this size.
"""

_BATCH_OVERHEAD_BYTES = 128
"""Upper bound of a batch's header, so that its size is never underestimated."""

M = TypeVar("M", bound=Machine[Any, Any, Any])
R = TypeVar("R")


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class ParkedReply(Promise[Any]):
    """The ticket of a request that waits for its reply.

    Implements kwire.coordinators.contract.effects.Ticket.
    """

    __slots__ = ("refuse",)

    def __init__(self, refuse: Callable[[ErrorCode], Any]) -> None:
        super().__init__()
        self.refuse = refuse


class LoadTimes:
    """The loads of a coordinator's partitions since the start that have succeeded."""

    __slots__ = ("count", "longest_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.longest_s = 0.0

    def note(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)


class Shard(Driver[M]):
    """One machine and the partition that holds its records."""

    def __init__(self, partition: Partition, machine: M, runtime: CoordinatorRuntime[M]) -> None:
        """The shard is loading: `load` replays the partition into `machine`."""
        super().__init__(machine)
        self.partition = partition
        self.state = ShardState.LOADING
        self._runtime = runtime
        self._timers: dict[TimerKey, Timer] = {}
        self._written_offset = partition.log_end_offset
        """Log end offset after the last append; replies wait until this is committed."""
        self.deferred = DeferredRecords()
        """Records that are applied and not appended yet."""

    @property
    def error(self) -> ErrorCode:
        """The error for requests that arrive now; NONE if the shard serves them."""
        if self.state is ShardState.ACTIVE:
            return ErrorCode.NONE
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    @property
    def serves(self) -> bool:
        """Whether the partition is led here and has been replayed."""
        return self.state is ShardState.ACTIVE

    # -- effects

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        """Appends the records and applies them; records of a batch that fails are not applied.

        Returns NONE or the error that clients get.  `proof` is a kwire.log.Verification that the
        producer's transaction is open.
        """
        now_ms = self._runtime.now_ms()
        records, producer = effects.records, effects.producer
        encoded = [record.encode() for record in records]
        if effects.deferrable and self._runtime.deferrals.defer(self, encoded):
            for record in records:
                self.apply(record, -1)
            return ErrorCode.NONE
        parts = [(0, len(encoded))] if effects.atomic else self._parts(encoded)
        try:
            for start, end in parts:
                pairs = encoded if end - start == len(encoded) else encoded[start:end]
                if producer is None:
                    self._write_own(pairs, now_ms)
                else:
                    self._write_transactional(pairs, now_ms, producer, proof)
                for record in records if pairs is encoded else records[start:end]:
                    self.apply(record, -1 if producer is None else producer[0])
        except LogError as error:
            log.warning("Cannot append to the %s: %s.", self, error)
            return client_error(error.error)
        return ErrorCode.NONE

    def note(self, text: str) -> None:
        log.info("%s", text)

    def _write_own(self, pairs: Sequence[Pair], now_ms: int) -> None:
        """Appends a batch of records that belong to no transaction.  Raises LogError.

        Deferred records come first, in the same batch if all fit into it.
        """
        deferred = self.deferred
        if not deferred.pairs:
            self._write_batch(pairs, now_ms)
        elif deferred.size_bytes + size_of(pairs) <= self._room:
            self._write_batch([*deferred.pairs, *pairs], now_ms)
            deferred.clear()
        else:
            self.write_deferred(now_ms)
            self._write_batch(pairs, now_ms)

    def write_deferred(self, now_ms: int) -> None:
        """Appends the deferred records.  Raises LogError; they stay deferred then."""
        deferred = self.deferred
        for start, end in self._parts(deferred.pairs):
            self._write_batch(deferred.pairs[start:end], now_ms)
        deferred.clear()

    def _write_batch(self, pairs: Sequence[Pair], now_ms: int) -> None:
        """Appends one batch of records that belong to no transaction.  Raises LogError."""
        partition = self.partition
        log = partition.log
        if log.segments.active.size_bytes > SEGMENT_BYTES_MAX:
            log.roll(now_ms)
        # Coordinators have no sequences; Apache Kafka writes 0 too.
        batch = batches.build_pairs(
            pairs, now_ms, compression=self._runtime.compression, base_sequence=0
        )
        partition.append_own(batch, len(pairs), now_ms=now_ms)
        self._written_offset = partition.log_end_offset

    def _write_transactional(
        self, pairs: Sequence[Pair], now_ms: int, producer: tuple[int, int], proof: object
    ) -> None:
        """Appends a batch of records that belong to a client's transaction.  Raises LogError."""
        producer_id, epoch = producer
        batch = batches.build_pairs(
            pairs,
            now_ms,
            compression=self._runtime.compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        self._write(batch, now_ms, verification=cast("Verification | None", proof))

    def _write(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> None:
        """Appends a batch to the partition's log.  Raises LogError.

        A large segment is closed first, so that compaction can clean it: it never cleans the active
        one.
        """
        if self.partition.log.segments.active.size_bytes > SEGMENT_BYTES_MAX:
            self.partition.log.roll(now_ms)
        self.partition.append(
            batch,
            now_ms=now_ms,
            required_acks=-1,
            origin=Origin.COORDINATOR,
            verification=verification,
            transaction_version=transaction_version,
        )
        self._written_offset = self.partition.log_end_offset

    def end_transaction(
        self, marker: bytearray, now_ms: int, *, commit: bool, transaction_version: int
    ) -> None:
        """Appends a producer's marker (a control batch) to an active shard and applies it.

        Raises LogError if the append fails; then nothing has changed.
        """
        self._write(marker, now_ms, transaction_version=transaction_version)
        self.follow_marker(batches.read_header(marker).producer_id, commit=commit)

    def _parts(self, encoded: list[Pair]) -> Iterator[tuple[int, int]]:
        """Yield ranges (start, end) of records, each of which fits into one batch."""
        room = self._room
        start = size_bytes = 0
        for position, pair in enumerate(encoded):
            record_bytes = size_of((pair,))
            if position > start and size_bytes + record_bytes > room:
                yield start, position
                start, size_bytes = position, 0
            size_bytes += record_bytes
        yield start, len(encoded)

    @property
    def _room(self) -> int:
        """The most bytes of records in one batch."""
        return self.partition.log.config.max_message_bytes - _BATCH_OVERHEAD_BYTES

    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        """Sets, moves and cancels the machine's timers.

        Each entry is a key, the timer (None cancels it), and the delay in ms.
        """
        wheel = self._runtime.timers
        now_ms = wheel.now_ms()
        for key, timer, delay_ms in timers:
            handle = self._timers.get(key)
            if timer is None:
                if handle is not None:
                    handle.cancel()
                    del self._timers[key]
            elif handle is None:
                self._timers[key] = wheel.at(now_ms + delay_ms, self._callback(key, timer))
            else:
                # Moving a timer costs less than cancelling it and setting another.
                handle.callback = self._callback(key, timer)
                handle.move(now_ms + delay_ms)

    def has_timer(self, key: TimerKey) -> bool:
        return key in self._timers

    def put_off(self, key: TimerKey, delay_ms: int) -> bool:
        """Moves a timer that is set, as for a request that changes nothing else.

        Returns False, and does nothing, if the timer is not set, if the shard is not active, or if
        the shard's last records are not committed yet: the response would have to wait for them.
        """
        handle = self._timers.get(key)
        if (
            handle is None
            or self.state is not ShardState.ACTIVE
            or self._written_offset > self.partition.high_watermark
        ):
            return False
        handle.move(self._runtime.timers.now_ms() + delay_ms)
        return True

    def _callback(self, key: TimerKey, timer: object) -> Callable[[], None]:
        """Return the function that a timer calls when it fires."""

        def fire() -> None:
            self._timers.pop(key, None)
            self.carry_out(self.machine.timer_fired(timer, self._runtime.now_ms()))

        return fire

    # -- replies

    def reply(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        """Sends replies, once everything that was written before is committed."""
        if self._written_offset <= self.partition.high_watermark:
            for ticket, response in replies:
                ticket.resolve(response)
            return
        self._reply_when_committed(replies)

    def _reply_when_committed(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        """Sends replies once all in-sync replicas have everything written so far.

        After `commit_timeout_ms` the requests get REQUEST_TIMED_OUT instead.
        """
        settled = False

        def committed(error: ErrorCode) -> None:
            """Sends the replies, or refuses all requests with the error."""
            nonlocal settled
            if settled:  # the timeout and the commit can both call this
                return
            settled = True
            timeout.cancel()
            for ticket, response in replies:
                ticket.resolve(ticket.refuse(client_error(error)) if error else response)

        timeout = self._runtime.timers.after(
            self._runtime.commit_timeout_ms, lambda: committed(ErrorCode.REQUEST_TIMED_OUT)
        )
        self.partition.when_replicated(self._written_offset, committed)

    # -- life

    async def load(self) -> None:
        """Replays the partition, then serves it; see the module."""
        start_s = trio.current_time()
        try:
            records = await self._replay()
        except (CorruptBatch, LogError, ValueError) as error:
            log.error(
                "Cannot load the %s: %s. Its requests get NOT_COORDINATOR until this broker leads"
                " the partition again.",
                self,
                error,
            )
            self.state = ShardState.FAILED
            return
        if self.state is ShardState.LOADING:  # it may have been closed during a checkpoint
            log.info("Loaded %d records of the %s.", records, self)
            self._runtime.loads.note(trio.current_time() - start_s)
            self.activate()

    def activate(self) -> None:
        """Begin to serve, after all records have been replayed."""
        self.state = ShardState.ACTIVE
        self._written_offset = self.partition.log_end_offset
        for effects in self.machine.loaded(self._runtime.now_ms()):
            self.carry_out(effects)

    async def _replay(self) -> int:
        """Applies all records of the partition; returns how many records were read.

        Stops early if the shard is closed.  Raises CorruptBatch, LogError, or ValueError from the
        machine's `decode`.
        """
        partition, records_read = self.partition, 0
        offset = partition.log_start_offset
        while self.state is ShardState.LOADING and offset < partition.log_end_offset:
            region = partition.read(
                offset,
                LOAD_SLICE_BYTES,
                max_offset=partition.log_end_offset,
                min_one_batch=True,
            )
            if region is None:
                break
            batch_slice = ReplaySlice(region.read(), self.machine.replaced_keys)
            for item in batch_slice:
                self._replay_one(item)
            if batch_slice.end_offset <= offset:
                raise CorruptBatch(f"no batch at offset {offset}")
            offset = batch_slice.end_offset
            records_read += batch_slice.records
            await trio.lowlevel.checkpoint()  # let other tasks run between slices
        return records_read

    def _replay_one(self, item: ReplayedRecord | ReplayedTransactionEnd) -> None:
        """Applies a record or transaction end of the log; skips records of unknown type."""
        if isinstance(item, ReplayedTransactionEnd):
            self.follow_marker(item.producer_id, commit=item.commit)
            return
        record = self.machine.decode(item.key, item.value)
        if record is None:
            log.debug("Skipped a record of unknown type in the %s; its key is %r.", self, item.key)
        else:
            self.apply(record, item.producer_id)

    def close(self) -> None:
        """Stops serving: cancels timers, and answers the requests that the machine has parked."""
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self.deferred.clear()
        if was_active:
            for effects in self.machine.unloaded(self._runtime.now_ms()):
                for ticket, response in effects.replies:
                    ticket.resolve(response)

    def __str__(self) -> str:
        return f"coordinator of {self.partition.topic}-{self.partition.index}"


class CoordinatorRuntime(Generic[M]):
    """The shards of one coordinator on this broker, one per partition that it leads.

    `machine` creates a machine without state.
    """

    def __init__(
        self,
        machine: Callable[[], M],
        *,
        timers: Timers,
        now_ms: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
        defers: bool = False,
    ) -> None:
        """`machine` makes the empty machine of a new shard.

        After `commit_timeout_ms` without commit a request gets REQUEST_TIMED_OUT.  With `defers`,
        records that are deferrable are appended with later ones.
        """
        self.timers = timers
        self.now_ms = now_ms
        self.commit_timeout_ms = commit_timeout_ms
        self.compression = compression
        self.deferrals = Deferrals(timers, now_ms, is_used=defers)
        self.shards: dict[int, Shard[M]] = {}
        self.new_shard: Callable[[Partition, M, CoordinatorRuntime[M]], Shard[M]] = Shard
        """Makes the shard of a partition; metrics have it count."""
        self.loads = LoadTimes()
        self._machine = machine

    def lead(self, partition: Partition) -> Shard[M] | None:
        """Starts to serve a partition that this broker leads now.

        Returns the shard if the caller has to `load` it, or None if there is nothing to load.  If
        the partition is already served, its shard is kept although the leader epoch is new: no
        other broker has led it, so no other broker has written to it.  Apache Kafka does so too; on
        ZooKeeper each follower that dies gives its leaders a new epoch.
        """
        if self.serves(partition):
            return None
        self.resign(partition.index)
        shard = self.shards[partition.index] = self.new_shard(partition, self._machine(), self)
        if partition.log_start_offset == partition.log_end_offset:
            shard.activate()
            return None
        return shard

    def serves(self, partition: Partition) -> bool:
        """Whether the partition has a shard here that is active or still loading."""
        shard = self.shards.get(partition.index)
        return (
            shard is not None
            and shard.partition is partition
            and shard.state is not ShardState.FAILED
        )

    def resign(self, index: int) -> None:
        """Stop serving a partition that this broker does not lead any more."""
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()

    def submit(
        self,
        index: int,
        decide: Callable[[M, Ticket, int], AnyEffects],
        refuse: Callable[[ErrorCode], R],
        verification: Verification | None = None,
    ) -> R | Promise[R]:
        """Lets the machine of partition `index` decide a request, and carries out the effects.

        Returns the reply, or a promise of it if it has to wait.  `refuse` makes the reply for
        errors that do not come from the machine: the shard is not here or not ready, or its records
        could not be appended.
        """
        shard = self.shards.get(index)
        if shard is None:  # not led here, or index -1: the partition count is not known yet
            return refuse(ErrorCode.NOT_COORDINATOR)
        if shard.state is not ShardState.ACTIVE:
            return refuse(shard.error)
        ticket = ParkedReply(refuse)
        # Between decide and carry_out nothing may wait: the decision is based on current state.
        shard.carry_out(decide(shard.machine, ticket, self.now_ms()), ticket, verification)
        if ticket.resolved:
            # The usual case: the records are already on all in-sync replicas, so no task waits.
            reply: R = ticket.value
            return reply
        return ticket

    def active(self) -> Iterator[Shard[M]]:
        """The shards that serve requests."""
        return (shard for shard in self.shards.values() if shard.state is ShardState.ACTIVE)

    def topics_deleted(self, topics: Sequence[tuple[str, bytes]]) -> None:
        """Let the machines clean up after topics (name, id) that were deleted in the cluster."""
        for shard in self.active():
            effects = shard.machine.topics_deleted(topics, self.now_ms())
            if effects is not None:
                shard.carry_out(effects)
