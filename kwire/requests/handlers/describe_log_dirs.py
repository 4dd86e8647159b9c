"""DescribeLogDirs (key 35): v1-5.

Behaviour
- The response has each log directory with its partitions: those of the requested topics, or all for
  a null list.  It leaves out partitions that this broker does not host.
- A failed directory has KAFKA_STORAGE_ERROR and no partitions.
- The offset lag of a log is the distance from its end to the high watermark, 0 for a leader.  The
  lag of a copy that will replace a log (a future log) is the distance to the end of that log.

Version notes: flexible from v2; an error code of the whole response from v3; size and free space of
the volume from v4 (KIP-827); whether a directory is cordoned (KIP-1066) from v5.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.log import Log, LogDir
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, Right(AclOperation.DESCRIBE, ResourceType.CLUSTER))


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse:
    """Return the size, free space and partitions of each log directory of this broker."""
    requested = _requested_partitions(request.topics)
    response = DescribeLogDirsResponse()
    for directory in broker.logs.online_dirs:
        result = DescribeLogDirsResult(
            log_dir=str(directory.path.absolute()),
            is_cordoned=broker.logs.dirs.is_cordoned(directory),
        )
        response.results.append(result)
        try:
            result.total_bytes, result.usable_bytes = directory.disk_usage()
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        logs = broker.logs.dirs.logs_in(directory)
        result.topics = _topics(broker, logs, requested)
        _add_copies(broker, directory, requested, result.topics)
    response.results.extend(
        DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, str(path.absolute()))
        for path in broker.logs.offline_dirs
    )
    return response


def _requested_partitions(
    topics: list[DescribableLogDirTopic] | None,
) -> set[tuple[str, int]] | None:
    """Return the requested (topic, partition) pairs, or None if all are requested."""
    if topics is None:
        return None
    return {(topic.topic, partition) for topic in topics for partition in topic.partitions}


def _topics(
    broker: Broker, logs: Iterable[Log], requested: set[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    """Return the requested `logs` by topic, each with its size and offset lag.

    `requested` is None if all partitions are requested.
    """
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        if requested is not None and (log.topic, log.partition) not in requested:
            continue
        lag = max(0, broker.hosted.high_watermark_of(log) - log.log_end_offset)
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(log.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(log.partition, log.segments.size_bytes, lag)
        )
    return list(topics.values())


def _add_copies(
    broker: Broker,
    directory: LogDir,
    requested: set[tuple[str, int]] | None,
    topics: list[DescribeLogDirsTopic],
) -> None:
    """Add the copies of partitions that are being moved to `directory` (KIP-113)."""
    by_name = {topic.name: topic for topic in topics}
    for key, copy in broker.logs.moves.copies.items():
        if copy.directory is not directory or (requested is not None and key not in requested):
            continue
        name, index = key
        if name not in by_name:
            by_name[name] = DescribeLogDirsTopic(name)
            topics.append(by_name[name])
        lag = broker.logs.moves.offset_lag(key)
        size_bytes = copy.log.segments.size_bytes
        by_name[name].partitions.append(
            DescribeLogDirsPartition(index, size_bytes, lag, is_future_key=True)
        )
