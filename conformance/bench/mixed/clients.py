"""The clients of the mixed load; each kind acts in a process of its own until a deadline.

Their rates are fixed and leave the broker time: the waits then show its stalls and not a queue.
"""

from __future__ import annotations

import itertools
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import trio

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.frames import FetchReply, ProduceReply
from kwire.conformance.bench.growth.asking import Caller, Producing
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.members import (
    Crowd,
    SimulatedClassicMember,
    SimulatedConsumerMember,
    SimulatedCooperativeMember,
    SimulatedMember,
)
from kwire.conformance.bench.rebalancing import topic_id_of
from kwire.conformance.bench.transactions import RawProducer, TransactionWork

SEED = 1
MEMBERS, MEMBER_PARTITIONS = 50, 100
TRANSACTIONAL, TRANSACTION_PARTITIONS = 4, 8
CREATED_PARTITIONS = 20
KEYS = 2_000


class MixedKind(ABC):
    """One kind of client; `prepare` creates its topics, `act` returns the times of its requests in
    ns."""

    name: ClassVar[str]

    @abstractmethod
    def prepare(self, caller: Caller) -> None: ...

    @abstractmethod
    def act(self, address: Address, deadline: float) -> list[int]:
        """Send requests until `deadline`, a time of time.monotonic."""


def paced(step: Callable[[], object], pause_s: float, deadline: float) -> list[int]:
    """Call `step` with pauses until `deadline`; return the time of each call in ns."""
    times = []
    while time.monotonic() < deadline:
        begin_ns = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - begin_ns)
        time.sleep(pause_s)
    return times


class Tiny(MixedKind):
    """An honest producer of one record after another."""

    name = "produce one record"
    topic = "mixed-tiny"

    def prepare(self, caller: Caller) -> None:
        caller.create_topics([self.topic], 1)

    def act(self, address: Address, deadline: float) -> list[int]:
        with Caller(address) as caller:
            return paced(Producing(caller, [(self.topic, 0)]), 0.001, deadline)


class Large(MixedKind):
    """A producer of 16 kB batches to ten partitions, and a consumer in long polls behind it."""

    name = "produce 16 kB and fetch it"
    topic, partitions = "mixed-large", 10

    def prepare(self, caller: Caller) -> None:
        configs = {"segment.bytes": str(16 << 20), "retention.bytes": str(64 << 20)}
        caller.create_topics([self.topic], self.partitions, configs)

    def act(self, address: Address, deadline: float) -> list[int]:
        """Time from sending a batch until a consumer that waits for it has it."""
        batch = frames.batch(150, 100)
        with Caller(address) as producer, Caller(address) as consumer:
            fetches = [
                frames.fetch(self.topic, index, max_wait_ms=5_000, max_bytes=1 << 20)
                for index in range(self.partitions)
            ]
            layout = FetchReply(self.topic)
            turn = itertools.cycle(range(self.partitions))
            produces = [
                frames.produce(self.topic, index, batch).data for index in range(self.partitions)
            ]
            ends = [
                ProduceReply(self.topic, producer.exchange(frame)).base_offset + 150
                for frame in produces
            ]

            def pass_on() -> None:
                index = next(turn)
                fetch = bytearray(fetches[index].data)
                frames.OFFSET.pack_into(fetch, fetches[index].offset_pos, ends[index])
                consumer.sock.sendall(fetch)
                ProduceReply(self.topic, producer.exchange(produces[index]))
                reply = bytearray(load.receive_reply(consumer.sock))
                if layout.records_size(reply) != len(batch):
                    raise frames.RequestFailed("the fetch ended without the batch")
                ends[index] += 150

            return paced(pass_on, 0.001, deadline)


class Compacted(MixedKind):
    """A producer of keyed records to a topic that is compacted again and again."""

    name = "produce to a compacted topic"
    topic = "mixed-compacted"

    def prepare(self, caller: Caller) -> None:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(1 << 20),
            "min.cleanable.dirty.ratio": "0.01",
        }
        caller.create_topics([self.topic], 1, configs)

    def act(self, address: Address, deadline: float) -> list[int]:
        keys = random.Random(SEED)
        with Caller(address) as caller:

            def produce() -> None:
                now_ms = time.time_ns() // 1_000_000
                names = (str(keys.randrange(KEYS)).encode() for _ in range(50))
                batch = bytes(build(Record(0, now_ms, name, bytes(200)) for name in names))
                frame = frames.produce(self.topic, 0, batch).data
                ProduceReply(self.topic, caller.exchange(frame))

            return paced(produce, 0.01, deadline)


class Creations(MixedKind):
    """Topics of 20 partitions that come and go."""

    name = "create and delete a topic"

    def prepare(self, caller: Caller) -> None:
        """Create nothing: the client itself does."""

    def act(self, address: Address, deadline: float) -> list[int]:
        numbers = itertools.count()
        with Caller(address) as caller:

            def create() -> None:
                caller.create_and_delete(f"mixed-{next(numbers)}", CREATED_PARTITIONS)

            return paced(create, 1.0, deadline)


class TransactionKind(MixedKind):
    """Four producers of transactions over eight partitions."""

    name = "a transaction"
    topic = "mixed-transactions"

    def prepare(self, caller: Caller) -> None:
        caller.create_topics([self.topic], TRANSACTION_PARTITIONS)

    def act(self, address: Address, deadline: float) -> list[int]:
        """Time a Produce to all partitions and its EndTxn."""
        work = TransactionWork(1, TRANSACTION_PARTITIONS)
        names = (f"mixed-{number}" for number in range(TRANSACTIONAL))
        producers = [RawProducer(address, self.topic, name, work) for name in names]
        turn = itertools.cycle(producers)

        def commit() -> None:
            producer = next(turn)
            producer.complete()
            producer.complete()

        return paced(commit, 0.01, deadline)


class GroupLives(MixedKind):
    """Groups of 50 members that join, commit, leave and begin anew, in all consumer protocols."""

    name = "a group's whole life"
    topic = "mixed-groups"
    kinds: ClassVar[tuple[type[SimulatedMember], ...]] = (
        SimulatedClassicMember,
        SimulatedCooperativeMember,
        SimulatedConsumerMember,
    )

    def prepare(self, caller: Caller) -> None:
        caller.create_topics([self.topic], MEMBER_PARTITIONS)

    def act(self, address: Address, deadline: float) -> list[int]:
        topic_id = topic_id_of(f"{address[0]}:{address[1]}", self.topic)
        times: list[int] = []
        for number, kind in enumerate(itertools.cycle(self.kinds)):
            if time.monotonic() >= deadline:
                return times
            crowd = Crowd(f"mixed-{number}", self.topic, topic_id, MEMBER_PARTITIONS)
            crowd.members = [kind(crowd, address) for _ in range(MEMBERS)]
            begin_ns = time.perf_counter_ns()
            trio.run(self._live, crowd)
            times.append(time.perf_counter_ns() - begin_ns)
        return times

    async def _live(self, crowd: Crowd) -> None:
        """Join, commit for a moment, let half of the members leave, and end."""
        async with trio.open_nursery() as nursery:
            for member in crowd.members:
                nursery.start_soon(member.run)
            await crowd.settled.wait()
            await trio.sleep(1.0)
            crowd.rush(OffsetCommitRequest)
            await trio.sleep(0.2)
            crowd.rush(None)
            await trio.sleep(0.5)
            await crowd.remove(crowd.members[: MEMBERS // 2])
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()


KINDS: tuple[MixedKind, ...] = (
    Tiny(),
    Large(),
    Compacted(),
    Creations(),
    TransactionKind(),
    GroupLives(),
)
