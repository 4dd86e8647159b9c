"""A member of a share group: what it has said of itself, and which partitions it reads.

It takes over what its target gives it at once, for nobody has to give up anything first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kwire.codecs.messages.coordinator.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codecs.messages.coordinator.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kwire.groups.assigning import assignment_of
from kwire.groups.consumer.assignors.spec import Assignment
from kwire.groups.share.records import CurrentAssignment, MemberMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STABLE = 0
"""The one state that a member has, as its record says it."""


@dataclass(frozen=True)
class ShareMember:
    """See the module.  It is never changed, only replaced."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As it is printed, with Java's leading slash."""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)

    # -- what it says of itself

    def told(
        self,
        rack_id: str | None,
        topic_names: Sequence[str] | None,
        client_id: str,
        client_host: str,
    ) -> ShareMember:
        """As a heartbeat has it: what is left out stays as it was."""
        return replace(
            self,
            rack_id=self.rack_id if rack_id is None else rack_id,
            topic_names=self.topic_names if topic_names is None else frozenset(topic_names),
            client_id=client_id,
            client_host=client_host,
        )

    def to_metadata(self, group_id: str) -> MemberMetadata:
        return MemberMetadata(
            ShareGroupMemberMetadataKey(group_id, self.member_id),
            ShareGroupMemberMetadataValue(
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=sorted(self.topic_names),
            ),
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        return self.told(
            value.rack_id, value.subscribed_topic_names, value.client_id, value.client_host
        )

    # -- what it reads

    def moved(self, epoch: int, assigned: Assignment) -> ShareMember:
        """As it is once it has what its target gives it."""
        if epoch == self.epoch:
            return replace(self, assigned=assigned)
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

    def to_assignment(self, group_id: str) -> CurrentAssignment:
        return CurrentAssignment(
            ShareGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            ShareGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=STABLE,
                assigned_partitions=[
                    TopicPartitions(topic_id, list(these))
                    for topic_id, these in self.assigned.items()
                ],
            ),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assignment_of(value.assigned_partitions),
        )

    def without_assignment(self) -> ShareMember:
        """Its record was deleted, as that of who leaves is."""
        return replace(self, epoch=-1, previous_epoch=-1, assigned={})
