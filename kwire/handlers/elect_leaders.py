"""ElectLeaders (key 43): v0-2.

Behaviour
- Only the controller holds elections: any other broker says NOT_CONTROLLER for each partition, and
  where all are asked for, for each that there is.
- kwire.controller.cluster.elections has what is answered by whom else.
- The timeout is not looked at: what can be decided is decided before the answer.

Version notes: the error of the whole request, and unclean elections (KIP-460), from v1; flexible
from v2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kwire.broker import Broker
from kwire.cluster.committing import ask_for_client
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kwire.context import Context
from kwire.metadata.refusal import Refusal

log = logging.getLogger("kwire.controller")


async def handle(
    broker: Broker, request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse:
    try:
        reply: ElectLeadersResponse = await ask_for_client(
            broker,
            lambda controller: controller.elect_leaders(request),
            log,
            "leaders are not elected",
        )
    except Refusal as refusal:
        return ElectLeadersResponse(
            replica_election_results=_all_refused(broker, request, refusal.error)
        )
    return reply


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
