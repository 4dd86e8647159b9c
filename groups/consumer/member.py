"""A member of a consumer group: its subscription and the partitions that it holds.

state                  meaning
---------------------  ---------------------------------------------------------------------
STABLE                 it has all partitions of its target
UNREVOKED_PARTITIONS   it must give up partitions before it moves to the next epoch; it has done so
                       when a heartbeat does not list them as owned any more
UNRELEASED_PARTITIONS  it is in the new epoch, and waits for partitions that other members hold
UNKNOWN                a newer broker wrote a state that is unknown here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kwire.groups.consumer.records import ConsumerCurrentAssignment, ConsumerMemberMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""A static member leaves but keeps its partitions; the next member with its instance id gets
them."""

NO_REBALANCE_TIMEOUT = -1

AssignedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which it was assigned to the member."""

NOTHING_HELD: AssignedPartitions = {}


class ConsumerMemberState(IntEnum):
    """See the module; the values are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True)
class ConsumerMember:
    """See the module.  Immutable: a change makes a new one."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As ConsumerGroupDescribe shows it, with Java's leading slash."""
    topic_names: frozenset[str] = frozenset()
    pattern: str | None = ""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Set for a member that uses the classic protocol."""
    epoch: int = 0
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    assigned: AssignedPartitions = field(default_factory=dict)
    revoking: AssignedPartitions = field(default_factory=dict)
    """Partitions that the member must give up."""

    @property
    def protocol(self) -> ClassicProtocol:
        """The protocol that a classic member got as the group's: the first one that it sent."""
        assert self.classic is not None, "a member of the consumer protocol"
        return self.classic.supported_protocols[0]

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is ConsumerMemberState.STABLE and self.epoch == epoch

    @cached_property
    def held(self) -> frozenset[tuple[bytes, int]]:
        """(topic id, partition) of all partitions that no other member may have yet."""
        return frozenset(
            (topic_id, partition)
            for held in (self.assigned, self.revoking)
            for topic_id, partitions in held.items()
            for partition in partitions
        )

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which a held partition was assigned; None if it is not held."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    # -- metadata

    def updated_by(
        self, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> ConsumerMember:
        """The member after a heartbeat: fields that the request leaves out stay unchanged."""
        names = request.subscribed_topic_names
        pattern = request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT
            else timeout_ms,
            server_assignor=self.server_assignor
            if request.server_assignor is None
            else request.server_assignor,
            topic_names=self.topic_names if names is None else frozenset(names),
            pattern=self.pattern if pattern is None else pattern,
            client_id=client_id,
            client_host=client_host,
            classic=None,
        )

    def to_metadata(self, group_id: str) -> ConsumerMemberMetadata:
        return ConsumerMemberMetadata(
            ConsumerGroupMemberMetadataKey(group_id, self.member_id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=sorted(self.topic_names),
                subscribed_topic_regex=self.pattern,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.server_assignor,
                classic_member_metadata=self.classic,
            ),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    # -- partitions

    def to_assignment(self, group_id: str) -> ConsumerCurrentAssignment:
        return ConsumerCurrentAssignment(
            ConsumerGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                assigned_partitions=_listed(self.assigned),
                partitions_pending_revocation=_listed(self.revoking),
            ),
        )

    def without_assignment(self) -> ConsumerMember:
        """The member after the tombstone of its current assignment."""
        return replace(
            self, epoch=-1, previous_epoch=-1, assigned=NOTHING_HELD, revoking=NOTHING_HELD
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        known = value.state in ConsumerMemberState.__members__.values()
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=ConsumerMemberState(value.state) if known else ConsumerMemberState.UNKNOWN,
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )


def _listed(held: AssignedPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, sorted(partitions), [partitions[p] for p in sorted(partitions)])
        for topic_id, partitions in held.items()
    ]


def _held(listed: Iterable[TopicPartitions], member_epoch: int) -> AssignedPartitions:
    """The partitions in a record.  Brokers before 4.3 wrote no epochs of partitions: the member
    epoch is used then."""
    held: dict[bytes, dict[int, int]] = {}
    for topic in listed:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held
