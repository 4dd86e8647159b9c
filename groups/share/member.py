"""A member of a share group: its metadata and the partitions that it reads.

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
from kwire.groups.assignment import Assignment
from kwire.groups.share.records import ShareCurrentAssignment, ShareMemberMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STABLE = 0
"""The only state of a member, as its record stores it."""


@dataclass(frozen=True)
class ShareGroupMember:
    """See the module.  Immutable: a change makes a new one."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As ShareGroupDescribe shows it, with Java's leading slash."""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)

    # -- metadata

    def updated_by(
        self,
        rack_id: str | None,
        topic_names: Sequence[str] | None,
        client_id: str,
        client_host: str,
    ) -> ShareGroupMember:
        """The member after a heartbeat: fields that the request leaves out stay unchanged."""
        return replace(
            self,
            rack_id=self.rack_id if rack_id is None else rack_id,
            topic_names=self.topic_names if topic_names is None else frozenset(topic_names),
            client_id=client_id,
            client_host=client_host,
        )

    def to_metadata(self, group_id: str) -> ShareMemberMetadata:
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
        return self.updated_by(
            value.rack_id, value.subscribed_topic_names, value.client_id, value.client_host
        )

    # -- partitions

    def moved(self, epoch: int, assigned: Assignment) -> ShareGroupMember:
        """The member after it has moved to its target."""
        if epoch == self.epoch:
            return replace(self, assigned=assigned)
        return replace(self, epoch=epoch, previous_epoch=self.epoch, assigned=assigned)

    def to_assignment(self, group_id: str) -> ShareCurrentAssignment:
        return ShareCurrentAssignment(
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

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareGroupMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=assignment_of(value.assigned_partitions),
        )

    def without_assignment(self) -> ShareGroupMember:
        """The member after the tombstone of its current assignment."""
        return replace(self, epoch=-1, previous_epoch=-1, assigned={})
