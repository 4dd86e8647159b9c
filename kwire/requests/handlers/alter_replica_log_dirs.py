"""AlterReplicaLogDirs (key 34): v1-2.

Behaviour
- Begins to copy partitions to another log directory of this broker.  A complete copy replaces the
  original.  The response does not wait for that; DescribeLogDirs shows the progress.
- If the partition is already in the directory, nothing is copied, and a move under way is
  cancelled.
- LOG_DIR_NOT_FOUND for a path that is not in `log.dirs`, KAFKA_STORAGE_ERROR for an offline one,
  UNKNOWN_TOPIC_OR_PARTITION for a partition that this broker does not host.
- If a partition stands twice, the last entry counts.

Version notes: v1 is the first; flexible from v2.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.log import LogError
from kwire.requests.context import Context
from kwire.requests.guards.base import Request
from kwire.requests.route import Right, Route

ROUTE = Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, Right(AclOperation.ALTER, ResourceType.CLUSTER))


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse:
    """Begin to move each partition to its directory; return one error code per partition.

    If a partition stands twice in the request, the last directory counts.
    """
    target_paths: dict[tuple[str, int], str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            target_paths.update(((topic.name, index), directory.path) for index in topic.partitions)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in target_paths.items():
        result = results.setdefault(name, AlterReplicaLogDirTopicResult(name))
        error = _move(broker, name, index, path)
        result.partitions.append(AlterReplicaLogDirPartitionResult(index, error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    """Begin to move one partition to the directory at `path`; return the error code.

    The directory is checked before the partition, as in Apache Kafka.
    """
    moves = broker.logs.moves
    try:
        if broker.logs.dirs.is_cordoned(moves.directory_at(path)):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if broker.hosted.get(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        moves.move((topic, index), path)
    except LogError as error:
        return error.error
    return ErrorCode.NONE


# -- rights


def refuse(
    request: Request,
    error: ErrorCode,
    version: int,
    message: str,
) -> AlterReplicaLogDirsResponse:
    """Return the response with `error` for each partition of the request, once per partition."""
    partitions: dict[str, dict[int, None]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                name, [AlterReplicaLogDirPartitionResult(index, error) for index in indexes]
            )
            for name, indexes in partitions.items()
        ]
    )
