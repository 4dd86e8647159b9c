"""Measures transactions on raw sockets: many producers, each with one transaction at a time.

A transaction is a Produce (version 12, one small batch to each of the producer's partitions, which
the broker adds to the transaction by itself) and an EndTxn (version 5), as clients of transaction
version 2 (KIP-890) send them. Each end raises the producer epoch, so every batch gets new fields
and a new CRC.
"""

from __future__ import annotations

import heapq
import selectors
import time
from dataclasses import dataclass
from struct import Struct
from time import perf_counter_ns
from typing import TypeVar

import crc32c

from kwire.codecs.batch_layout import CRC, CRC_END, CRC_POS, PRODUCER, PRODUCER_POS
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.codecs.primitives import Message
from kwire.conformance.bench import load
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.load import Address, Sample
from kwire.conformance.bench.rows import Figure, Figures, Row

PRODUCE_VERSION = 12
END_VERSION = 5
INIT_VERSION = 4
FIND_VERSION = 3
TRANSACTION_KEY = 1

LONG = 100
"""Produce requests of a long transaction, which share the cost of its end."""

RETRY_NS = 5_000_000
"""Time in ns after which a producer repeats a request; clients wait 20 ms and more."""

PAUSE_S = 0.02
"""Time before a request is sent again, where requests are not counted."""
COMPLETE_MAX_S = 180.0
"""Limit for one request to succeed; the EndTxn of 10,000 partitions takes some seconds."""
SETTING_UP_S = 30
TIMEOUT_MS = 60_000
VALUE_BYTES = 100

_HEADER = Struct(">hhi")

RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def request(message: Message, version: int, correlation_id: int = 0) -> bytes:
    """Return the frame of a request in a flexible version."""
    assert message.API_KEY is not None
    payload = _HEADER.pack(message.API_KEY, version, correlation_id)
    payload += b"\0\5bench\0" + message.encode(version)
    return len(payload).to_bytes(4) + payload


REPLY_HEADER_BYTES = 4 + 1  # after the size: correlation id, no tagged fields

ReplyT = TypeVar("ReplyT", FindCoordinatorResponse, InitProducerIdResponse)


@dataclass
class TransactionWork:
    """What each producer does in a transaction."""

    producers: int
    partitions: int
    requests: int = 1
    """Produce requests in a transaction."""
    transactional: bool = True
    """If false, the same requests of an idempotent producer without transactions."""


