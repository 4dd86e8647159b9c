"""The quorum of controllers that keeps a cluster's metadata, as DescribeQuorum shows it (KIP-595).

Its leader is the cluster's controller.  The voters are the controllers, and the observers are what
follows the metadata without a vote, which is each broker beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kwire.client.connection import BrokerConnection
from kwire.client.errors import UnsupportedRequest, check
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    Node,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

METADATA_TOPIC: Final = "__cluster_metadata"
NEVER: Final = -1
SILENT_S_MAX: Final = 10.0
"""A voter that has not caught up for so long does not work: one that does fetches at least twice a
second, and after 2 s without an answer it elects (controller.quorum.fetch.timeout.ms)."""


@dataclass(frozen=True, slots=True)
class QuorumMember:
    """A voter or an observer, and how far it was behind the leader at the time of the answer."""

    member_id: int
    is_voter: bool
    end_offset: int
    records_behind: int
    seconds_behind: float | None
    """How long ago it had everything that the leader has; None if it never had."""
    address: str | None = None
    """Where it listens as a controller.  The leader says this of voters only."""


@dataclass(frozen=True, slots=True)
class ControllerQuorum:
    """The leader of the metadata, and the members that follow it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumMember] = field(default_factory=list)
    observers: list[QuorumMember] = field(default_factory=list)

    @property
    def members(self) -> Iterator[QuorumMember]:
        """The voters, then the observers."""
        yield from self.voters
        yield from self.observers

    @property
    def silent_voters(self) -> list[QuorumMember]:
        """The voters that do not follow the leader now; none if the leader reports no times."""
        if all(each.seconds_behind is None for each in self.voters):
            return []
        return [
            each
            for each in self.voters
            if each.seconds_behind is None or each.seconds_behind > SILENT_S_MAX
        ]


def quorum_of(connection: BrokerConnection) -> ControllerQuorum | None:
    """The quorum that a broker or a controller describes.

    None if it does not know the request, as in a cluster on ZooKeeper.  Raises BrokerRefused, for
    example while the quorum has no leader.
    """
    asked = RequestTopicData(METADATA_TOPIC, [RequestPartitionData(0)])
    try:
        reply = connection.call(DescribeQuorumRequest([asked]))
    except UnsupportedRequest:
        return None
    check(reply.error_code, "the quorum", reply.error_message)
    (partition,) = (each for topic in reply.topics for each in topic.partitions)
    check(partition.error_code, "the quorum", partition.error_message)
    return _quorum(partition, {node.node_id: _address(node) for node in reply.nodes})


def _quorum(
    partition: ResponsePartitionData, addresses: Mapping[int, str | None]
) -> ControllerQuorum:
    """Return what the response says, relative to the leader, which is one of the voters."""
    leader = next(
        (each for each in partition.current_voters if each.replica_id == partition.leader_id),
        ReplicaState(partition.leader_id, log_end_offset=partition.high_watermark),
    )

    def member(state: ReplicaState, *, is_voter: bool) -> QuorumMember:
        caught_up_ms = state.last_caught_up_timestamp
        behind_ms = max(0, leader.last_caught_up_timestamp - caught_up_ms)
        return QuorumMember(
            state.replica_id,
            is_voter,
            state.log_end_offset,
            max(0, leader.log_end_offset - state.log_end_offset),
            None if caught_up_ms == NEVER else behind_ms / 1000,
            addresses.get(state.replica_id) if is_voter else None,
        )

    def sorted_members(states: list[ReplicaState], *, is_voter: bool) -> list[QuorumMember]:
        members = [member(state, is_voter=is_voter) for state in states]
        return sorted(members, key=lambda each: (each.member_id, -each.end_offset))

    return ControllerQuorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        sorted_members(partition.current_voters, is_voter=True),
        sorted_members(partition.observers, is_voter=False),
    )


def _address(node: Node) -> str | None:
    """Return the first address at which a controller listens, or None if it has none."""
    return next((f"{each.host}:{each.port}" for each in node.listeners), None)
