"""OffsetForLeaderEpoch (key 23): v2-4.

Behaviour
- The answer for a partition is the largest leader epoch that is not above the requested one, and
  its end offset; the end offset of the latest epoch is the log end offset.  A client that has read
  further has read records that were truncated (KIP-320).  If the epoch is unknown, both are -1 and
  there is no error.
- FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client's current leader epoch is wrong.
- Partitions stand in the order of the request, as often as in the request.

Version notes: the replica id of v3 has no effect; flexible from v4.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kwire.log import LogError, end_offset_for_epoch
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.topics import by_topic
from kwire.requests.route import Right, Route

ROUTE = Route(
    ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, Right(AclOperation.DESCRIBE, ResourceType.TOPIC)
)


def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of the requested leader epoch, or an error, for each partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _answer(broker, topic.topic, requested) for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    """Return the end offset of the leader epoch in one partition, or its error.

    A current leader epoch of -1 is not checked: the client does not know it.
    """
    try:
        partition = broker.hosted.led(topic, requested.partition)
        if requested.current_leader_epoch != -1:
            partition.check_leader_epoch(requested.current_leader_epoch)
    except LogError as error:
        return EpochEndOffset(error_code=error.error, partition=requested.partition)
    epoch, end_offset = end_offset_for_epoch(partition.log, requested.leader_epoch)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)


# -- rights


def guard(access: Access, request: OffsetForLeaderEpochRequest, proceed: Proceed) -> Response:
    """Let a broker ask about every topic, a consumer about topics that it may describe."""
    if access.on_cluster(AclOperation.CLUSTER_ACTION, quiet=True):
        return proceed(request)
    return by_topic(
        access,
        request,
        proceed,
        AclOperation.DESCRIBE,
        lambda topic: OffsetForLeaderTopicResult(
            topic.topic,
            [
                EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition.partition)
                for partition in topic.partitions
            ],
        ),
        lambda topic: str(topic.topic),
    )
