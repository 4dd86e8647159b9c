"""ListOffsets (key 2): v1-11.

Behaviour
- The answer is the first record whose timestamp is at least the requested one.  If there is none,
  for example in an empty partition, offset and timestamp are -1 and there is no error.
- A negative timestamp stands for an offset of the log:

      -1  latest           the high watermark, or with read_committed the last stable offset
      -2  earliest         the log start offset
      -3  max timestamp    the first record that has the largest timestamp (v7, KIP-734)
      -4  earliest local   as earliest: this broker has no tiered storage (v8, KIP-405)
      -5  latest tiered    -1: it has no tiered storage (v9, KIP-1005)
      -6  earliest pending upload   -1: it has no tiered storage (v11, KIP-1023)

  In a version before the one in brackets, and for any other negative number, the answer is
  UNSUPPORTED_VERSION, whether or not the partition exists.  Only -3 and timestamps of 0 and above
  give a timestamp in the answer.
- Records that the client may not read yet are not found.  The isolation level restricts clients
  (replica id -1) only.
- The debugging replica (-2) also reads from followers, and up to the log end offset.
  `kwire cluster status` uses this to show how far followers are behind.
- The leader epoch is that of the record, for -1 the current one, and -1 if no record is found.
- A new leader whose followers have not caught up does not know its high watermark yet.  Until then
  the latest offset, and a timestamp without a record, give OFFSET_NOT_AVAILABLE (before v5
  LEADER_NOT_AVAILABLE).
- If the request has a partition twice, the response has it once, with INVALID_REQUEST.  An unknown
  isolation level gives UNKNOWN_SERVER_ERROR for all partitions, as in Apache Kafka.

Version notes: isolation level from v2; leader epochs from v4; flexible from v6; the timeout of v10
is for reads from tiered storage and has no effect.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
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
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.topics import by_topic
from kwire.requests.route import Right, Route
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
"""The first version that has each negative timestamp."""

LEADER_EPOCH_SINCE = 4
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
DEBUGGING = -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NOT_FOUND = TimestampOffset(-1, -1, -1)

ROUTE = Route(ApiKey.LIST_OFFSETS, 1, 11, Right(AclOperation.DESCRIBE, ResourceType.TOPIC))


def handle(broker: Broker, request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Return an offset and timestamp (ms) for each partition, or its error.

    A partition that stands twice in the request gets INVALID_REQUEST.
    """
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        topic_answers = answers.setdefault(topic.name, {})
        for requested in topic.partitions:
            index = requested.partition_index
            if index in topic_answers:
                topic_answers[index] = _failure(requested, ErrorCode.INVALID_REQUEST)
                continue
            try:
                answer = _answer(broker, topic.name, requested, request, context.api_version)
            except LogError as error:
                answer = _failure(requested, _error_for_version(context.api_version, error.error))
            topic_answers[index] = answer
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(topic_answers.values()))
            for name, topic_answers in answers.items()
            if topic_answers
        ]
    )


def _answer(
    broker: Broker,
    topic: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
) -> ListOffsetsPartitionResponse:
    """Return the offset of one partition for the requested timestamp; LogError if there is none.

    Only a debugging request (replica id -2) may read a follower.
    """
    if not READ_UNCOMMITTED <= request.isolation_level <= READ_COMMITTED:
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if requested.timestamp < 0 and SINCE.get(requested.timestamp, version + 1) > version:
        raise LogError(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.hosted.get(topic, requested.partition_index)
    if partition is None or request.replica_id != DEBUGGING:
        partition = broker.hosted.led(topic, requested.partition_index)
    found = place_of(partition, requested, request)
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_SINCE else -1,
    )


def place_of(
    partition: Partition, requested: ListOffsetsPartition, request: ListOffsetsRequest
) -> TimestampOffset:
    """The offset in `partition` for the requested timestamp; LogError if it must not be read."""
    if request.replica_id != DEBUGGING:
        partition.check_leads()
    partition.log.check_online()
    if requested.current_leader_epoch != -1:
        partition.check_leader_epoch(requested.current_leader_epoch)
    found = _look_up(partition, requested.timestamp, _end(partition, request))
    if partition.leading is not None and request.replica_id == CONSUMER:
        _check_not_lagging(partition, requested, found)
    return found


def _check_not_lagging(
    partition: Partition, requested: ListOffsetsPartition, found: TimestampOffset
) -> None:
    """Raise LogError while a new leader does not know its high watermark yet (KIP-207).

    The leader before may have reported a higher offset to the client than this one would.
    """
    assert partition.leading is not None
    if partition.leading.is_lagging and (requested.timestamp == LATEST or found is NOT_FOUND):
        raise LogError(ErrorCode.OFFSET_NOT_AVAILABLE)


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """The offset up to which the sender may see records."""
    if request.replica_id != CONSUMER:
        return partition.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _look_up(partition: Partition, timestamp: int, end: int) -> TimestampOffset:
    """Return the offset before `end` for `timestamp`, or the log's offset that it stands for.

    NOT_FOUND if no record matches.  Nothing is tiered: this broker has no remote storage.
    """
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


def _error_for_version(version: int, error: ErrorCode) -> ErrorCode:
    """Return the error as clients of the version know it.

    Old clients do not know OFFSET_NOT_AVAILABLE; LEADER_NOT_AVAILABLE makes them retry, too.
    """
    if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error


def _failure(requested: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=error)


# -- rights


def guard(access: Access, request: ListOffsetsRequest, proceed: Proceed) -> Response:
    """Let the handler answer for topics that the sender may describe; refuse the others."""
    return by_topic(
        access,
        request,
        proceed,
        AclOperation.DESCRIBE,
        lambda topic: ListOffsetsTopicResponse(
            topic.name,
            [
                ListOffsetsPartitionResponse(
                    partition.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for partition in topic.partitions
            ],
        ),
    )
