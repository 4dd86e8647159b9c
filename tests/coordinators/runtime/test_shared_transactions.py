"""Transactions that end in requests which a broker serves together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

import kwire.requests.handlers.end_txn  # noqa: F401 - else the first request waits for a thread
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
from kwire.log import Log, MarkerBatch, append_markers
from tests.inside import PATIENCE_S, RawClient, running_broker

PARTITIONS = 3


async def produced(client: RawClient, name: str, producer: InitProducerIdResponse) -> None:
    records = build(
        [Record(0, 1, None, b"v")],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = [PartitionProduceData(index, records) for index in range(PARTITIONS)]
    request = ProduceRequest(name, -1, 9_000, [TopicProduceData("t", partition_data=data)])
    response = await client.ask(request, 12, ProduceResponse)
    assert {p.error_code for p in response.responses[0].partition_responses} == {0}


async def coordinated(client: RawClient, name: str) -> InitProducerIdResponse:
    """A producer id, once the coordinator of the transactional id serves."""
    find = FindCoordinatorRequest(key=name, key_type=1)
    with trio.fail_after(PATIENCE_S):
        while True:
            await client.ask(find, 3, FindCoordinatorResponse)
            answer = await client.ask(
                InitProducerIdRequest(name, 60_000), 4, InitProducerIdResponse
            )
            if answer.error_code == ErrorCode.NONE:
                return answer
            await trio.sleep(0.01)


def ends(broker: Broker) -> list[tuple[int, int]]:
    """Log end offset and last stable offset of each partition."""
    partitions = [broker.hosted.led("t", index) for index in range(PARTITIONS)]
    return [(partition.log_end_offset, partition.last_stable_offset) for partition in partitions]


async def test_transactions_that_end_together_have_their_markers_before_the_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker's loop stands still while the requests arrive, so it serves them in one group."""
    sizes: list[int] = []

    def counted(log: Log, markers: Sequence[MarkerBatch], **arguments: int) -> list[ErrorCode]:
        sizes.append(len(markers))
        return append_markers(log, markers, **arguments)

    monkeypatch.setattr("kwire.storage.partitions.partition.append_markers", counted)
    async with running_broker(tmp_path) as broker:
        clients = [await RawClient.connect(broker) for _ in range(3)]
        topics = CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)])
        await clients[0].ask(topics, 5, CreateTopicsResponse)
        names = [f"x{number}" for number in range(3)]
        producers = [
            await coordinated(client, name) for client, name in zip(clients, names, strict=True)
        ]
        for epoch in range(2):  # the second transaction would be refused before the first's end
            for client, name, producer in zip(clients, names, producers, strict=True):
                await produced(client, name, producer)
            assert ends(broker) == [(6 * epoch + 3, 6 * epoch)] * PARTITIONS
            for client, name, producer in zip(clients, names, producers, strict=True):
                request = EndTxnRequest(
                    name, producer.producer_id, producer.producer_epoch, committed=True
                )
                os.write(client.stream.socket.fileno(), client.frame(request, 5))
            for client, producer in zip(clients, producers, strict=True):
                _, reply = await client.receive(EndTxnResponse, 5)
                assert reply.error_code == ErrorCode.NONE
                producer.producer_epoch = reply.producer_epoch
            assert ends(broker) == [(6 * epoch + 6, 6 * epoch + 6)] * PARTITIONS
    assert sizes == [3] * PARTITIONS * 2
