"""One greedy client, and how long an honest one beside it waits.

The honest client sends one record after another, with a pause of a millisecond, from a process of
its own (kwire.conformance.bench.sizes).  The greedy client runs in another process.
"""

from __future__ import annotations

import multiprocessing
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import ClassVar, NamedTuple

import trio

from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.growth.asking import Caller, Producing, check
from kwire.conformance.bench.growth.scales import SEGMENT_BYTES, ProducerIdScale
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.members import Crowd, SimulatedClassicMember, SimulatedMember
from kwire.conformance.bench.rebalancing import topic_id_of
from kwire.conformance.bench.sizes import Waits, others
from kwire.conformance.bench.transactions import request

LIMIT_MS = 5.0
"""The p99 of the honest client that is allowed beside each greedy one."""
SETTLE_S = 1.0
"""Time between the preparation and the first measurement."""
BEGIN_S = 60.0
"""Limit for the first request of a greedy client."""
REQUESTS_MAX = 200
"""The most requests that write 100 MB or less; they fill the disk."""


class Greed(ABC):
    """A greedy client. It is pickled, since it acts in a process of its own."""

    key: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def prepare(self, broker: BenchBroker) -> None:
        """Create what the client needs."""

    @abstractmethod
    def act(self, address: Address, control: Connection) -> None:
        """Send requests until `control` has something to read."""


class Beside(NamedTuple):
    """The honest client's waits, alone and beside a greedy client."""

    alone: Waits
    beside: Waits


def until_told(control: Connection, step: Callable[[], object], calls_max: int = 1 << 62) -> None:
    """Call `step` until `control` has something to read, or `calls_max` times."""
    step()
    control.send(None)
    calls = 1
    while not control.poll() and calls < calls_max:
        step()
        calls += 1


class LargeRequests(Greed):
    """Writes 99 batches of 1 MB with one request: socket.request.max.bytes allows 104 MB."""

    key, title = "large", "Produce requests of 99 MB"
    topic, partitions = "greedy-large", 99

    def prepare(self, broker: BenchBroker) -> None:
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], self.partitions)

    def act(self, address: Address, control: Connection) -> None:
        """Send one request after another; each is encoded once."""
        batch = frames.batch(1000, 980)
        data = [PartitionProduceData(index, batch) for index in range(self.partitions)]
        topics = [TopicProduceData(name=self.topic, partition_data=data)]
        message = ProduceRequest(acks=1, timeout_ms=60_000, topic_data=topics)
        frame = request(message, 12)
        with Caller(address) as caller:

            def produce() -> None:
                reply = ProduceResponse.decode(caller.exchange(frame), 12, 9)
                responses = reply.responses[0].partition_responses
                check("Produce", (each.error_code for each in responses))

            until_told(control, produce, REQUESTS_MAX // 10)


class Everything(Greed):
    """Fetches all of a topic of 1 GB again and again, without limits of its own."""

    key, title = "fetch", "Fetch of everything"
    topic, partitions, megabytes = "greedy-fetch", 50, 20

    def prepare(self, broker: BenchBroker) -> None:
        """Write 20 MB to each partition."""
        batch = frames.batch(1000, 980)
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], self.partitions)
            for index in range(self.partitions):
                frame = frames.produce(self.topic, index, batch).data
                for _ in range(self.megabytes):
                    frames.ProduceReply(self.topic, caller.exchange(frame))

    def act(self, address: Address, control: Connection) -> None:
        """Fetch from offset 0 of all partitions, and throw away what comes."""
        most = (1 << 31) - 1
        partitions = [
            FetchPartition(index, fetch_offset=0, partition_max_bytes=most)
            for index in range(self.partitions)
        ]
        message = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=most,
            topics=[FetchTopic(self.topic, partitions=partitions)],
        )
        frame = request(message, 12)
        buffer = memoryview(bytearray(1 << 20))
        with Caller(address) as caller:

            def fetch() -> None:
                caller.sock.sendall(frame)
                left = int.from_bytes(load.receive(caller.sock, 4))
                while left:
                    left -= caller.sock.recv_into(buffer[: min(left, len(buffer))])

            until_told(control, fetch)


