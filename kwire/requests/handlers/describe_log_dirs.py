"""DescribeLogDirs (key 35): v1-5.

Behaviour
- Each log directory with the partitions in it, of all topics for a null list, else of those asked
  for; what is not here is not mentioned.
- A directory that failed is KAFKA_STORAGE_ERROR and tells no partitions.
- The offset lag is how far the log is behind the high watermark: 0 for a leader; of a copy that is
  to take its place (a future log) how far it is behind the log.

Version notes: flexible from v2; an error code of the whole from v3; the size of the volume and what
is left of it from v4 (KIP-827); v5 tells cordoned directories, of which there are none.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.broker.broker import Broker
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


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse:
    wanted = _wanted(request.topics)
    response = DescribeLogDirsResponse()
    for directory in broker.logs.online_dirs:
        result = DescribeLogDirsResult(log_dir=str(directory.path.absolute()))
        response.results.append(result)
        try:
            result.total_bytes, result.usable_bytes = directory.disk_usage()
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            continue
        logs = broker.logs.dirs.logs_in(directory)
        result.topics = _topics(broker, logs, wanted)
        _add_copies(broker, directory, wanted, result.topics)
    response.results.extend(
        DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, str(path.absolute()))
        for path in broker.logs.offline_dirs
    )
    return response


def _wanted(topics: list[DescribableLogDirTopic] | None) -> set[tuple[str, int]] | None:
    if topics is None:
        return None
    return {(topic.topic, partition) for topic in topics for partition in topic.partitions}


def _topics(
    broker: Broker, logs: Iterable[Log], wanted: set[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        if wanted is not None and (log.topic, log.partition) not in wanted:
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
    wanted: set[tuple[str, int]] | None,
    topics: list[DescribeLogDirsTopic],
) -> None:
    """Partitions that are being moved here, and how far their copies are behind (KIP-113)."""
    by_name = {topic.name: topic for topic in topics}
    for key, copy in broker.logs.moves.copies.items():
        if copy.directory is not directory or (wanted is not None and key not in wanted):
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
