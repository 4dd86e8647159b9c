"""Measures large sizes: a transaction of 10,000 partitions, 100,000 ids, 3,000 connections.

It measures their cost for the client itself and for others: another process sends one small record
after another to a topic of its own. The longest wait of that process is how long the broker was
busy with something else. Each broker is started for one measurement.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import NamedTuple, TypeVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.primitives import Message
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.crowd import CROWD, CROWD_FIGURES, CROWD_KEY, crowd
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.measure import Series, new_topic
from kwire.conformance.bench.rows import Figure, Figures
from kwire.conformance.bench.transactions import (
    INIT_VERSION,
    REPLY_HEADER_BYTES,
    RETRIABLE,
    TIMEOUT_MS,
    RawProducer,
    TransactionWork,
    request,
)

PARTITIONS = 10_000
IDS = 100_000
CONNECTIONS = 8
"""Connections on which the ids are initialised, with one request in flight on each."""

ADD_VERSION = 3
DESCRIBE_VERSION = 0
GROW_VERSION = 3
SAMPLED_EVERY = 500
"""Every 500th id is described to learn if all are loaded or expired; they are in all partitions."""

PROBE_PAUSE_S = 0.001
PROBE_PRIORITY = 2
POLL_S = 0.005
RETRY_S = 0.02
PATIENCE_S = 180.0

EXPIRY = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}

ReplyT = TypeVar("ReplyT", bound=Message)


class Waits(NamedTuple):
    """How long other clients waited for their responses, in ms."""

    p99: float
    longest: float


def _probe(address: Address, topic: str, control: Connection) -> None:
    """Send one small record after another until told to stop; then send the times in ns.

    It runs before other programs, so that it waits for the broker and not for a processor.
    """
    if hasattr(os, "sched_setscheduler"):
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PROBE_PRIORITY))
    frame = frames.produce(topic, 0, frames.batch(1, 100)).data
    waits: list[int] = []
    with load.connect(address) as sock:
        load.first_reply(sock, topic, frame)
        control.send([])
        while not control.poll():
            start_ns = perf_counter_ns()
            sock.sendall(frame)
            load.receive_reply(sock)
            waits.append(perf_counter_ns() - start_ns)
            time.sleep(PROBE_PAUSE_S)
    control.send(waits)


@contextmanager
def others(broker: BenchBroker) -> Iterator[Callable[[], Waits]]:
    """Another client uses the broker; yields a function that ends it and returns its waits."""
    topic = new_topic()
    broker.create_topic(topic)
    control, theirs = multiprocessing.Pipe()
    spawning = multiprocessing.get_context("spawn")
    process = spawning.Process(target=_probe, args=(broker.address, topic, theirs))
    process.start()

    def end() -> Waits:
        control.send(None)
        waits = sorted(control.recv())
        return Waits(load.percentile(waits, 0.99) / 1e6, waits[-1] / 1e6)

    try:
        control.recv()
        yield end
    finally:
        process.terminate()
        process.join()


def ask(address: Address, message: Message, version: int, kind: type[ReplyT]) -> ReplyT:
    """Send one request on a new connection; its response."""
    with load.connect(address) as sock:
        sock.sendall(request(message, version))
        size = int.from_bytes(load.receive(sock, 4))
        return kind.decode(load.receive(sock, size), version, REPLY_HEADER_BYTES)


def ms_since(began_ns: int) -> float:
    return (perf_counter_ns() - began_ns) / 1e6


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    """Wait until `is_so`; raise RequestFailed after PATIENCE_S seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise RequestFailed(f"{what}: not within {PATIENCE_S:.0f} s")
        time.sleep(POLL_S)


# A large transaction

LARGE_KEY = "txn-large"
LARGE = f"a transaction of {PARTITIONS:,} partitions"
PRODUCE = Figure("Produce to all, which adds them", "ms", more_is_better=False)
END = Figure("EndTxn", "ms", more_is_better=False)
COMPLETE = Figure("EndTxn until it is complete", "ms", more_is_better=False)
ADD = Figure("AddPartitionsToTxn", "ms", more_is_better=False)
END_EMPTY = Figure("EndTxn of partitions not written to", "ms", more_is_better=False)
P99 = Figure("p99 of others meanwhile", "ms", more_is_better=False)
LONGEST = Figure("longest wait of others", "ms", more_is_better=False)


