"""ElectLeaders (key 43): v0-2.

Behaviour
- Only the controller holds elections: any other broker says NOT_CONTROLLER for each partition, and
  where all are asked for, for each that there is.
- kwire.cluster.controller.elections has what is answered by whom else.
- It is answered once this broker tells clients of the new leaders, with REQUEST_TIMED_OUT for those
  of which it does not after the timeout.  A broker that is alone needs no time.

Version notes: the error of the whole request, and unclean elections (KIP-460), from v1; flexible
from v2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import ask_for_client, still_missing
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.requests.context import Context

log = logging.getLogger("kwire.controller")

Place = tuple[str, int]
PREFERRED = 0


async def handle(
    broker: Broker, request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse:
    try:
        reply: ElectLeadersResponse = await ask_for_client(
            broker.membership,
            lambda controller: controller.elect_leaders(request),
            log,
            "leaders are not elected",
        )
    except Refusal as refusal:
        return ElectLeadersResponse(
            replica_election_results=_all_refused(broker, request, refusal.error)
        )
    elected = {
        (result.topic, each.partition_id): each
        for result in reply.replica_election_results
        for each in result.partition_result
        if each.error_code == ErrorCode.NONE
    }

    def missing(image: ClusterImage) -> list[Place]:
        return [each for each in elected if not _is_led(image, each, request.election_type)]

    for place in await still_missing(broker.membership, missing, request.timeout_ms):
        elected[place].error_code = ErrorCode.REQUEST_TIMED_OUT
    return reply


def _is_led(image: ClusterImage, place: Place, kind: int) -> bool:
    """Whether a client would hear of the leader that was elected."""
    topic = image.topics.get(place[0])
    if topic is None or place[1] >= len(topic.partitions):
        return True  # it is gone meanwhile: nobody will ever hear of that
    known = topic.partitions[place[1]]
    return known.leader == known.replicas[0] if kind == PREFERRED else known.leader != NO_LEADER


def _all_refused(
    broker: Broker, request: ElectLeadersRequest, error: ErrorCode
) -> list[ReplicaElectionResult]:
    """Each partition by itself: version 0 has no other place for an error."""
    return [
        ReplicaElectionResult(topic, [PartitionResult(index, error, None) for index in indexes])
        for topic, indexes in _asked(broker, request)
    ]


def _asked(broker: Broker, request: ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        for name, topic in broker.image.topics.items():
            yield name, range(len(topic.partitions))
    else:
        for asked in request.topic_partitions:
            yield asked.topic, asked.partitions
