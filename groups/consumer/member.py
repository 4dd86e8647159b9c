"""A member of a consumer group: its subscription and the partitions that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

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
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import (
    NO_REBALANCE_TIMEOUT,
    AssignedMember,
    given,
    state_numbers,
    with_epochs,
)
from kwire.groups.consumer.records import ConsumerCurrentAssignment, ConsumerMemberMetadata

AssignedPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which it was assigned to the member."""


@dataclass(frozen=True)
class ConsumerMember(AssignedMember[AssignedPartitions]):
    """See the module."""

    topic_names: frozenset[str] = frozenset()
    pattern: str | None = ""
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Set for a member that uses the classic protocol."""
    assigned: AssignedPartitions = field(default_factory=dict)
    revoking: AssignedPartitions = field(default_factory=dict)

    NOTHING: ClassVar[AssignedPartitions] = {}
    STATE_NUMBERS = state_numbers(0)

    @property
    def protocol(self) -> ClassicProtocol:
        """The protocol that a classic member got as the group's: the first one that it sent."""
        assert self.classic is not None, "a member of the consumer protocol"
        return self.classic.supported_protocols[0]

    @cached_property
    def held(self) -> frozenset[tuple[bytes, int]]:
        """(topic id, partition) of all partitions that no other member may have yet."""
        return frozenset(
            (topic_id, partition)
            for held in (self.assigned, self.revoking)
            for topic_id, partitions in held.items()
            for partition in partitions
        )

    @property
    def assigned_in_no_epoch(self) -> AssignedPartitions:
        """See AssignedMember."""
        return {t: dict.fromkeys(partitions, 0) for t, partitions in self.assigned.items()}

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which a held partition was assigned; None if it is not held."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    # -- metadata

    def updated_by(
        self, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatCaller
    ) -> ConsumerMember:
        """The member after a heartbeat: fields that the request leaves out stay unchanged."""
        names = request.subscribed_topic_names
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            self,
            instance_id=given(request.instance_id, self.instance_id),
            rack_id=given(request.rack_id, self.rack_id),
            rebalance_timeout_ms=self.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT
            else timeout_ms,
            server_assignor=given(request.server_assignor, self.server_assignor),
            topic_names=self.topic_names if names is None else frozenset(names),
            pattern=given(request.subscribed_topic_regex, self.pattern),
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=None,
        )

    def to_metadata(self, group_id: str) -> ConsumerMemberMetadata:
        """Return the record of the member's metadata: client, subscription and timeouts."""
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
        """Return the member with the metadata of a record; epochs and partitions stay."""
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
        """Return the record of the member's epochs, state and partitions."""
        return ConsumerCurrentAssignment(
            ConsumerGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state_number,
                assigned_partitions=_listed(self.assigned),
                partitions_pending_revocation=_listed(self.revoking),
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """Return the member with the epochs, state and partitions of a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=self.state_of(value.state),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )


def _listed(held: AssignedPartitions) -> list[TopicPartitions]:
    """Return partitions as a record has them, each with the epoch in which it was assigned."""
    return [
        TopicPartitions(topic_id, sorted(partitions), [partitions[p] for p in sorted(partitions)])
        for topic_id, partitions in held.items()
    ]


def _held(listed: Iterable[TopicPartitions], member_epoch: int) -> AssignedPartitions:
    """Return the partitions of a record, each with the epoch in which it was assigned."""
    epoch = max(member_epoch, 0)
    return {
        topic.topic_id: with_epochs(topic.partitions, topic.assignment_epochs, epoch)
        for topic in listed
    }
