"""Elections of leaders that an administrator requests (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import EXPLANATIONS, UnsupportedRequest, check
from kwire.client.reassignments import at_controller
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

UNCLEAN_SINCE: Final = 1


class ElectionType(IntEnum):
    """Which replica becomes leader.  The values are those of the protocol."""

    PREFERRED = 0
    """The first replica in the list, if it is in sync."""
    UNCLEAN = 1
    """If there is no leader, any replica.  Records that it lacks are lost."""


class Election(NamedTuple):
    """The result of an election; `code` is NONE if the leader has changed."""

    partition: TopicPartition
    code: ErrorCode
    message: str | None

    @property
    def failed(self) -> bool:
        """Whether the requested replica does not lead the partition."""
        return self.code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)

    @property
    def why(self) -> str:
        """The name of the error code, with an explanation if there is one."""
        explanation = self.message or EXPLANATIONS.get(self.code, "")
        return self.code.name + (f" ({explanation})" if explanation else "")


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Iterable[TopicPartition] | None
) -> list[Election]:
    """Elect leaders of `partitions`, or of all partitions if that is None.

    With None, the result leaves out partitions that needed no election.  Raises BrokerRefused if
    the whole request is refused.
    """
    wanted = None if partitions is None else _by_topic(partitions)

    def ask() -> ElectLeadersResponse:
        """Sends the request to the controller once.  Raises UnsupportedRequest if an older
        controller would take an unclean election for a preferred one."""
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=wanted, timeout_ms=int(cluster.timeout_s * 1000)
        )
        controller = at_controller(cluster)
        if kind is ElectionType.UNCLEAN and controller.version_for(request) < UNCLEAN_SINCE:
            raise UnsupportedRequest(
                f"{controller.address} supports only preferred leader elections"
            )
        reply: ElectLeadersResponse = controller.call(request)
        check(reply.error_code, "elect leaders")
        return reply

    reply = cluster.retrying(ask)
    return sorted(
        Election(
            TopicPartition(topic.topic, partition.partition_id),
            as_error_code(partition.error_code),
            partition.error_message,
        )
        for topic in reply.replica_election_results
        for partition in topic.partition_result
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Return the partitions as the request lists them: by topic."""
    indexes_by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        indexes_by_topic.setdefault(partition.topic, []).append(partition.partition)
    return [TopicPartitions(topic, indexes) for topic, indexes in indexes_by_topic.items()]
