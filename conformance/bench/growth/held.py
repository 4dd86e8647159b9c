"""Things that clients hold open and that grow: connections, long polls, a fetch session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.frames import FetchReply, ProduceReply, RequestFailed
from kwire.conformance.bench.growth.asking import Caller, Producing, check
from kwire.conformance.bench.growth.scale import Scale, Step, Steps

BUSY = 100
"""Busy connections among many."""
POLL_MS = 600_000
"""How long a consumer waits for a record; longer than a measurement."""
FETCH_VERSION = 12
FETCH_BYTES = 1 << 20


class ConnectionScale(Scale):
    """Connections of which 100 are busy."""

    key, title, full = "connections", "{} connections of which 100 are busy", 10_000
    is_stored = False
    topic = "growth-busy"

    def build(self, broker: BenchBroker, size: int) -> None:
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], BUSY)

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Open all connections; yield a request on each of the busy ones, and one alone."""
        with ExitStack() as stack:
            callers = [stack.enter_context(Caller(broker.address)) for _ in range(size)]
            first = frames.api_versions().data
            for caller in callers:
                caller.exchange(first)
            busy = callers[-BUSY:]
            steps = [Producing(each, [(self.topic, at)]) for at, each in enumerate(busy)]
            yield {
                "Produce on 100 connections at once": _together(self.topic, busy),
                "Produce on one connection": steps[0],
            }


def _together(topic: str, callers: Sequence[Caller]) -> Step:
    """Return a step that sends a record on each connection, then reads all responses."""
    batch = frames.batch(1, 100)
    prepared = [frames.produce(topic, at, batch).data for at in range(len(callers))]

    def produce() -> int:
        for caller, frame in zip(callers, prepared, strict=True):
            caller.sock.sendall(frame)
        for caller in callers:
            ProduceReply(topic, load.receive_reply(caller.sock))
        return len(callers)

    return produce


class LongPollScale(Scale):
    """Consumers that wait for the next record of one partition."""

    key, title, full = "long-polls", "{} consumers in long polls on one partition", 1_000
    is_stored = False
    topic, other = "growth-polled", "growth-other"

    def build(self, broker: BenchBroker, size: int) -> None:
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic, self.other], 1)

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Let all consumers wait; yield a record for all of them, and one for none."""
        with ExitStack() as stack:
            callers = [stack.enter_context(Caller(broker.address)) for _ in range(size + 1)]
            producer, consumers = callers[0], callers[1:]
            yield {
                "Fetch that a record ends": self._feeding(producer, consumers),
                "Produce to another partition": Producing(producer, [(self.other, 0)]),
            }

    def _feeding(self, producer: Caller, consumers: Sequence[Caller]) -> Step:
        """Return a step that writes a record, and reads it on all connections.

        At its end all consumers wait for the next record.
        """
        batch = frames.batch(1, 100)
        produce = frames.produce(self.topic, 0, batch).data
        prepared = frames.fetch(self.topic, 0, max_wait_ms=POLL_MS, max_bytes=FETCH_BYTES)
        fetch = bytearray(prepared.data)
        layout = FetchReply(self.topic)

        def wait_for_records(offset: int) -> None:
            frames.OFFSET.pack_into(fetch, prepared.offset_pos, offset)
            for consumer in consumers:
                consumer.sock.sendall(fetch)

        wait_for_records(ProduceReply(self.topic, producer.exchange(produce)).base_offset + 1)

        def feed() -> int:
            offset = ProduceReply(self.topic, producer.exchange(produce)).base_offset
            for consumer in consumers:
                reply = bytearray(load.receive_reply(consumer.sock))
                if layout.records_size(reply) != len(batch):
                    raise RequestFailed("a long poll ended without the record")
            wait_for_records(offset + 1)
            return len(consumers)

        return feed


class SessionScale(Scale):
    """A consumer of many partitions, with a fetch session (KIP-227)."""

    key, title, full = "session", "a consumer of {} partitions", 1_000
    is_stored = False
    topic = "growth-session"

    def build(self, broker: BenchBroker, size: int) -> None:
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], size)

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Yield fetches in the session, without and with a new record in one partition."""
        with Caller(broker.address) as producer, Caller(broker.address) as caller:
            session = ConsumerSession(caller, self.topic, size)
            produce = Producing(producer, [(self.topic, size // 2)])

            def fetch_record() -> int:
                produce()
                if session.fetch() != [size // 2]:
                    raise RequestFailed("the session did not return the new record")
                return 1

            def fetch_nothing() -> int:
                if session.fetch():
                    raise RequestFailed("the session returned a partition without a new record")
                return 1

            yield {
                "Fetch with nothing new": fetch_nothing,
                "Produce to one, and Fetch": fetch_record,
            }


class ConsumerSession:
    """A fetch session of all partitions of one topic, from their ends on."""

    def __init__(self, caller: Caller, topic: str, partitions: int) -> None:
        """Begin the session, and read all records that exist."""
        self._caller = caller
        self._topic = topic
        self._epoch = 0
        self._id = 0
        self._moved = {index: 0 for index in range(partitions)}
        """The next offsets that the broker does not know yet, by partition."""
        self._next = dict(self._moved)
        while self.fetch():
            continue  # there are more records

    def fetch(self) -> list[int]:
        """Send one Fetch; return the partitions of which it has records, and move past them."""
        partitions = [
            FetchPartition(index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for index, offset in self._moved.items()
        ]
        message = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[FetchTopic(self._topic, partitions=partitions)] if partitions else [],
        )
        reply = self._caller.ask(message, FETCH_VERSION, FetchResponse)
        check("Fetch", iter([reply.error_code]))
        self._id = reply.session_id
        self._epoch += 1
        self._moved = {}
        for each in (each for topic in reply.responses for each in topic.partitions):
            check("Fetch", iter([each.error_code]))
            if each.records:
                self._moved[each.partition_index] = each.high_watermark
        return list(self._moved)
