"""A client inside TLS that takes 4 kB at a time of what it asked for."""

from __future__ import annotations

import random
import socket
import ssl
from pathlib import Path

import trio

from kwire.codecs.batches import Record, build
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.primitives import Message
from tests.inside import PATIENCE_S, running_broker
from tests.security.tls.authority import Authority

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
READ_BYTES = 4096
RECORD_BYTES = 1_000_000
REPLIES = 3
"""More than sockets hold: the broker has to wait for the client in the midst of each."""
PRODUCE_VERSION, FETCH_VERSION = 7, 11


def framed(request: Message, version: int) -> bytes:
    assert request.API_KEY is not None
    header = RequestHeader(request.API_KEY, version, 1, None).encode(1)
    data = header + request.encode(version)
    return len(data).to_bytes(4) + data


MADE = framed(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 10_000), 4)


def written(value: bytes) -> bytes:
    data = PartitionProduceData(0, build([Record(0, 2**40, None, value)]))
    topics = [TopicProduceData("t", partition_data=[data])]
    return framed(ProduceRequest(None, 1, 10_000, topics), PRODUCE_VERSION)


def asked() -> bytes:
    partition = FetchPartition(0, partition_max_bytes=2 * RECORD_BYTES)
    topics = [FetchTopic("t", partitions=[partition])]
    return framed(FetchRequest(max_bytes=2 * RECORD_BYTES, topics=topics), FETCH_VERSION)


class Client:
    """One side of TLS, which reads as slowly as it wants."""

    def __init__(self, port: int, context: ssl.SSLContext, *, window: int = 0) -> None:
        plain = socket.socket()
        if window:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        plain.settimeout(PATIENCE_S)
        plain.connect(("127.0.0.1", port))
        self._tls = context.wrap_socket(plain, server_hostname="localhost")
        self.reads = 0

    def close(self) -> None:
        self._tls.close()

    def send(self, data: bytes) -> None:
        self._tls.sendall(data)

    def receive(self) -> bytes:
        """One reply, READ_BYTES at a time."""
        size = int.from_bytes(self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self._tls.recv(min(READ_BYTES, size - len(found)))
            assert more, "the broker closed the connection"
            found += more
            self.reads += 1
        return bytes(found)


def is_answered(port: int, context: ssl.SSLContext) -> bool:
    other = Client(port, context)
    other.send(API_VERSIONS)
    answer = other.receive()
    other.close()
    return len(answer) > 0


async def test_slow_tls_client_gets_all_replies_and_delays_nobody(
    tmp_path: Path, rng: random.Random
) -> None:
    authority = Authority()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue().write_pem(tmp_path / "own.pem")),
        "message.max.bytes": str(2 * RECORD_BYTES),
        "log.retention.ms": "-1",
    }
    context = ssl.create_default_context(cadata=authority.pem)
    value = rng.randbytes(RECORD_BYTES)
    with trio.fail_after(PATIENCE_S):
        async with running_broker(tmp_path / "data", settings) as broker:
            port = broker.config.listeners[0].port
            slow = await trio.to_thread.run_sync(lambda: Client(port, context, window=READ_BYTES))
            for request in (MADE, written(value)):
                await trio.to_thread.run_sync(slow.send, request)
                await trio.to_thread.run_sync(slow.receive)
            await trio.to_thread.run_sync(slow.send, asked() * REPLIES)
            for _ in range(REPLIES):
                assert await trio.to_thread.run_sync(is_answered, port, context)
                data = await trio.to_thread.run_sync(slow.receive)
                read = FetchResponse.decode(data, FETCH_VERSION, 4)
                records = read.responses[0].partitions[0].records
                assert isinstance(records, memoryview)
                assert value in bytes(records)
            assert slow.reads > REPLIES * RECORD_BYTES // READ_BYTES
            slow.close()
