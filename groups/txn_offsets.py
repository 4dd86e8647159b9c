"""TxnOffsetCommit: the offsets that a transaction commits, as records and as an answer."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.groups.offsets import NO_EXPIRY, exceeds
from kwire.groups.records import OffsetCommit


def commit(
    request: TxnOffsetCommitRequest, metadata_max_bytes: int, now_ms: int
) -> tuple[list[OffsetCommit], TxnOffsetCommitResponse]:
    """The records of a commit that was found valid, and its answer."""
    records = []
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if exceeds(metadata, metadata_max_bytes):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                answers.append(TxnOffsetCommitResponsePartition(index, error))
                continue
            answers.append(TxnOffsetCommitResponsePartition(index, 0))
            records.append(
                OffsetCommit(
                    OffsetCommitKey(request.group_id, topic.name, index),
                    OffsetCommitValue(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        expire_timestamp=NO_EXPIRY,
                    ),
                )
            )
        topics.append(TxnOffsetCommitResponseTopic(topic.name, answers))
    return records, TxnOffsetCommitResponse(topics=topics)


def commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [
                    TxnOffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
