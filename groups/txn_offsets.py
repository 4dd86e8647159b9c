"""TxnOffsetCommit: the records and the response of offsets committed in a transaction."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.groups.offset_record import OffsetCommit, OffsetKey
from kwire.groups.offsets import committed_of, exceeds

NEW_ERRORS_SINCE = 6
"""The version of TxnOffsetCommit since which clients know GROUP_ID_NOT_FOUND and
STALE_MEMBER_EPOCH (KIP-1319)."""


def commit(
    request: TxnOffsetCommitRequest, metadata_max_bytes: int, now_ms: int
) -> tuple[list[OffsetCommit], TxnOffsetCommitResponse]:
    """The records of a validated commit, and its response."""
    records = []
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            if exceeds(partition.committed_metadata, metadata_max_bytes):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                answers.append(TxnOffsetCommitResponsePartition(index, error))
                continue
            answers.append(TxnOffsetCommitResponsePartition(index, 0))
            key = OffsetKey(request.group_id, topic.name, index)
            committed = committed_of(partition, now_ms, topic_id=topic.topic_id)
            records.append(OffsetCommit(key, committed))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
    return records, TxnOffsetCommitResponse(topics=topics)


def commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the response in which each partition of the request has `error`."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    TxnOffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