class AllMetadata(Greed):
    """Asks for the metadata of 10,000 topics again and again."""

    key, title = "metadata", "Metadata of 10,000 topics"
    topics = 10_000

    def prepare(self, broker: BenchBroker) -> None:
        with Caller(broker.address) as caller:
            names = [f"greedy-{number:05}" for number in range(self.topics)]
            caller.create_topics(names, 1)

    def act(self, address: Address, control: Connection) -> None:
        frame = request(MetadataRequest(topics=None), 12)
        with Caller(address) as caller:
            until_told(control, lambda: caller.exchange(frame))


class LargeGroup(Greed):
    """A group of 1,000 members: all join, 100 leave at once, the others commit without pause."""

    key, title = "group", "a group of 1,000 members"
    topic, members, leaving = "greedy-group", 1_000, 100
    kind: ClassVar[type[SimulatedMember]] = SimulatedClassicMember

    def prepare(self, broker: BenchBroker) -> None:
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], self.members)

    def act(self, address: Address, control: Connection) -> None:
        topic_id = topic_id_of(f"{address[0]}:{address[1]}", self.topic)
        crowd = Crowd(self.topic, self.topic, topic_id, self.members)
        crowd.members = [self.kind(crowd, address) for _ in range(self.members)]
        control.send(None)
        trio.run(self._live, crowd, control)

    async def _live(self, crowd: Crowd, control: Connection) -> None:
        """Join with all members, then let some leave, then commit; until told to end."""
        async with trio.open_nursery() as nursery:
            for member in crowd.members:
                nursery.start_soon(member.run)
            nursery.start_soon(self._rush, crowd)
            await trio.to_thread.run_sync(control.recv)
            nursery.cancel_scope.cancel()

    async def _rush(self, crowd: Crowd) -> None:
        await crowd.settled.wait()
        await trio.sleep(1.0)
        await crowd.remove(crowd.members[: self.leaving])
        crowd.rush(OffsetCommitRequest)


class WideTopic(Greed):
    """Creates and deletes a topic of 500 partitions again and again."""

    key, title = "create", "topics of 500 partitions that come and go"

    def __init__(self, partitions: int = 500) -> None:
        """The client is another process, which gets the number of partitions with this object."""
        self.partitions = partitions

    def prepare(self, broker: BenchBroker) -> None:
        """Create nothing: the client itself does."""

    def act(self, address: Address, control: Connection) -> None:
        with Caller(address) as caller:
            until_told(control, lambda: caller.create_and_delete("greedy-wide", self.partitions))


class RolledIds(Greed):
    """Rolls segments of a partition that 100,000 idempotent producers wrote to."""

    key, title = "roll", "new segments with 100,000 producer ids"

    def prepare(self, broker: BenchBroker) -> None:
        ids = ProducerIdScale({"segment.bytes": str(SEGMENT_BYTES)})
        ids.build(broker, ProducerIdScale.full)

    def act(self, address: Address, control: Connection) -> None:
        with Caller(address) as caller:
            produce = Producing(caller, [(ProducerIdScale.topic, 0)], frames.batch(150, 980))
            until_told(control, produce, REQUESTS_MAX * 30)


GREEDS: tuple[Greed, ...] = (
    LargeRequests(),
    Everything(),
    AllMetadata(),
    LargeGroup(),
    WideTopic(),
    RolledIds(),
)


def measure(greed: Greed, broker: BenchBroker, seconds: float) -> Beside:
    """Return the waits of an honest client for `seconds` alone, and beside `greed`.

    The second time begins before the greedy client connects.
    """
    greed.prepare(broker)
    time.sleep(SETTLE_S)
    with others(broker) as end:
        time.sleep(seconds)
        alone = end()
    control, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=greed.act, args=(broker.address, theirs))
    try:
        with others(broker) as end:
            process.start()
            if not control.poll(BEGIN_S):
                raise frames.RequestFailed(f"{greed.title}: nothing happens")
            time.sleep(seconds)
            beside = end()
        control.send(None)
        process.join(BEGIN_S)
    finally:
        process.kill()
        process.join()
    return Beside(alone, beside)
