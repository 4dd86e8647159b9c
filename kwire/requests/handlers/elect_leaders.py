"""ElectLeaders (key 43): v0-2.

Behaviour
- Only the controller elects leaders.  Any other broker answers NOT_CONTROLLER for each partition of
  the request; if the request is for all, for each existing partition.
- kwire.cluster.controller.elections has the other errors.
- The response waits until this broker's metadata has the new leaders.  A partition without its new
  leader when the timeout passes has REQUEST_TIMED_OUT.

Version notes: the error of the whole request, and unclean elections (KIP-460), from v1; flexible
from v2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client, still_missing
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

log = logging.getLogger("kwire.controller")

Place = tuple[str, int]
PREFERRED = 0

ROUTE = Route(
    ApiKey.ELECT_LEADERS, 0, 2, Right(AclOperation.ALTER, ResourceType.CLUSTER), by_controller=True
)


async def handle(
    broker: Broker, request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse:
    """Let the controller elect leaders, and wait until this broker's metadata has them.

    A partition without its new leader when the timeout passes gets REQUEST_TIMED_OUT.
    """
    try:
        reply: ElectLeadersResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.elect_leaders(request),
            log,
            "Cannot elect leaders",
        )
    except Refusal as refusal:
        return ElectLeadersResponse(
            replica_election_results=_all_refused(broker, request, refusal.error)
        )
    elected = {
        (result.topic, partition.partition_id): partition
        for result in reply.replica_election_results
        for partition in result.partition_result
        if partition.error_code == ErrorCode.NONE
    }

    def missing(image: ClusterImage) -> list[Place]:
        return [place for place in elected if not _is_led(image, place, request.election_type)]

    for place in await still_missing(broker.membership, missing, request.timeout_ms):
        elected[place].error_code = ErrorCode.REQUEST_TIMED_OUT
    return reply


def _is_led(image: ClusterImage, place: Place, kind: int) -> bool:
    """Return whether the metadata image has the leader that the election of type `kind` gives.

    True for a deleted partition: there is nothing to wait for.
    """
    topic = image.topics.get(place[0])
    if topic is None or place[1] >= len(topic.partitions):
        return True  # deleted since: there is nothing to wait for
    partition = topic.partitions[place[1]]
    if kind == PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def _all_refused(
    broker: Broker, request: ElectLeadersRequest, error: ErrorCode
) -> list[ReplicaElectionResult]:
    """Return the same error for each partition: version 0 has no field for the whole request."""
    return [
        ReplicaElectionResult(topic, [PartitionResult(index, error, None) for index in indexes])
        for topic, indexes in _requested_partitions(broker, request)
    ]


def _requested_partitions(
    broker: Broker, request: ElectLeadersRequest
) -> Iterable[tuple[str, Iterable[int]]]:
    """Yield each topic with its requested partitions; a null list requests all partitions."""
    if request.topic_partitions is None:
        for name, topic in broker.image.topics.items():
            yield name, range(len(topic.partitions))
    else:
        for topic_partitions in request.topic_partitions:
            yield topic_partitions.topic, topic_partitions.partitions


# -- rights

_ELECTIONS_WITH_ERROR_SINCE = 1


def refuse(
    request: ElectLeadersRequest, error: ErrorCode, version: int, message: str
) -> ElectLeadersResponse:
    """Return the response with `error` for each partition, and for the request if it can."""
    return ElectLeadersResponse(
        error_code=error if version >= _ELECTIONS_WITH_ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [PartitionResult(index, error, message) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )
