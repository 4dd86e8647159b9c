"""Tests that clients cannot fill the broker's memory with large sizes or unread responses."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from struct import pack

import pytest

from kwire.client.connection import BrokerConnection
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.messages.request_header import RequestHeader
from kwire.testing import BrokerProcess

TOPIC = "greedy"
BATCH_SIZE_BYTES = 900_000  # below max.message.bytes, 1 MiB


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def write_and_read(link: BrokerConnection, batches: int) -> None:
    """Produce and fetch as a normal client, which fails if the broker does not answer."""
    value = bytes(BATCH_SIZE_BYTES)
    for _ in range(batches):
        partition = PartitionProduceData(records=build([Record(0, 0, None, value)]))
        topic = TopicProduceData(name=TOPIC, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        [result] = link.call(request, version_max=12).responses[0].partition_responses
        assert result.error_code == ErrorCode.NONE
    [result] = link.call(fetch(), version_max=12).responses[0].partitions
    assert len(result.records) > BATCH_SIZE_BYTES


def fetch() -> FetchRequest:
    partition = FetchPartition(partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )


def normal_client(broker: BrokerProcess, stack: ExitStack) -> BrokerConnection:
    link = BrokerConnection("127.0.0.1", broker.port, client_id="honest", timeout_s=60.0)
    stack.enter_context(closing(link))
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    reply = link.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert reply.topics[0].error_code == ErrorCode.NONE
    write_and_read(link, 5)
    return link


def strangers(broker: BrokerProcess, stack: ExitStack, count: int) -> list[socket.socket]:
    address = ("127.0.0.1", broker.port)
    return [stack.enter_context(socket.create_connection(address, 60)) for _ in range(count)]


@pytest.mark.slow
def test_announced_frame_size_takes_no_memory_before_its_bytes_arrive(
    broker: BrokerProcess,
) -> None:
    with ExitStack() as stack:
        link = normal_client(broker, stack)
        before_mb = memory_mb(broker.pid)
        for stranger in strangers(broker, stack, 200):
            stranger.sendall(pack(">i", 100 * 1024 * 1024) + b"\0" * 10)
        write_and_read(link, 1)
        # 200 buffers of 32 kB, and what a task and a socket take; 100 MB each would be 20 GB.
        assert memory_mb(broker.pid) - before_mb < 24


@pytest.mark.slow
def test_unread_responses_take_no_memory(broker: BrokerProcess) -> None:
    """Each connection requests responses of 50 MB; only the kernel's buffers may fill."""
    with ExitStack() as stack:
        link = normal_client(broker, stack)
        header = RequestHeader(request_api_key=1, request_api_version=11, client_id="mute")
        request = header.encode(1) + fetch().encode(11)
        frame = pack(">i", len(request)) + request
        before_mb = memory_mb(broker.pid)
        for stranger in strangers(broker, stack, 20):
            stranger.sendall(frame * 50)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            write_and_read(link, 1)
        assert memory_mb(broker.pid) - before_mb < 24


def test_unfinished_frames_do_not_delay_other_clients(broker: BrokerProcess) -> None:
    with ExitStack() as stack:
        link = normal_client(broker, stack)
        others = strangers(broker, stack, 50)
        frame = pack(">i", 1000) + bytes(1000)
        for index in range(20):
            for stranger in others:
                stranger.sendall(frame[index : index + 1])
            started = time.monotonic()
            write_and_read(link, 1)
            assert time.monotonic() - started < 60
