"""ListOffsets (key 2): v1-11.

Behaviour
- The first record whose timestamp is at least the one asked for; offset and timestamp -1 where
  there is none, which is no error (an empty partition least of all).
- Negative timestamps ask for a place instead:

      -1  latest           the high watermark, or with read_committed the last stable offset
      -2  earliest         the log start offset
      -3  max timestamp    the first record that has the largest timestamp (v7, KIP-734)
      -4  earliest local   as earliest, as nothing is in tiered storage (v8, KIP-405)
      -5  latest tiered    -1: nothing is there (v9, KIP-1005)
      -6  earliest pending upload   -1: nothing is going there (v11, KIP-1023)

  In a version before its own, and for any other negative number, UNSUPPORTED_VERSION, whether or
  not the partition exists.  Timestamps are given back by -3 and real times only.
- A record that the client may not read yet is not found.  Only clients (replica -1) are held back
  by their isolation level.
- The debugging replica (-2) is told of a replica that does not lead, too, and of all of its log:
  `kwire cluster status` knows by that how far followers are behind.
- The leader epoch is that of the record, or for -1 the current one, -1 where nothing was found.
- A new leader that waits for its followers does not know yet how far its log counts: the latest
  offset, and a time after all that counts, are OFFSET_NOT_AVAILABLE (before v5
  LEADER_NOT_AVAILABLE).
- A partition asked for twice is told once, with INVALID_REQUEST.  An isolation level that does not
  exist is UNKNOWN_SERVER_ERROR for all partitions, as it is with Apache Kafka.

Version notes: isolation level from v2; leader epochs from v4; flexible from v6; v10's timeout is
for reads from tiered storage and has nothing to wait for here.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.log import (
    LogError,
    TimestampOffset,
    epoch_for,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.requests.context import Context
from kwire.storage.partitions.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which a special timestamp may be asked for."""

LEADER_EPOCH_SINCE = 4
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
DEBUGGING = -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NOT_FOUND = TimestampOffset(-1, -1, -1)


def handle(broker: Broker, request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        told = answers.setdefault(topic.name, {})
        for asked in topic.partitions:
            index = asked.partition_index
            if index in told:
                told[index] = _failure(asked, ErrorCode.INVALID_REQUEST)
                continue
            try:
                told[index] = _answer(broker, topic.name, asked, request, context.api_version)
            except LogError as error:
                told[index] = _failure(asked, _known_to(context.api_version, error.error))
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(told.values()))
            for name, told in answers.items()
            if told
        ]
    )


def _answer(
    broker: Broker,
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
) -> ListOffsetsPartitionResponse:
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if asked.timestamp < 0 and SINCE.get(asked.timestamp, version + 1) > version:
        raise LogError(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.hosted.get(topic, asked.partition_index)
    if partition is None or request.replica_id != DEBUGGING:
        partition = broker.hosted.led(topic, asked.partition_index)
    found = place_of(partition, asked, request)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else -1,
    )


def place_of(
    partition: Partition, asked: ListOffsetsPartition, request: ListOffsetsRequest
) -> TimestampOffset:
    """What is found in `partition` for a timestamp of this version; LogError if nobody may know."""
    if request.replica_id != DEBUGGING:
        partition.check_leads()
    partition.log.check_online()
    if asked.current_leader_epoch != -1:
        partition.check_leader_epoch(asked.current_leader_epoch)
    found = _look_up(partition, asked.timestamp, _end(partition, request))
    if partition.leading is not None and request.replica_id == CONSUMER:
        _check_not_lagging(partition, asked, found)
    return found


def _check_not_lagging(
    partition: Partition, asked: ListOffsetsPartition, found: TimestampOffset
) -> None:
    """LogError while a new leader does not know yet how much of its log counts (KIP-207).

    An older leader may have told a client of more than this one can vouch for.
    """
    assert partition.leading is not None
    if partition.leading.is_lagging and (asked.timestamp == LATEST or found is NOT_FOUND):
        raise LogError(ErrorCode.OFFSET_NOT_AVAILABLE)


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where what may be told ends."""
    if request.replica_id != CONSUMER:
        return partition.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _look_up(partition: Partition, timestamp: int, end: int) -> TimestampOffset:
    log = partition.log
    if timestamp == LATEST:
        return TimestampOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        epoch = epoch_for(log, start)
        return TimestampOffset(-1, start, -1 if epoch is None else epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        found = max_timestamp_offset(log)
    else:
        found = offset_for_timestamp(log, timestamp)
    return NOT_FOUND if found is None or found.offset >= end else found


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error


def _failure(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)
