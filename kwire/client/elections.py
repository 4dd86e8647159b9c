"""Elections of leaders that an administrator asks for (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import EXPLANATIONS, UnsupportedRequest, as_error_code, check
from kwire.client.reassignments import at_controller
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

UNCLEAN_SINCE: Final = 1


class ElectionType(IntEnum):
    """Who is to lead, by Kafka's numbers."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Where nobody leads, a replica that is not in sync: what it lacks is lost."""


class Election(NamedTuple):
    """What came of one; `code` is NONE where the leader is another now."""

    partition: TopicPartition
    code: ErrorCode
    message: str | None

    @property
    def failed(self) -> bool:
        """Whether the partition is led otherwise than was asked for."""
        return self.code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)

    @property
    def why(self) -> str:
        """The name of the error and, where there are any, words for it."""
        words = self.message or EXPLANATIONS.get(self.code, "")
        return self.code.name + (f" ({words})" if words else "")


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Iterable[TopicPartition] | None
) -> list[Election]:
    """Have leaders elected: of `partitions`, or (None) of all.

    Of all, what needed none is not told.  Raises BrokerRefused where the whole was refused.
    """
    wanted = None if partitions is None else _by_topic(partitions)

    def ask() -> ElectLeadersResponse:
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=wanted, timeout_ms=int(cluster.timeout_s * 1000)
        )
        controller = at_controller(cluster)
        if kind is ElectionType.UNCLEAN and controller.version_for(request) < UNCLEAN_SINCE:
            raise UnsupportedRequest(f"{controller.address} knows elections of preferred leaders")
        reply: ElectLeadersResponse = controller.call(request)
        check(reply.error_code, "elect leaders")
        return reply

    reply = cluster.retrying(ask)
    return sorted(
        Election(
            TopicPartition(topic.topic, each.partition_id),
            as_error_code(each.error_code),
            each.error_message,
        )
        for topic in reply.replica_election_results
        for each in topic.partition_result
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    found: dict[str, list[int]] = {}
    for place in partitions:
        found.setdefault(place.topic, []).append(place.partition)
    return [TopicPartitions(topic, indexes) for topic, indexes in found.items()]
