"""Produce (key 0): v3-13.

Behaviour
- Each partition's batch is checked, stamped with its offsets in place and appended; partitions
  fail one by one, with their own error code, message and record errors.
- acks=1 answers after the append, acks=-1 once every in-sync replica has it, acks=0 never: an
  error then closes the connection, since the client has no other way to learn of it.
- Any other acks is INVALID_REQUIRED_ACKS for every partition.
- Topics are not created by Produce; clients ask for that with Metadata.
- A partition named twice is written twice and answered once, with the last result.
- A transactional batch without a transactional id is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and one
  whose id the transaction coordinator does not know INVALID_PRODUCER_ID_MAPPING: that is every id,
  since this broker hands out none.
- Null records, on which Kafka never answers (it fails inside), are INVALID_RECORD here.

Version notes: zstd from v7; record errors and messages from v8; flexible from v9; leaders of moved
partitions from v10; topics by id instead of name from v13.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NoReturn

import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.context import CloseConnection, Context
from kwire.log import AppendResult, LogError
from kwire.partition import Partition

if TYPE_CHECKING:
    from kwire.broker import Broker

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
_ATTRIBUTES_LOW_BYTE = 22  # of a v2 batch
_HEADER_SIZE_BYTES = 61
_COMPRESSION_MASK, _ZSTD, _TRANSACTIONAL = 0x07, 4, 0x10


def handle(
    broker: Broker, request: ProduceRequest, context: Context
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    acks = request.acks
    if not -1 <= acks <= 1:
        return _refuse_acks(request)
    now_ms = broker.now_ms()
    version = context.api_version
    uncommitted: list[tuple[Partition, int, PartitionProduceResponse]] = []
    topics = []
    failed = False
    for topic in request.topic_data:
        name = topic.name if version < TOPIC_IDS_SINCE else broker.topic_name(topic.topic_id)
        hosted = broker.partitions.get(name) if name is not None else None
        answers = []
        for data in topic.partition_data:
            partition = hosted.get(data.index) if hosted is not None else None
            if partition is None:
                answer = _failure(data, LogError(_unknown(version)))
            else:
                try:
                    result = _append(partition, data, request, version, now_ms)
                except LogError as error:
                    answer = _failure(data, error)
                else:
                    answer = _success(data, result)
                    if acks == -1 and result.last_offset >= partition.high_watermark:
                        uncommitted.append((partition, result.last_offset + 1, answer))
            failed = failed or answer.error_code != 0
            answers.append(answer)
        if len(answers) > 1:
            answers = list({answer.index: answer for answer in answers}.values())
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    if acks == 0:
        if failed:
            _close(topics)
        return None
    response = ProduceResponse(responses=topics)
    if uncommitted:
        return _when_replicated(response, uncommitted, request.timeout_ms)
    return response


def _append(
    partition: Partition,
    data: PartitionProduceData,
    request: ProduceRequest,
    version: int,
    now_ms: int,
) -> AppendResult:
    records = data.records
    if not isinstance(records, memoryview) or len(records) < _HEADER_SIZE_BYTES:
        raise LogError(ErrorCode.INVALID_RECORD)
    attributes = records[_ATTRIBUTES_LOW_BYTE]
    if attributes & _TRANSACTIONAL:
        if request.transactional_id is None:
            raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        raise LogError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version < ZSTD_SINCE and attributes & _COMPRESSION_MASK == _ZSTD:
        raise LogError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return partition.append(records, now_ms=now_ms, required_acks=request.acks)


def _success(data: PartitionProduceData, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        data.index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
    )


def _failure(data: PartitionProduceData, error: LogError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=data.index,
        error_code=error.error,
        base_offset=-1,
        log_start_offset=error.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ],
        error_message=error.message,
    )


def _unknown(version: int) -> ErrorCode:
    if version >= TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refuse_acks(request: ProduceRequest) -> ProduceResponse:
    error = LogError(ErrorCode.INVALID_REQUIRED_ACKS)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_failure(data, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


def _close(topics: list[TopicProduceResponse]) -> NoReturn:
    """End an acks=0 connection on which something failed: that is all its client can see."""
    failures = ", ".join(
        f"{topic.name}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for topic in topics
        for answer in topic.partition_responses
        if answer.error_code
    )
    raise CloseConnection(f"produce with acks=0 failed ({failures})")


async def _when_replicated(
    response: ProduceResponse,
    uncommitted: list[tuple[Partition, int, PartitionProduceResponse]],
    timeout_ms: int,
) -> ProduceResponse:
    """Park until every in-sync replica has the batches, or answer REQUEST_TIMED_OUT for the rest."""
    done = trio.Event()
    waiting = len(uncommitted)

    def settle(answer: PartitionProduceResponse, error: ErrorCode) -> None:
        nonlocal waiting
        answer.error_code = error
        waiting -= 1
        if waiting == 0:
            done.set()

    for partition, offset, answer in uncommitted:
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        partition.when_replicated(offset, lambda error, answer=answer: settle(answer, error))
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        await done.wait()
    return response
