"""Counts what Produce and Fetch do with topics, by their responses.

Appends are counted by the partitions (kwire.server.metrics.partition); a response tells which
partitions were refused, and what was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.codecs.errors import ErrorCode
from kwire.log import Region
from kwire.log.validator import WITHOUT_KEY
from kwire.requests.handlers.fetching.fetch import TOPIC_IDS_SINCE as FETCH_BY_ID_SINCE
from kwire.server.metrics.meters import FETCH_FOLLOWER
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE as PRODUCE_BY_ID_SINCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.codecs.messages.fetch import FetchResponse
    from kwire.codecs.messages.produce import (
        BatchIndexAndErrorMessage,
        PartitionProduceResponse,
        ProduceRequest,
        ProduceResponse,
        TopicProduceResponse,
    )
    from kwire.codecs.messages.share_fetch import ShareFetchResponse
    from kwire.codecs.primitives import Records
    from kwire.server.metrics.meters import Meters, RequestMeter

    NameOf = Callable[[bytes], str | None]
    """Returns the name of a topic by its id, or None for an unknown id."""

_BUFFERS: Final = (bytes, bytearray, memoryview)

_STALE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        # Refused before anything was appended or read.
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

_NO_FAILED_PRODUCE: Final = _STALE | {
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
}
"""Errors that Apache Kafka counts as no failed produce request (appendToLocalLog)."""

_NO_FAILED_FETCH: Final = _STALE | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.OFFSET_OUT_OF_RANGE,
}
"""Errors that it counts as no failed fetch request (readFromLog)."""

_UNSEEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors of topics that may not exist: no meter is made for the names that clients ask for."""


def count_produce(
    meters: Meters,
    request_meter: RequestMeter,
    request: ProduceRequest,
    response: ProduceResponse,
    version: int,
    name_of: NameOf,
) -> None:
    """Count the error codes, and the partitions whose batch was refused."""
    fine = 0
    for topic in response.responses:
        for partition in topic.partition_responses:
            code = partition.error_code
            if not code:
                fine += 1
                continue
            request_meter.errors[code] += 1
            name = topic.name if version < PRODUCE_BY_ID_SINCE else name_of(topic.topic_id)
            if code not in _UNSEEN and name is not None:
                _count_refused(meters, name, request, topic, partition)
    if fine:
        request_meter.errors[0] += fine


def _count_refused(
    meters: Meters,
    name: str,
    request: ProduceRequest,
    topic: TopicProduceResponse,
    partition: PartitionProduceResponse,
) -> None:
    """Count a partition of the topic `name` whose batch was refused."""
    meter, code = meters.topic(name), partition.error_code
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        meter.bytes_rejected += _size_of(request, topic.name, topic.topic_id, partition.index)
    if code == ErrorCode.CORRUPT_MESSAGE:
        meters.corrupt_batches += 1
    elif partition.record_errors:
        meters.records_without_key += sum(map(_lacks_key, partition.record_errors))
    meter.produce_requests += 1
    if code not in _NO_FAILED_PRODUCE:
        meter.failed_produce_requests += 1


def _lacks_key(record: BatchIndexAndErrorMessage) -> bool:
    return (record.batch_index_error_message or "").startswith(WITHOUT_KEY)


def _size_of(request: ProduceRequest, name: str, topic_id: bytes, index: int) -> int:
    """The bytes of a partition's batch in the request."""
    return sum(
        _bytes_of(data.records)
        for topic in request.topic_data
        if topic.name == name and topic.topic_id == topic_id
        for data in topic.partition_data
        if data.index == index
    )


def _bytes_of(records: Records | None) -> int:
    """The size of records, which may be a region of a file."""
    if records is None:
        return 0
    return len(records) if isinstance(records, _BUFFERS) else records.size_bytes


def count_fetch(
    meters: Meters,
    request_meter: RequestMeter,
    response: FetchResponse,
    version: int,
    name_of: NameOf,
) -> None:
    """Count the error codes, the partitions that were fetched, and the bytes of their records.

    `request_meter` is that of consumers' or of followers' fetches.
    """
    errors = request_meter.errors
    errors[response.error_code] += 1
    for topic in response.responses:
        partitions = topic.partitions
        size_bytes = failed = unseen = 0
        for partition in partitions:
            code, records = partition.error_code, partition.records
            errors[code] += 1
            if isinstance(records, Region):
                size_bytes += records.size_bytes
            elif records is not None:
                size_bytes += _bytes_of(records)
            if code:
                failed += code not in _NO_FAILED_FETCH
                unseen += code in _UNSEEN
        name = topic.topic if version < FETCH_BY_ID_SINCE else name_of(topic.topic_id)
        if name is None or unseen == len(partitions):
            continue
        meter = meters.topic(name)
        meter.fetch_requests += len(partitions)
        meter.failed_fetch_requests += failed
        if request_meter.name == FETCH_FOLLOWER:
            meter.replication_bytes_out += size_bytes
        else:
            meter.bytes_out += size_bytes


def count_share_fetch(meters: Meters, response: ShareFetchResponse, name_of: NameOf) -> None:
    """Count the bytes of the records that a member of a share group gets."""
    for topic in response.responses:
        size_bytes = sum(_bytes_of(partition.records) for partition in topic.partitions)
        name = name_of(topic.topic_id) if size_bytes else None
        if name is not None:
            meters.topic(name).bytes_out += size_bytes
