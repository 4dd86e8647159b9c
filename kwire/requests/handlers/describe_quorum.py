"""DescribeQuorum (key 55): v0-2.

Behaviour
- Describes the one partition of the metadata, `__cluster_metadata` 0.  If the request names any
  other partition, each of its partitions has UNKNOWN_TOPIC_OR_PARTITION.
- The controller is the one voter, as in a quorum that controller.quorum.voters names: directory ids
  are zero.  The other brokers of the cluster are observers (kwire.cluster.metadata.quorum).
- The voter's listeners are those at which it serves clients, since it has none for controllers.
- NOT_LEADER_OR_FOLLOWER while there is no controller.
- A broker on ZooKeeper closes the connection, as for an API key that does not exist.

Version notes: v1 has the times of replicas (KIP-836); v2 messages, directory ids and the listeners
of voters (KIP-853).
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage
from kwire.cluster.metadata.quorum import MetadataQuorum
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.context import Context
from kwire.requests.route import Right, Route
from kwire.requests.routes import require_quorum

log = logging.getLogger("kwire.controller")

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
NODES_SINCE = 2
UNKNOWN_PARTITION = "This server does not host this topic-partition."
NO_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the "
    "current leader. For requests intended for any replica, this error indicates that the broker "
    "is not a replica of the topic partition."
)

ROUTE = Route(
    ApiKey.DESCRIBE_QUORUM,
    0,
    2,
    Right(AclOperation.DESCRIBE, ResourceType.CLUSTER),
    about_quorum=True,
    by_controller=True,
)


async def handle(
    broker: Broker, request: DescribeQuorumRequest, context: Context
) -> DescribeQuorumResponse:
    """Return the leader, the voter and the observers of the metadata.

    Raises CloseConnection on a broker with ZooKeeper.
    """
    require_quorum(broker, context)
    if not _is_about_metadata(request):
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
    try:
        quorum = await broker.membership.quorum()
    except StoreError as error:
        log.error("Cannot describe the quorum: %s", error)
        return DescribeQuorumResponse(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if quorum.leader_id == NO_CONTROLLER:
        return _refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_LEADER)
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(METADATA_TOPIC, [_partition(quorum)])],
        nodes=_nodes(broker.image, quorum) if context.api_version >= NODES_SINCE else [],
    )


def _is_about_metadata(request: DescribeQuorumRequest) -> bool:
    """Return whether the request names the partition of the metadata, and nothing else."""
    named = [
        (topic.topic_name, [each.partition_index for each in topic.partitions])
        for topic in request.topics
    ]
    return named == [(METADATA_TOPIC, [METADATA_PARTITION])]


def _refused(
    request: DescribeQuorumRequest, error: ErrorCode, message: str
) -> DescribeQuorumResponse:
    """Return the response with `error` for each partition that the request names."""
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic.topic_name,
                [
                    ResponsePartitionData(each.partition_index, error, message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _partition(quorum: MetadataQuorum) -> ResponsePartitionData:
    """Return the state of the metadata's partition.  The leader knows itself at any time."""
    at_ms, end_offset = quorum.asked_ms, quorum.end_offset
    return ResponsePartitionData(
        METADATA_PARTITION,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=end_offset,
        current_voters=[ReplicaState(quorum.leader_id, ZERO_UUID, end_offset, at_ms, at_ms)],
        observers=[
            ReplicaState(
                each.broker_id, ZERO_UUID, each.end_offset, each.fetched_ms, each.caught_up_ms
            )
            for each in quorum.observers
        ],
    )


def _nodes(image: ClusterImage, quorum: MetadataQuorum) -> list[Node]:
    """Return the voter with the addresses at which it serves clients."""
    voter = image.brokers.get(quorum.leader_id)
    endpoints = () if voter is None else voter.endpoints
    listeners = [Listener(each.listener, each.host, each.port) for each in endpoints]
    return [Node(quorum.leader_id, listeners)]


# -- rights

_DENIED = "Cluster authorization failed."


def refuse(
    request: DescribeQuorumRequest, error: ErrorCode, version: int, message: str
) -> DescribeQuorumResponse:
    """Return the response that refuses the request with `error`."""
    return DescribeQuorumResponse(error, _DENIED)
