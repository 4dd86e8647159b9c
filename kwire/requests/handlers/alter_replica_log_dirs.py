"""AlterReplicaLogDirs (key 34): v1-2.

Behaviour
- Has partitions copied to another log directory of this broker; once a copy has everything it is
  served instead.  The answer does not wait for that: DescribeLogDirs tells how far it is.
- The directory that has the partition already: nothing happens, and a move that is under way ends.
- LOG_DIR_NOT_FOUND for a path that is none of `log.dirs`, KAFKA_STORAGE_ERROR for one that is
  offline, UNKNOWN_TOPIC_OR_PARTITION for a partition that is not there.
- A partition named twice moves to where it is named last.

Version notes: v1 is the first; flexible from v2.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.log import LogError
from kwire.requests.context import Context


def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse:
    wanted: dict[tuple[str, int], str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            wanted.update(((topic.name, index), directory.path) for index in topic.partitions)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        result = results.setdefault(name, AlterReplicaLogDirTopicResult(name))
        error = _move(broker, name, index, path)
        result.partitions.append(AlterReplicaLogDirPartitionResult(index, error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, topic: str, index: int, path: str) -> ErrorCode:
    moves = broker.logs.moves
    try:
        moves.directory_at(path)
        if broker.hosted.get(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        moves.move((topic, index), path)
    except LogError as error:
        return error.error
    return ErrorCode.NONE