class RawProducer:
    """One connection with a transactional id, and its request in flight.

    `ended` counts transactions, or requests of a producer without them; `retries` counts retriable
    errors.
    """

    def __init__(self, address: Address, topic: str, name: str, work: TransactionWork) -> None:
        """Connect, get a producer id, and prepare the frame that every transaction sends.

        The positions of the batches in the frame are kept, since each transaction changes them.
        """
        self.sock = load.connect(address)
        self.work = work
        self.name = name
        self.ended = self.retries = 0
        self._refusal = ""  # the errors of the last response that allowed a retry
        self._requests = 0  # in the current transaction
        self._sequence = 0
        self._received = bytearray()
        self.producer_id, self.epoch = self._initialize()
        batch = _batch(work)
        data = [PartitionProduceData(index, batch) for index in range(work.partitions)]
        produce = ProduceRequest(
            transactional_id=name if work.transactional else None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )
        self._frame = bytearray(request(produce, PRODUCE_VERSION))
        self._batch_bytes = len(batch)
        self._positions: list[int] = []
        at = 0
        for _ in range(work.partitions):
            at = self._frame.index(batch, at)
            self._positions.append(at)
            at += len(batch)

    # Preparation

    def _initialize(self) -> tuple[int, int]:
        """Return the producer id and epoch; a transactional producer finds its coordinator
        first."""
        transactional_id = self.name if self.work.transactional else None
        if transactional_id is not None:
            find = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
            self._ask_until_done(find, FIND_VERSION, FindCoordinatorResponse)
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        reply = self._ask_until_done(init, INIT_VERSION, InitProducerIdResponse)
        return reply.producer_id, reply.producer_epoch

    def _ask_until_done(self, message: Message, version: int, kind: type[ReplyT]) -> ReplyT:
        """Return the response without an error; the first requests create the coordinators'
        topic."""
        deadline = time.monotonic() + SETTING_UP_S
        while True:
            self.sock.sendall(request(message, version))
            size = int.from_bytes(load.receive(self.sock, 4))
            reply = kind.decode(load.receive(self.sock, size), version, REPLY_HEADER_BYTES)
            if not reply.error_code:
                return reply
            if reply.error_code not in RETRIABLE or time.monotonic() > deadline:
                name = ErrorCode(reply.error_code).name
                raise RequestFailed(f"{kind.__name__} has the error {name}")
            time.sleep(PAUSE_S)

    # The measured work

    def send(self) -> None:
        """Send the next request, or repeat the last one."""
        if self._requests < self.work.requests:
            self._stamp()
            self.sock.sendall(self._frame)
        else:
            end = EndTxnRequest(self.name, self.producer_id, self.epoch, committed=True)
            self.sock.sendall(request(end, END_VERSION))

    def complete(self, within_s: float = COMPLETE_MAX_S) -> None:
        """Send the next request until it succeeds, with pauses after retriable errors.

        Raises RequestFailed after `within_s` seconds.
        """
        deadline = time.monotonic() + within_s
        retries_before, self._refusal = self.retries, ""
        while (left_s := deadline - time.monotonic()) > 0:
            self.sock.settimeout(left_s)
            self.send()
            try:
                while (succeeded := self.receive()) is None:
                    continue  # the response is not complete
            except TimeoutError:
                break
            if succeeded:
                self.sock.settimeout(None)
                return
            time.sleep(min(PAUSE_S, left_s))
        what = "Produce" if self._requests < self.work.requests else "EndTxn"
        retries = self.retries - retries_before
        why = f"{retries} times {self._refusal}" if retries else "no response"
        raise RequestFailed(
            f"{what} of {self.name or 'a plain producer'} for {self.work.partitions:,} partitions "
            f"did not succeed within {within_s:g} s: {why}. Look in the broker's log for what it "
            "waits for, or measure fewer partitions"
        )

    def skip_produce(self) -> None:
        """End the transaction with the next request, since its partitions were added otherwise."""
        self._requests = self.work.requests

    def _stamp(self) -> None:
        """Write producer id, epoch and sequence number into each batch, and its new CRC."""
        frame = self._frame
        for at in self._positions:
            producer = self.producer_id, self.epoch, self._sequence
            PRODUCER.pack_into(frame, at + PRODUCER_POS, *producer)
            with memoryview(frame) as view:
                crc = crc32c.crc32c(view[at + CRC_END : at + self._batch_bytes])
            CRC.pack_into(frame, at + CRC_POS, crc)

    def receive(self) -> bool | None:
        """Read; None while the response is incomplete, else whether the request succeeded."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise RequestFailed("the broker closed the connection")
        received = self._received
        received += data
        if len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
            return None
        reply, self._received = bytes(received[4:]), bytearray()
        if self._requests < self.work.requests:
            return self._check_produced(reply)
        return self._check_committed(reply)

    def _check_produced(self, reply: bytes) -> bool:
        """Count a successful Produce; return False if it has to be repeated."""
        response = ProduceResponse.decode(reply, PRODUCE_VERSION, REPLY_HEADER_BYTES)
        errors = {result.error_code for result in response.responses[0].partition_responses}
        if not self._check_errors("Produce", errors):
            return False
        self._sequence += 1
        self._requests += 1
        if not self.work.transactional:
            self.ended += 1
            self._requests = 0
        return True

    def _check_committed(self, reply: bytes) -> bool:
        """Take the new epoch after a successful EndTxn; return False if it has to be repeated."""
        response = EndTxnResponse.decode(reply, END_VERSION, REPLY_HEADER_BYTES)
        if not self._check_errors("EndTxn", {response.error_code}):
            return False
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self._sequence = self._requests = 0
        self.ended += 1
        return True

    def _check_errors(self, what: str, errors: set[int]) -> bool:
        """Return whether there is no error, and False after errors that allow a retry.

        Raise RequestFailed after any other error.
        """
        if errors == {0}:
            return True
        if errors - RETRIABLE - {0}:
            names = ", ".join(sorted(ErrorCode(error).name for error in errors))
            raise RequestFailed(f"{what} failed with {names}")
        self.retries += 1
        self._refusal = ", ".join(sorted(ErrorCode(error).name for error in errors - {0}))
        return False


def _batch(work: TransactionWork) -> bytes:
    """Return a batch of one record; its producer id and epoch are written over later."""
    now_ms = time.time_ns() // 1_000_000
    record = Record(0, now_ms, None, bytes(range(VALUE_BYTES)))
    batch = build(
        [record],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=work.transactional,
    )
    return bytes(batch)


def drive(producers: list[RawProducer], seconds: float) -> int:
    """Let all producers work for `seconds`; requests with retriable errors are repeated later.

    Returns the elapsed time in ns.
    """
    selector = selectors.DefaultSelector()
    waiting: list[tuple[int, int]] = []  # (time in ns, number of the producer)
    for number, producer in enumerate(producers):
        selector.register(producer.sock, selectors.EVENT_READ, number)
    start = now = perf_counter_ns()
    deadline = start + int(seconds * 1e9)
    for producer in producers:
        producer.send()
    while now < deadline:
        timeout = max(0, waiting[0][0] - now) / 1e9 if waiting else 1.0
        for key, _ in selector.select(timeout):
            succeeded = producers[key.data].receive()
            if succeeded:
                producers[key.data].send()
            elif succeeded is not None:
                heapq.heappush(waiting, (perf_counter_ns() + RETRY_NS, key.data))
        now = perf_counter_ns()
        while waiting and waiting[0][0] <= now:
            producers[heapq.heappop(waiting)[1]].send()
    selector.close()
    return now - start


class Transactions(Row):
    """Producers that each end one transaction after another, on the same partitions.

    The row counts requests if a transaction has many of them, or if there are no transactions.
    """

    on_floor = False

    def __init__(
        self, key: str, title: str, work: TransactionWork, target: float | None = None
    ) -> None:
        """Describe a row of the table; long and plain ones count requests, not transactions."""
        self.key, self.title, self.work = key, title, work
        self.partitions = work.partitions
        short = work.transactional and work.requests == 1
        self.figures = (
            Figure("transactions", "txn/s", target=target)
            if short
            else Figure("requests", "req/s"),
        )

    def sample(self, address: Address, topic: str, seconds: float) -> Sample:
        """Run all producers for `seconds`, and return what they completed."""
        work = self.work
        producers = [
            RawProducer(address, topic, f"{topic}-{number}", work)
            for number in range(work.producers)
        ]
        try:
            elapsed_ns = drive(producers, seconds)
        finally:
            for producer in producers:
                producer.sock.close()
        count = sum(producer.ended for producer in producers) * work.requests
        return Sample(count, elapsed_ns / 1e9, count * work.partitions * VALUE_BYTES)

    def figures_of(self, sample: Sample) -> Figures:
        return {self.figures[0].name: sample.per_second}


def _rows() -> tuple[Row, ...]:
    """Return the rows: short transactions of each size, a long one, and none for comparison."""
    rows: list[Row] = [
        Transactions(
            f"txn{producers}x{partitions}",
            f"{producers} transactional producers, {partitions} partitions a transaction",
            TransactionWork(producers, partitions),
            target=1.0,
        )
        for producers in (1, 10, 100)
        for partitions in (1, 8, 64)
    ]
    rows.append(
        Transactions(
            "txn-long",
            f"a transaction of {LONG} requests to 8 partitions",
            TransactionWork(1, 8, requests=LONG),
        )
    )
    rows.append(
        Transactions(
            "idempotent",
            "the same requests without transactions",
            TransactionWork(1, 8, transactional=False),
        )
    )
    return tuple(rows)


TRANSACTION_ROWS = _rows()
