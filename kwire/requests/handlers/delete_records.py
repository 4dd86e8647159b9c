"""DeleteRecords (key 21): v0-2.

Behaviour
- Moves the log start offset of a partition forward; -1 asks for the high watermark.  An offset at
  or before the log start offset changes nothing.  Segments that are all before it go with the next
  retention check.
- OFFSET_OUT_OF_RANGE for an offset behind the high watermark or below -1, POLICY_VIOLATION where
  records are only compacted (not `compact,delete`), INVALID_TOPIC_EXCEPTION for the coordinators'
  own topics.
- The low watermark answered is the smallest log start offset of the live replicas, -1 after an
  error.  The reply waits until it is the offset asked for, for `timeout_ms` at most: then
  REQUEST_TIMED_OUT.
- A partition named twice is handled once, as it is named last.

Version notes: v1 is v0; flexible from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.log import LogError, delete_records
from kwire.requests.context import Context
from kwire.storage.partitions.partition import Followers

HIGH_WATERMARK = -1

_Waiting = tuple[Followers, int, DeleteRecordsPartitionResult]
"""Who knows when, for which offset, and the answer to settle."""


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        asked = offsets.setdefault(topic.name, {})
        asked.update((each.partition_index, each.offset) for each in topic.partitions)
    waiting: list[_Waiting] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _delete(broker, name, *partition, waiting) for partition in asked.items()
                ],
            )
            for name, asked in offsets.items()
            if asked
        ]
    )
    return _when_deleted(response, waiting, request.timeout_ms) if waiting else response


def _delete(
    broker: Broker, topic: str, index: int, offset: int, waiting: list[_Waiting]
) -> DeleteRecordsPartitionResult:
    try:
        partition = broker.hosted.led(topic, index)
        if topic in INTERNAL_TOPICS:
            raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        high_watermark = partition.high_watermark
        if offset == HIGH_WATERMARK:
            offset = high_watermark
        low_watermark = delete_records(partition.log, offset, high_watermark)
    except LogError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=error.error
        )
    answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
    if partition.leading is not None:
        waiting.append((partition.leading, offset, answer))
    return answer


def _when_deleted(
    response: DeleteRecordsResponse, waiting: list[_Waiting], timeout_ms: int
) -> Awaitable[DeleteRecordsResponse]:
    """`response`, once no live replica has what was deleted.

    It is waited for from now on: the next to come may take the partition from this broker.
    """
    done = trio.Event()
    left = len(waiting)

    def settle(answer: DeleteRecordsPartitionResult, error: ErrorCode, low_watermark: int) -> None:
        nonlocal left
        answer.error_code, answer.low_watermark = error, low_watermark
        left -= 1
        if left == 0:
            done.set()

    for leading, offset, answer in waiting:
        answer.error_code, answer.low_watermark = ErrorCode.REQUEST_TIMED_OUT, -1
        leading.when_deleted(offset, partial(settle, answer))
    return _within(timeout_ms, done, response)


async def _within(
    timeout_ms: int, done: trio.Event, response: DeleteRecordsResponse
) -> DeleteRecordsResponse:
    """`response` as it is once `done` is set, or after that time."""
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        await done.wait()
    return response
