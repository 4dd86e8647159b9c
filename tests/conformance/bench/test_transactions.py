"""Tests the limit of a producer whose requests do not succeed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdResponse
from kwire.codecs.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.conformance.bench import load
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.transactions import RawProducer, TransactionWork

PLAIN = TransactionWork(1, 2, transactional=False)
Answer = Callable[[], bytes | None]


def refusal() -> bytes:
    """A Produce response, version 12, whose partitions have no leader yet."""
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = [PartitionProduceResponse(index, error, -1) for index in range(PLAIN.partitions)]
    return ProduceResponse([TopicProduceResponse("t", partition_responses=refused)]).encode(12)


def serve(listener: socket.socket, answer: Answer) -> None:
    """Answer InitProducerId, and each Produce with `answer`; None is no response."""
    sock, _ = listener.accept()
    with sock:
        while size := sock.recv(4, socket.MSG_WAITALL):
            request = sock.recv(int.from_bytes(size), socket.MSG_WAITALL)
            if int.from_bytes(request[:2]) == ApiKey.INIT_PRODUCER_ID:
                body = InitProducerIdResponse(producer_id=1, producer_epoch=0).encode(
                    int.from_bytes(request[2:4])
                )
            elif (answered := answer()) is not None:
                body = answered
            else:
                continue
            reply = bytes(5) + body
            sock.sendall(len(reply).to_bytes(4) + reply)


@contextmanager
def producer_of(answer: Answer) -> Iterator[RawProducer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, answer))
        thread.start()
        producer = RawProducer(listener.getsockname(), "t", "", PLAIN)
        try:
            yield producer
        finally:
            producer.sock.close()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "why"),
    [(refusal, r"\d+ times NOT_LEADER_OR_FOLLOWER"), (lambda: None, "no response")],
    ids=["refused", "silent"],
)
def test_request_that_does_not_succeed_fails_after_the_limit(answer: Answer, why: str) -> None:
    expected = rf"Produce of a plain producer for 2 partitions did not .* within 0.1 s: {why}\. "
    with producer_of(answer) as producer, pytest.raises(RequestFailed, match=expected):
        producer.complete(within_s=0.1)


def test_request_that_succeeds_after_a_refusal_leaves_the_socket_blocking() -> None:
    accepted = [PartitionProduceResponse(index, 0, 0) for index in range(PLAIN.partitions)]
    answers = iter(
        [
            refusal(),
            ProduceResponse([TopicProduceResponse("t", partition_responses=accepted)]).encode(12),
        ]
    )
    with producer_of(lambda: next(answers)) as producer:
        producer.complete(within_s=load.REPLY_TIMEOUT_S)
        assert (producer.ended, producer.retries) == (1, 1)
        assert producer.sock.gettimeout() is None
