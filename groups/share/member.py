"""A member of a share group: its metadata and the partitions that it reads.

It takes over what its target gives it at once, for nobody has to give up anything first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from kwire.codecs.messages.coordinator.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codecs.messages.coordinator.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import AssignedMember, given, state_numbers
from kwire.groups.assigned.target import assignment_of
from kwire.groups.assignment import NOTHING, Assignment
from kwire.groups.share.records import ShareCurrentAssignment, ShareMemberMetadata


@dataclass(frozen=True)
class ShareGroupMember(AssignedMember[Assignment]):
    """See the module."""

    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)

    NOTHING: ClassVar[Assignment] = NOTHING
    STATE_NUMBERS = state_numbers(0)

    # -- metadata

    def updated_by(
        self, rack_id: str | None, topic_names: Sequence[str] | None, caller: HeartbeatCaller
    ) -> ShareGroupMember:
        """The member after a heartbeat: fields that the request leaves out stay unchanged."""
        return replace(
            self,
            rack_id=given(rack_id, self.rack_id),
            topic_names=self.topic_names if topic_names is None else frozenset(topic_names),
            client_id=caller.client_id,
            client_host=caller.client_host,
        )

    def to_metadata(self, group_id: str) -> ShareMemberMetadata:
        """Return the record of the member's metadata: client and subscription."""
        return ShareMemberMetadata(
            ShareGroupMemberMetadataKey(group_id, self.member_id),
            ShareGroupMemberMetadataValue(
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=sorted(self.topic_names),
            ),
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareGroupMember:
        caller = HeartbeatCaller(value.client_id, value.client_host)
        return self.updated_by(value.rack_id, value.subscribed_topic_names, caller)

    # -- partitions

    def moved(self, epoch: int, assigned: Assignment) -> ShareGroupMember:
        """The member after it has moved to its target."""
        if epoch == self.epoch:
            return replace(self, assigned=assigned)
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

    def to_assignment(self, group_id: str) -> ShareCurrentAssignment:
        """Return the record of the member's epochs and partitions."""
        return ShareCurrentAssignment(
            ShareGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            ShareGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state_number,
                assigned_partitions=[
                    TopicPartitions(topic_id, list(these))
                    for topic_id, these in self.assigned.items()
                ],
            ),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareGroupMember:
        """Return the member with the epochs and partitions of a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assignment_of(value.assigned_partitions),
        )
