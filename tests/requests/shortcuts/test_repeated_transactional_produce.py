"""Transactional requests to several partitions get the same answers as from the handler."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.inside import RawClient, running_broker

PARTITIONS = 3
WITHOUT_BUMP = 4
NOW_MS = Broker.now_ms()


class Writer:
    """A transactional producer of three partitions, on a connection of its own."""

    def __init__(self, broker: Broker, client: RawClient, topic_id: bytes) -> None:
        self.broker, self.client, self.topic_id = broker, client, topic_id
        self.producer_id = self.epoch = 0
        self.version = 13
        self.reconnects = False
        """Whether each request goes over a new connection, so that the handler answers it."""

    @classmethod
    async def start(cls, broker: Broker, transactional_id: str = "x") -> Writer:
        client = await RawClient.connect(broker)
        new = CreatableTopic("t-" + transactional_id, PARTITIONS, 1)
        created = await client.ask(CreateTopicsRequest([new], 5000), 7, CreateTopicsResponse)
        writer = cls(broker, client, created.topics[0].topic_id)
        writer.id = transactional_id
        await client.ask(FindCoordinatorRequest(transactional_id, 1), 2, FindCoordinatorResponse)
        request = InitProducerIdRequest(transactional_id, 60_000)
        started = await client.ask(request, 4, InitProducerIdResponse)
        assert started.error_code == ErrorCode.NONE
        writer.producer_id, writer.epoch = started.producer_id, started.producer_epoch
        return writer

    id: str

    def batch(self, sequence: int, size_bytes: int = 5, **options: object) -> bytes:
        fields = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
        record = Record(0, NOW_MS, b"key", b"v" * size_bytes)
        return bytes(build([record], **(fields | options)))  # type: ignore[arg-type]  # by name

    async def write(self, *batches: bytes, indexes: tuple[int, ...] = (0, 1, 2)) -> list[list[int]]:
        """Write a batch to each partition; return the error codes and the base offsets."""
        data = [
            PartitionProduceData(index, batch)
            for index, batch in zip(indexes, batches, strict=True)
        ]
        topic = TopicProduceData("t-" + self.id, self.topic_id, data)
        client = await RawClient.connect(self.broker) if self.reconnects else self.client
        request = ProduceRequest(self.id, -1, 1000, [topic])
        told = await client.ask(request, self.version, ProduceResponse)
        answers = told.responses[0].partition_responses
        assert [each.index for each in answers] == list(dict.fromkeys(indexes))
        return [[each.error_code for each in answers], [each.base_offset for each in answers]]

    async def write_all(self, sequence: int, size_bytes: int = 5) -> list[list[int]]:
        return await self.write(*[self.batch(sequence, size_bytes)] * PARTITIONS)

    async def end(self) -> None:
        request = EndTxnRequest(self.id, self.producer_id, self.epoch, True)
        told = await self.client.ask(request, WITHOUT_BUMP, EndTxnResponse)
        assert told.error_code == ErrorCode.NONE

    def ends(self) -> list[tuple[int, int]]:
        """The last stable offset and the log end offset of each partition."""
        led = [self.broker.hosted.led("t-" + self.id, index) for index in range(PARTITIONS)]
        return [(each.last_stable_offset, each.log_end_offset) for each in led]

    def stored(self) -> list[bytes]:
        """The batches in the log of each partition."""
        regions = [
            self.broker.hosted.led("t-" + self.id, index).log.read(
                0, 1 << 20, max_offset=1000, min_one_batch=True
            )
            for index in range(PARTITIONS)
        ]
        return [b"" if region is None else bytes(region.read()) for region in regions]


@pytest.mark.parametrize("version", [12, 13])
async def test_transactions_on_several_partitions_equal_those_of_the_handler(
    tmp_path: Path, quick: list[bool], version: int
) -> None:
    async with running_broker(tmp_path) as broker:
        by_shortcut, by_handler = await Writer.start(broker, "x"), await Writer.start(broker, "y")
        by_handler.reconnects = True
        by_shortcut.version = by_handler.version = version
        told: dict[str, list[object]] = {"x": [], "y": []}
        for writer in (by_shortcut, by_handler):
            sequence = 0
            for size_bytes in (5, 5, 60, 300, 20_000, 0):
                for _ in range(2):  # the first adds the partitions to the transaction
                    told[writer.id].append(await writer.write_all(sequence, size_bytes))
                    sequence += 1
                told[writer.id].append(writer.ends())
                await writer.end()
                told[writer.id].append(writer.ends())
        assert quick[-10:] == [True] * 10, "a new connection has no shortcut yet"
        assert told["x"] == told["y"]
        sizes = [[len(each) for each in writer.stored()] for writer in (by_shortcut, by_handler)]
        assert sizes[0] == sizes[1]


async def test_batch_that_is_refused_between_others_leaves_them_written_once(
    tmp_path: Path, quick: list[bool]
) -> None:
    """The handler answers the request, of which the shortcut has appended the first batch."""
    async with running_broker(tmp_path) as broker:
        writer = await Writer.start(broker)
        for sequence in range(3):
            await writer.write_all(sequence)
        assert quick[-1:] == [True]
        await writer.end()
        spoiled = writer.batch(3)[:-1] + b"?"
        refused = await writer.write(writer.batch(3), spoiled, writer.batch(3))
        none, corrupt = ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE
        assert refused == [[none, corrupt, none], [4, -1, 4]]
        assert quick[-1:] == [False]
        assert writer.ends() == [(4, 5), (4, 4), (4, 5)]
        again = await writer.write(*[writer.batch(3)] * PARTITIONS)
        assert again == [[none] * 3, [4, 4, 4]], "the first and the last are known already"
        assert writer.ends() == [(4, 5)] * PARTITIONS
        await writer.end()
        assert writer.ends() == [(6, 6)] * PARTITIONS


async def test_request_that_is_not_all_of_one_transaction_goes_to_the_handler(
    tmp_path: Path, quick: list[bool]
) -> None:
    async with running_broker(tmp_path) as broker:
        writer = await Writer.start(broker)
        for sequence in range(3):
            await writer.write_all(sequence)
        good = writer.batch(3)
        for odd in (
            writer.batch(3, transactional=False),
            writer.batch(3, producer_id=writer.producer_id + 1),
            writer.batch(3, producer_epoch=writer.epoch + 1),
            writer.batch(7),
            good[:40],
            b"",
        ):
            await writer.write(good, good, odd)
            assert quick[-1:] == [False]
        for indexes in ((0, 2, 1), (0, 1, 1), (0, 1)):
            await writer.write(*[good] * len(indexes), indexes=indexes)
            assert quick[-1:] == [False]
        assert await writer.write(good, good, good) == [[0, 0, 0], [3, 3, 3]]


async def test_partition_named_twice_is_never_remembered(tmp_path: Path, quick: list[bool]) -> None:
    async with running_broker(tmp_path) as broker:
        writer = await Writer.start(broker)
        for sequence in range(5):
            await writer.write(*[writer.batch(sequence)] * 3, indexes=(0, 1, 1))
        assert not any(quick)


async def test_fenced_producer_gets_the_error_of_the_handler(
    tmp_path: Path, quick: list[bool]
) -> None:
    async with running_broker(tmp_path) as broker:
        writer = await Writer.start(broker)
        for sequence in range(3):
            await writer.write_all(sequence)
        await writer.end()
        other = await RawClient.connect(broker)
        await other.ask(InitProducerIdRequest("x", 60_000), 4, InitProducerIdResponse)
        errors, offsets = await writer.write_all(3)
        assert quick[-1:] == [False]
        assert errors == [ErrorCode.INVALID_PRODUCER_EPOCH] * PARTITIONS
        assert offsets == [-1] * PARTITIONS
        assert writer.ends() == [(4, 4)] * PARTITIONS