def large_transaction(broker: BenchBroker) -> Figures:
    """Measure both ways to add partitions to a transaction, and its end."""
    topic = new_topic()
    broker.create_topic(topic, PARTITIONS // 2)
    _grow(broker.address, topic)
    plain = RawProducer(
        broker.address, topic, "", TransactionWork(1, PARTITIONS, transactional=False)
    )
    _step(plain)  # so that all partitions have a leader and a record
    plain.sock.close()
    producer = RawProducer(broker.address, topic, f"{topic}-id", TransactionWork(1, PARTITIONS))
    with others(broker) as end_others:
        figures = {PRODUCE.name: _step(producer)}
        start_ns = perf_counter_ns()
        figures[END.name] = _step(producer)
        _wait_until_complete(broker.address, producer.name)
        figures[COMPLETE.name] = ms_since(start_ns)
        start_ns = perf_counter_ns()
        _add_partitions(broker.address, producer, topic)
        figures[ADD.name] = ms_since(start_ns)
        producer.skip_produce()
        figures[END_EMPTY.name] = _step(producer)
        _wait_until_complete(broker.address, producer.name)
        waits = end_others()
    producer.sock.close()
    return figures | {P99.name: waits.p99, LONGEST.name: waits.longest}


def _grow(address: Address, topic: str) -> None:
    """Add partitions up to PARTITIONS, since Apache Kafka creates fewer at once."""
    grown = CreatePartitionsTopic(topic, PARTITIONS, assignments=None)
    message = CreatePartitionsRequest([grown], timeout_ms=60_000)
    reply = ask(address, message, GROW_VERSION, CreatePartitionsResponse)
    if error := reply.results[0].error_code:
        raise RequestFailed(f"CreatePartitions has the error {ErrorCode(error).name}")


def _step(producer: RawProducer) -> float:
    """Send the producer's next request until it succeeds; return the milliseconds that it took."""
    start_ns = perf_counter_ns()
    producer.complete()
    return ms_since(start_ns)


def _add_partitions(address: Address, producer: RawProducer, topic: str) -> None:
    """Add all partitions of the topic to the transaction in one request.

    Raise RequestFailed if one of them gets an error.
    """
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(range(PARTITIONS)))],
    )
    reply = ask(address, message, ADD_VERSION, AddPartitionsToTxnResponse)
    (added,) = reply.results_by_topic_v3_and_below
    errors = {partition.partition_error_code for partition in added.results_by_partition}
    if errors != {0}:
        raise RequestFailed(f"AddPartitionsToTxn was answered with the errors {errors}")


def _wait_until_complete(address: Address, transactional_id: str) -> None:
    """Wait until the broker describes the transaction as completely committed or aborted."""
    message = DescribeTransactionsRequest([transactional_id])

    def complete() -> bool:
        """Return whether the transaction has ended completely."""
        reply = ask(address, message, DESCRIBE_VERSION, DescribeTransactionsResponse)
        return reply.transaction_states[0].transaction_state.startswith("Complete")

    wait_for(complete, f"the end of {transactional_id}")


# Many transactional ids

IDS_KEY = "txn-ids"
MANY = f"{IDS:,} transactional ids"
RATE = Figure("InitProducerId of new ids", "req/s")
MEMORY = Figure("memory of an id", "bytes", more_is_better=False)
LOADED = Figure("restart until all are served", "s", more_is_better=False)
LOADED_LONGEST = Figure("longest wait of others while they expire", "ms", more_is_better=False)
GONE = Figure("restart until all have expired", "s", more_is_better=False)


