"""DeleteRecords (key 21): v0-2.

Behaviour
- Moves the log start offset of a partition forward; -1 stands for the high watermark.  An offset at
  or before the log start offset changes nothing.  The next retention check deletes the segments
  before the new log start offset.
- OFFSET_OUT_OF_RANGE for an offset above the high watermark or below -1, POLICY_VIOLATION if the
  topic is only compacted (not `compact,delete`), INVALID_TOPIC_EXCEPTION for internal topics.
- The low watermark in the response is the smallest log start offset of the live replicas, -1 with
  an error.  The response waits up to `timeout_ms` until it reaches the requested offset, and has
  REQUEST_TIMED_OUT if it does not.
- If a partition stands twice, the last entry counts.

Version notes: v1 is v0; flexible from v2.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.log import LogError, delete_records
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.topics import by_topic
from kwire.requests.route import Right, Route
from kwire.storage.partitions.partition import Followers

HIGH_WATERMARK = -1

_Waiting = tuple[Followers, int, DeleteRecordsPartitionResult]
"""The followers to wait for, the offset that they must delete up to, and the answer to complete."""

ROUTE = Route(ApiKey.DELETE_RECORDS, 0, 2, Right(AclOperation.DELETE, ResourceType.TOPIC))


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Move the log start offset of each partition, and return the new low watermarks.

    The response waits up to `timeout_ms` for followers.  If a partition stands twice in the
    request, the last offset counts.
    """
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        topic_offsets = offsets.setdefault(topic.name, {})
        topic_offsets.update((data.partition_index, data.offset) for data in topic.partitions)
    waiting: list[_Waiting] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _delete(broker, name, *partition, waiting)
                    for partition in topic_offsets.items()
                ],
            )
            for name, topic_offsets in offsets.items()
            if topic_offsets
        ]
    )
    return _when_deleted(response, waiting, request.timeout_ms) if waiting else response


def _delete(
    broker: Broker, topic: str, index: int, offset: int, waiting: list[_Waiting]
) -> DeleteRecordsPartitionResult:
    """Delete the records of one partition before `offset`; return its result.

    Appends to `waiting` if followers have to delete the records too.
    """
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
    """`response`, once no live replica has the deleted records.

    The wait starts in this call and not with the first `await`: in between another broker may
    become the leader of a partition.
    """
    done = trio.Event()
    left = len(waiting)

    def settle(answer: DeleteRecordsPartitionResult, error: ErrorCode, low_watermark: int) -> None:
        """Set the result of one partition; the last one ends the wait."""
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
    """`response` once `done` is set, or after `timeout_ms`."""
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        await done.wait()
    return response


# -- rights


def guard(access: Access, request: DeleteRecordsRequest, proceed: Proceed) -> Response:
    """Let the handler delete from topics that the sender may delete from; refuse the others."""
    return by_topic(
        access,
        request,
        proceed,
        AclOperation.DELETE,
        lambda topic: DeleteRecordsTopicResult(
            topic.name,
            [
                DeleteRecordsPartitionResult(
                    partition.partition_index, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for partition in topic.partitions
            ],
        ),
    )
