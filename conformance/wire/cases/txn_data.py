"""Batches, offsets and markers of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.codecs.primitives import Records
from kwire.conformance.wire.broker import CaseTopic, NotReady
from kwire.conformance.wire.cases.build import TIMEOUT_MS, batch
from kwire.conformance.wire.cases.txn import CaseProducer
from kwire.conformance.wire.stage import Stage

IMPLICIT = 12
"""The first version of Produce that adds partitions to the transaction by itself."""


def txn_batch(
    stage: Stage,
    producer: CaseProducer,
    sequence: int = 0,
    *values: bytes,
    **options: Any,  # noqa: ANN401 - build's
) -> bytearray:
    """Build a batch of the producer's transaction, with one record if no values are given."""
    return batch(
        stage,
        *(values or (b"v",)),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        **{"transactional": True} | options,
    )


def txn_produce(
    transactional_id: str | None,
    topic: CaseTopic,
    batches: Mapping[int, Records | None],
    acks: int = -1,
) -> ProduceRequest:
    """Return a Produce request with these batches by partition of one topic."""
    data = [PartitionProduceData(index, records) for index, records in batches.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(topic.name, topic.id, data)],
    )


def append_batch(
    stage: Stage,
    producer: CaseProducer,
    topic: CaseTopic,
    sequence: int = 0,
    *values: bytes,
    partition: int = 0,
) -> None:
    """Append a batch of the producer's transaction; raise NotReady if the broker refuses."""
    records = txn_batch(stage, producer, sequence, *values)
    request = txn_produce(producer.transactional_id, topic, {partition: records})
    answer = stage.ask(request).responses[0].partition_responses[0]
    if answer.error_code:
        raise NotReady(f"produce to {topic.name}: {ErrorCode(answer.error_code).name}")


def marker(
    producer: CaseProducer,
    partitions: dict[str, list[int]],
    *,
    commit: bool = True,
    coordinator_epoch: int = 0,
    version: int = 1,
) -> WritableTxnMarker:
    """Build a marker; `version` is the transaction's, and decides whether KIP-890 applies."""
    return WritableTxnMarker(
        producer.producer_id,
        producer.epoch,
        commit,
        [WritableTxnMarkerTopic(*item) for item in partitions.items()],
        coordinator_epoch,
        version,
    )


def write_markers(*markers: WritableTxnMarker) -> WriteTxnMarkersRequest:
    """Return a WriteTxnMarkers request with these markers."""
    return WriteTxnMarkersRequest([*markers])


def txn_commit(
    producer: CaseProducer,
    group_id: str,
    topic: CaseTopic,
    offset: int = 5,
    *,
    partition: int = 0,
    metadata: str | None = "note",
    **member: Any,  # noqa: ANN401 - the request's fields
) -> TxnOffsetCommitRequest:
    """Return a TxnOffsetCommit of one partition in the producer's transaction."""
    place = TxnOffsetCommitRequestPartition(partition, offset, -1, metadata)
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(topic.name, topic.id, [place])],
        **member,
    )


def add_group(stage: Stage, producer: CaseProducer, group_id: str) -> None:
    """Add the group to the producer's transaction; raise NotReady if the broker refuses."""
    request = AddOffsetsToTxnRequest(
        producer.transactional_id, producer.producer_id, producer.epoch, group_id
    )
    reply = stage.ask(request, 3)
    if reply.error_code:
        raise NotReady(f"offsets of {group_id}: {ErrorCode(reply.error_code).name}")
