"""The disk is full for a while, with clients at work."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log.directory.files import Files, OpenFile
from tests.descriptors import path_of
from tests.inside import RawClient, running_broker

TOPIC = "t"


class Room:
    """Makes the disk full, and free again, for files whose path contains `word`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
        self.full = False

        def refuse(path: object) -> None:
            if self.full and word in str(path):
                raise OSError(errno.ENOSPC, "No space left on device")

        def pwrite(fd: int, data: bytes, position: int) -> int:
            refuse(path_of(fd))
            return real_pwrite(fd, data, position)

        def open_(files: Files, path: Path | str) -> OpenFile:
            refuse(path)
            return real_open(files, path)

        real_pwrite, real_open = Files.pwrite, Files.open
        monkeypatch.setattr(Files, "pwrite", staticmethod(pwrite))
        monkeypatch.setattr(Files, "open", open_)


def produce() -> ProduceRequest:
    records = bytes(build([Record(0, 1_700_000_000_000, None, b"value", [])]))
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
    )


async def create(client: RawClient) -> ErrorCode:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    reply = await client.ask(request, 5, CreateTopicsResponse)
    return ErrorCode(reply.topics[0].error_code)


async def write(client: RawClient) -> tuple[ErrorCode, int]:
    reply = await client.ask(produce(), 7, ProduceResponse)
    answer = reply.responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


async def test_produce_is_refused_on_a_full_disk_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the shortcut, which passes the request on to the full handler."""
    room = Room(monkeypatch, f"/{TOPIC}-0/")
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        assert await create(client) is ErrorCode.NONE
        assert [await write(client) for _ in range(3)] == [(ErrorCode.NONE, n) for n in range(3)]
        room.full = True
        assert await write(client) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert await write(client) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        room.full = False
        assert await write(client) == (ErrorCode.NONE, 3)


async def test_topic_created_on_a_full_disk_is_opened_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(monkeypatch, f"/{TOPIC}-0/")
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        room.full = True
        assert await create(client) is ErrorCode.NONE
        assert await write(client) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        room.full = False
        broker.membership.open_missing()  # the upkeep does, once a second
        assert await write(client) == (ErrorCode.NONE, 0)
