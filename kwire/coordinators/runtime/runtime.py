"""Drives coordinator machines: each is a fold over its own partition of an internal topic.

A machine decides and changes nothing; this appends what it decided, has it applied, and lets
replies go once they are committed.  It knows nothing of groups or transactions: whatever keeps its
state in the records of a partition can be driven.  What a decision comes to, and in which order it
comes true, is kwire.coordinators.contract's; here are the partition, the clock and the clients that
wait.

A shard is LOADING while its partition is replayed, in slices with a checkpoint between them, and
answers COORDINATOR_LOAD_IN_PROGRESS; a partition without records is ACTIVE at once.  One that
cannot be replayed is FAILED and answers NOT_COORDINATOR: serving it would lose what it holds.
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
from kwire.coordinators.contract.replaying import Ended, Held, Slice
from kwire.coordinators.runtime.promise import Promise
from kwire.log import LogError, Origin, Verification
from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.coordinators.runtime")

LOAD_SLICE_BYTES = 256 * 1024
"""How much is replayed between two checkpoints: some milliseconds of decoding."""

SEGMENT_BYTES_MAX = 16 * 1024 * 1024
"""A longer segment is not appended to, whatever `segment.bytes` says (Kafka's is 100 MB).

The cleaner takes no segment that is appended to, and after a kill all of it is checked and then
replayed: about half a second for as much as this.
"""

_BATCH_OVERHEAD_BYTES = 128
_RECORD_OVERHEAD_BYTES = 32
"""More than header, lengths and deltas take, so that an estimate of a batch is never too small."""

NO_PRODUCER = (-1, -1)


M = TypeVar("M", bound=Machine[Any, Any, Any])
R = TypeVar("R")


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Parked(Promise[Any]):
    """A request that waits for its reply (a kwire.coordinators.contract.effects.Ticket)."""

    __slots__ = ("refuse",)

    def __init__(self, refuse: Callable[[ErrorCode], Any]) -> None:
        super().__init__()
        self.refuse = refuse


class Shard(Driver[M]):
    """One machine and the partition that holds its records."""

    def __init__(self, partition: Partition, machine: M, runtime: CoordinatorRuntime[M]) -> None:
        super().__init__(machine)
        self.partition = partition
        self.state = ShardState.LOADING
        self._runtime = runtime
        self._timers: dict[TimerKey, Timer] = {}
        self._written_offset = partition.log_end_offset
        """What must be committed before a reply may tell of it."""

    @property
    def error(self) -> ErrorCode:
        """What a request is told that cannot be served now."""
        if self.state is ShardState.ACTIVE:
            return ErrorCode.NONE
        if self.state is ShardState.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    @property
    def serves(self) -> bool:
        """Whether its partition is led here, and replayed."""
        return self.state is ShardState.ACTIVE

    # -- what a decision comes to

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        """Write records and apply them; where a batch fails none of it is applied.

        `proof` is a kwire.log.Verification that the transaction of the producer goes on.
        """
        now_ms = self._runtime.now_ms()
        producer_id, epoch = effects.producer or NO_PRODUCER
        encoded = [record.encode() for record in effects.records]
        parts = [(0, len(encoded))] if effects.atomic else self._parts(encoded)
        verification = cast("Verification | None", proof)
        try:
            for start, end in parts:
                batch = batches.build(
                    [batches.Record(0, now_ms, key, value) for key, value in encoded[start:end]],
                    compression=self._runtime.compression,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=0,  # coordinators do not count, but Apache Kafka has it so
                    transactional=effects.producer is not None,
                )
                self._write(batch, now_ms, verification)
                for record in effects.records[start:end]:
                    self.apply(record, producer_id)
        except LogError as problem:
            log.warning("%s: %s", self, problem)
            return client_error(problem.error)
        return ErrorCode.NONE

    def note(self, text: str) -> None:
        log.info("%s", text)

    def _write(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> None:
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
        """Append a producer's marker (a control batch) to an active shard, and follow it.

        Raises LogError, and then nothing has happened.
        """
        self._write(marker, now_ms, transaction_version=transaction_version)
        self.follow_marker(batches.read_header(marker).producer_id, commit=commit)

    def _parts(self, encoded: list[tuple[bytes, bytes | None]]) -> Iterator[tuple[int, int]]:
        """Ranges of records, each of which fits into one batch."""
        room = self.partition.log.config.max_message_bytes - _BATCH_OVERHEAD_BYTES
        start = size_bytes = 0
        for position, (key, value) in enumerate(encoded):
            record_bytes = len(key) + len(value or b"") + _RECORD_OVERHEAD_BYTES
            if position > start and size_bytes + record_bytes > room:
                yield start, position
                start, size_bytes = position, 0
            size_bytes += record_bytes
        yield start, len(encoded)

    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        wheel = self._runtime.timers
        now_ms = wheel.now_ms()
        for key, timer, delay_ms in timers:
            handle = self._timers.get(key)
            if timer is None:
                if handle is not None:
                    handle.cancel()
                    del self._timers[key]
            elif handle is None:
                self._timers[key] = wheel.at(now_ms + delay_ms, self._when_due(key, timer))
            else:
                handle.callback = self._when_due(key, timer)
                handle.move(now_ms + delay_ms)

    def awaits(self, key: TimerKey) -> bool:
        return key in self._timers

    def _when_due(self, key: TimerKey, timer: object) -> Callable[[], None]:
        def due() -> None:
            self._timers.pop(key, None)
            self.happen(self.machine.timer(timer, self._runtime.now_ms()))

        return due

    # -- replies

    def reply(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        if self._written_offset <= self.partition.high_watermark:
            for ticket, response in replies:
                ticket.resolve(response)
            return
        self._reply_when_committed(replies)

    def _reply_when_committed(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        """Let replies go once everything written so far is on every in-sync replica."""
        settled = False

        def committed(error: ErrorCode) -> None:
            nonlocal settled
            if settled:
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
        """Replay the partition; see the module."""
        try:
            records = await self._replay()
        except (CorruptBatch, LogError, ValueError) as problem:
            log.error("%s cannot be loaded: %s", self, problem)
            self.state = ShardState.FAILED
            return
        if self.state is ShardState.LOADING:
            log.info("%s: loaded %d records", self, records)
            self.activate()

    def activate(self) -> None:
        """Everything has been replayed: begin to serve."""
        self.state = ShardState.ACTIVE
        self._written_offset = self.partition.log_end_offset
        for effects in self.machine.loaded(self._runtime.now_ms()):
            self.happen(effects)

    async def _replay(self) -> int:
        partition, seen = self.partition, 0
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
            found = Slice(region.read(), self.machine.replaced_keys)
            for each in found:
                self._replay_one(each)
            if found.end_offset <= offset:
                raise CorruptBatch(f"no batch at offset {offset}")
            offset = found.end_offset
            seen += found.records
            await trio.lowlevel.checkpoint()
        return seen

    def _replay_one(self, each: Held | Ended) -> None:
        if isinstance(each, Ended):
            self.follow_marker(each.producer_id, commit=each.commit)
            return
        record = self.machine.decode(each.key, each.value)
        if record is None:
            log.debug("%s: a record of no known type, %r", self, each.key)
        else:
            self.apply(record, each.producer_id)

    def close(self) -> None:
        """The partition is led here no longer: tell who waits, forget the rest."""
        was_active = self.state is ShardState.ACTIVE
        self.state = ShardState.CLOSED
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        if was_active:
            for effects in self.machine.unloaded(self._runtime.now_ms()):
                for ticket, response in effects.replies:
                    ticket.resolve(response)

    def __str__(self) -> str:
        return f"coordinator of {self.partition.topic}-{self.partition.index}"


class CoordinatorRuntime(Generic[M]):
    """The shards of one kind of coordinator on this broker, by partition of its topic."""

    def __init__(
        self,
        machine: Callable[[], M],
        *,
        timers: Timers,
        now_ms: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.timers = timers
        self.now_ms = now_ms
        self.commit_timeout_ms = commit_timeout_ms
        self.compression = compression
        self.shards: dict[int, Shard[M]] = {}
        self._machine = machine

    def lead(self, partition: Partition) -> Shard[M] | None:
        """The broker leads `partition` now.  Returns the shard if it has records to `load`.

        One that is served stays as it is in a later epoch: nobody has written to it meanwhile.  So
        do Apache Kafka's on ZooKeeper, where each follower that dies gives its leaders an epoch.
        """
        if self.serves(partition):
            return None
        self.resign(partition.index)
        shard = self.shards[partition.index] = Shard(partition, self._machine(), self)
        if partition.log_start_offset == partition.log_end_offset:
            shard.activate()
            return None
        return shard

    def serves(self, partition: Partition) -> bool:
        """Whether it is led here already, and replayed or about to be."""
        shard = self.shards.get(partition.index)
        return (
            shard is not None
            and shard.partition is partition
            and shard.state is not ShardState.FAILED
        )

    def resign(self, index: int) -> None:
        """The broker does not lead the partition any longer."""
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
        """Have a machine decide, and its effects happen.

        Returns the reply, or the promise of one.  `refuse` makes the reply of an error that is not
        the machine's: of a shard that is not here or not ready, or of a failed append.
        """
        shard = self.shards.get(index)
        if shard is None:
            return refuse(ErrorCode.NOT_COORDINATOR)
        if shard.state is not ShardState.ACTIVE:
            return refuse(shard.error)
        ticket = Parked(refuse)
        shard.happen(decide(shard.machine, ticket, self.now_ms()), ticket, verification)
        if ticket.resolved:
            reply: R = ticket.value
            return reply
        return ticket

    def active(self) -> Iterator[Shard[M]]:
        return (shard for shard in self.shards.values() if shard.state is ShardState.ACTIVE)

    def topics_deleted(self, topics: Sequence[tuple[str, bytes]]) -> None:
        """Have the machines follow the cluster: topics (name, id) are no more."""
        for shard in self.active():
            effects = shard.machine.topics_deleted(topics, self.now_ms())
            if effects is not None:
                shard.happen(effects)
