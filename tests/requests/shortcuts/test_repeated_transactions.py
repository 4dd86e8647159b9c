"""The Produce shortcut in transactions: it adds partitions to them, and leaves errors to others."""

from __future__ import annotations

from pathlib import Path

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.codecs.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.storage.partitions.partition import Partition
from tests.inside import RawClient
from tests.requests.shortcuts.test_repeated_produce import broker_with_topics

VERSION = 13  # partitions become part of the transaction by being written to
WITHOUT_BUMP = 4


class Writer:
    """A transactional producer on a connection of its own."""

    def __init__(self, client: RawClient, topic_id: bytes, producer_id: int, epoch: int) -> None:
        self.client, self.topic_id = client, topic_id
        self.producer_id, self.epoch = producer_id, epoch

    @classmethod
    async def start(cls, broker: Broker, topic_id: bytes) -> Writer:
        client = await RawClient.connect(broker)
        find = FindCoordinatorRequest("x", 1)
        await client.ask(find, 2, FindCoordinatorResponse)
        started = await client.ask(InitProducerIdRequest("x", 60_000), 4, InitProducerIdResponse)
        assert started.error_code == ErrorCode.NONE
        return cls(client, topic_id, started.producer_id, started.producer_epoch)

    async def write(
        self,
        sequence: int,
        *,
        transactional: bool = True,
        epoch: int = 0,
        version: int = VERSION,
    ) -> tuple[int, int]:
        """Send a batch and return the error and the base offset."""
        records = build(
            [Record(0, Broker.now_ms(), b"key", b"value")],
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        data = PartitionProduceData(0, records)
        topic = TopicProduceData("repeated", self.topic_id, [data])
        request = ProduceRequest("x", 1, 1000, [topic])
        told = await self.client.ask(request, version, ProduceResponse)
        answer: PartitionProduceResponse = told.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    async def add_partition(self) -> None:
        topic = AddPartitionsToTxnTopic("repeated", [0])
        request = AddPartitionsToTxnRequest([], "x", self.producer_id, self.epoch, [topic])
        told = await self.client.ask(request, 3, AddPartitionsToTxnResponse)
        (answer,) = told.results_by_topic_v3_and_below[0].results_by_partition
        assert answer.partition_error_code == ErrorCode.NONE

    async def end(self) -> None:
        request = EndTxnRequest("x", self.producer_id, self.epoch, True)
        told = await self.client.ask(request, WITHOUT_BUMP, EndTxnResponse)
        assert told.error_code == ErrorCode.NONE


async def test_batches_of_an_open_transaction_use_the_shortcut(
    tmp_path: Path, quick: list[bool]
) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        writer = await Writer.start(broker, ids["repeated"])
        for sequence in range(5):
            assert await writer.write(sequence) == (ErrorCode.NONE, sequence)
        assert quick[-2:] == [True, True]
        await writer.end()
        assert stable(broker) == 6


async def test_first_batch_of_the_next_transaction_is_added_by_the_shortcut(
    tmp_path: Path, quick: list[bool]
) -> None:
    """The coordinator has to know the partition, or it would never write a marker there."""
    async with broker_with_topics(tmp_path) as (broker, ids):
        writer = await Writer.start(broker, ids["repeated"])
        for sequence in range(4):
            await writer.write(sequence)
        for first in (4, 6):
            await writer.end()
            assert stable(broker) == partition(broker).log_end_offset
            assert (await writer.write(first))[0] == ErrorCode.NONE
            assert (await writer.write(first + 1))[0] == ErrorCode.NONE
            assert quick[-2:] == [True, True]
            assert stable(broker) == partition(broker).log_end_offset - 2
        await writer.end()
        assert stable(broker) == partition(broker).log_end_offset


async def test_first_batch_that_only_verifies_goes_to_the_handler(
    tmp_path: Path, quick: list[bool]
) -> None:
    """Before version 12 a write adds no partition; the coordinator refuses one that was not."""
    async with broker_with_topics(tmp_path) as (broker, ids):
        writer = await Writer.start(broker, ids["repeated"])
        await writer.add_partition()
        for sequence in range(4):
            assert (await writer.write(sequence, version=11))[0] == ErrorCode.NONE
        assert quick[-1:] == [True]
        await writer.end()
        assert (await writer.write(4, version=11))[0] == ErrorCode.TRANSACTION_ABORTABLE
        assert quick[-1:] == [False]
        await writer.add_partition()
        assert (await writer.write(4, version=11))[0] == ErrorCode.NONE
        assert quick[-1:] == [False]


async def test_first_batch_that_the_log_refuses_gets_the_error_of_the_handler(
    tmp_path: Path, quick: list[bool]
) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        writer = await Writer.start(broker, ids["repeated"])
        for sequence in range(3):
            await writer.write(sequence)
        await writer.end()
        assert (await writer.write(5))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert quick[-1:] == [False]
        assert (await writer.write(3))[0] == ErrorCode.NONE
        assert quick[-1:] == [True]
        await writer.end()
        assert stable(broker) == partition(broker).log_end_offset


async def test_refused_batch_goes_to_the_handler(tmp_path: Path, quick: list[bool]) -> None:
    async with broker_with_topics(tmp_path) as (broker, ids):
        writer = await Writer.start(broker, ids["repeated"])
        for sequence in range(4):
            await writer.write(sequence)
        assert quick[-1:] == [True]
        for refused, sequence, transactional, epoch in (
            (ErrorCode.INVALID_TXN_STATE, 4, False, 0),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 7, True, 0),
            (ErrorCode.INVALID_PRODUCER_EPOCH, 0, True, 1),
        ):
            told = await writer.write(sequence, transactional=transactional, epoch=epoch)
            assert (told[0], quick[-1]) == (refused, False)
        assert await writer.write(3) == (ErrorCode.NONE, 3), "the same again"


def partition(broker: Broker) -> Partition:
    return broker.hosted.led("repeated", 0)


def stable(broker: Broker) -> int:
    return partition(broker).last_stable_offset
