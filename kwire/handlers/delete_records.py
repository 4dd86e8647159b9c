"""DeleteRecords (key 21): v0-2.

Behaviour
- Moves the log start offset of a partition forward; -1 asks for the high watermark.  An offset at
  or before the log start offset changes nothing.  Segments that are all before it go with the next
  retention check.
- OFFSET_OUT_OF_RANGE for an offset behind the high watermark or below -1, POLICY_VIOLATION where
  records are only compacted (not `compact,delete`), INVALID_TOPIC_EXCEPTION for the coordinators'
  own topics.
- The low watermark answered is the smallest log start offset of the replicas, -1 after an error.
  This broker's is the only one, so there is nothing to wait for until `timeout_ms`.
- A partition named twice is handled once, as it is named last.

Version notes: v1 is v0; flexible from v2.
"""

from __future__ import annotations

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.context import Context
from kwire.log import LogError, delete_records
from kwire.metadata.topic_names import INTERNAL_TOPICS

HIGH_WATERMARK = -1


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse:
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        asked = offsets.setdefault(topic.name, {})
        asked.update((each.partition_index, each.offset) for each in topic.partitions)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[_delete(broker, name, *partition) for partition in asked.items()],
            )
            for name, asked in offsets.items()
            if asked
        ]
    )


def _delete(broker: Broker, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        partition = broker.led_partition(topic, index)
        if topic in INTERNAL_TOPICS:
            raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        high_watermark = partition.high_watermark
        low_watermark = delete_records(
            partition.log, high_watermark if offset == HIGH_WATERMARK else offset, high_watermark
        )
    except LogError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=error.error
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