def many_ids(broker: BenchBroker) -> Figures:
    """Measure new ids, a restart that loads them, and a restart after which they expire."""
    prefix = new_topic()
    names = [f"{prefix}-{number:06}" for number in range(IDS)]
    sampled = names[::SAMPLED_EVERY]
    RawProducer(
        broker.address, prefix, f"{prefix}-first", TransactionWork(1, 1)
    ).sock.close()  # creates the internal topic
    before_mb = broker.rss_mb()
    start_ns = perf_counter_ns()
    with others(broker) as end_others:
        _initialize(broker.address, names)
        figures = {RATE.name: IDS / ms_since(start_ns) * 1e3}
        waits = end_others()
    after_mb = broker.rss_mb()
    if before_mb is not None and after_mb is not None:
        figures[MEMORY.name] = (after_mb - before_mb) * 1e6 / IDS
    figures |= {P99.name: waits.p99, LONGEST.name: waits.longest}

    def all_have(error: ErrorCode) -> bool:
        return _errors(broker.address, sampled) == {error}

    start_ns = perf_counter_ns()
    broker.restart({})
    wait_for(lambda: all_have(ErrorCode.NONE), "all transactional ids")
    figures[LOADED.name] = ms_since(start_ns) / 1e3
    start_ns = perf_counter_ns()
    broker.restart(EXPIRY)
    with others(broker) as end_others:
        wait_for(lambda: all_have(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), "the ids' expiry")
        figures[GONE.name] = ms_since(start_ns) / 1e3
        figures[LOADED_LONGEST.name] = end_others().longest
    return figures


def _errors(address: Address, names: Sequence[str]) -> set[int]:
    """Return the error codes that occur when these transactions are described."""
    reply = ask(
        address,
        DescribeTransactionsRequest(list(names)),
        DESCRIBE_VERSION,
        DescribeTransactionsResponse,
    )
    return {state.error_code for state in reply.transaction_states}


def _initialize(address: Address, names: Sequence[str]) -> None:
    """Send InitProducerId for each name, and again after a retriable error."""
    left = list(reversed(names))
    selector = selectors.DefaultSelector()
    in_flight: dict[int, str] = {}

    def send(sock: socket.socket) -> None:
        name = in_flight[sock.fileno()] = left.pop()
        sock.sendall(request(InitProducerIdRequest(name, TIMEOUT_MS), INIT_VERSION))

    socks = [load.connect(address) for _ in range(min(CONNECTIONS, len(names)))]
    for sock in socks:
        selector.register(sock, selectors.EVENT_READ, sock)
        send(sock)
    while in_flight:
        for key, _ in selector.select():
            name = in_flight.pop(key.fd)
            reply = load.receive_reply(key.data)[4:]
            error = InitProducerIdResponse.decode(
                reply, INIT_VERSION, REPLY_HEADER_BYTES
            ).error_code
            if error in RETRIABLE:
                left.append(name)
                time.sleep(RETRY_S)
            elif error:
                raise RequestFailed(f"InitProducerId has the error {ErrorCode(error).name}")
            if left:
                send(key.data)
    selector.close()
    for sock in socks:
        sock.close()


class SizeRow(NamedTuple):
    """A measurement that is made once, on a broker that is started for it."""

    key: str
    title: str
    figures: tuple[Figure, ...]
    measure: Callable[[BenchBroker], Figures]


SIZES = (
    SizeRow(
        LARGE_KEY, LARGE, (PRODUCE, END, COMPLETE, ADD, END_EMPTY, P99, LONGEST), large_transaction
    ),
    SizeRow(CROWD_KEY, CROWD, CROWD_FIGURES, crowd),
    SizeRow(IDS_KEY, MANY, (RATE, MEMORY, P99, LONGEST, LOADED, GONE, LOADED_LONGEST), many_ids),
)


def measure_series(
    sizes: Sequence[SizeRow], fresh: Callable[[], Sequence[BenchBroker]], say: Callable[[str], None]
) -> list[Series]:
    """Return the series of each size, measured on each of the brokers that `fresh` creates."""
    all_sizes = []
    for size in sizes:
        all_series = [Series(size.key, size.title, figure, None) for figure in size.figures]
        for broker in fresh():
            say(f"{size.title}: {broker.name}")
            try:
                broker.start()
                figures = size.measure(broker)
            finally:
                broker.stop()
            for series in all_series:
                if series.figure.name in figures:
                    series.add(broker.name, figures[series.figure.name])
        all_sizes += all_series
    return all_sizes
