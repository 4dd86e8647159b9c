"""A transactional producer that gets all broker addresses from the test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.coordinators.runtime.cluster import Member

NOW_MS = 1_700_000_000_000


@dataclass
class Producer:
    """One transactional id, and the broker that coordinates it."""

    coordinator: Member
    transactional_id: str = "x"
    id: int = -1
    epoch: int = -1

    async def init(self) -> None:
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        answer = await self.coordinator.ask(request, 4, InitProducerIdResponse)
        assert answer.error_code == ErrorCode.NONE
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    async def add(self, topic: str, indexes: Sequence[int]) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(indexes))],
        )
        answer = await self.coordinator.ask(request, 3, AddPartitionsToTxnResponse)
        (told,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(each.partition_error_code) for each in told.results_by_partition]

    async def produce(
        self, leader: Member, topic: str, index: int = 0, *, version: int = 9
    ) -> ErrorCode:
        """A batch of one record, the first of its transaction in that partition."""
        records = build(
            [Record(0, NOW_MS, None, b"value")],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        request = ProduceRequest(
            self.transactional_id,
            -1,
            15_000,
            [TopicProduceData(topic, b"", [PartitionProduceData(index, records)])],
        )
        answer = await leader.ask(request, version, ProduceResponse)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(self.transactional_id, self.id, self.epoch, commit)
        answer = await self.coordinator.ask(request, 4, EndTxnResponse)
        return ErrorCode(answer.error_code)
