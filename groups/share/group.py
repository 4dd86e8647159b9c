"""A share group: the state that its records hold.

Besides what kwire.groups.assigned.group has, it has the partitions for which the share coordinator
stores state.  A share group has no committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.groups.assigned.group import AssignedGroup, AssignedGroupState
from kwire.groups.assigned.target import read_partitions
from kwire.groups.assignment import NOTHING, Assignment
from kwire.groups.share.initializing import NO_STATE_TOPICS, StateTopics
from kwire.groups.share.member import ShareGroupMember
from kwire.groups.share.records import StatePartitions

SHARE_TYPE = "share"


@dataclass(slots=True)
class ShareGroup(AssignedGroup[ShareGroupMember, Assignment]):
    """See the module."""

    state_topics: StateTopics = NO_STATE_TOPICS

    type_name: ClassVar[str] = SHARE_TYPE
    member_class = ShareGroupMember
    NO_TARGET = NOTHING

    # -- changes by records

    read_target = staticmethod(read_partitions)

    def follow_own(self, record: StatePartitions) -> None:
        self.state_topics = StateTopics.of(record)

    # -- subscriptions

    @property
    def topic_names(self) -> frozenset[str]:
        return topic_names_of(self.members.values())

    @property
    def has_more_to_read(self) -> bool:
        """Whether partitions were initialized that the target does not have yet."""
        initialized = self.state_topics.initialized
        names = self.topic_names
        assigned: dict[bytes, frozenset[int]] = {}
        for assignment in self.target.values():
            for topic_id, these in assignment.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()).union(these)
        return bool(self.members) and any(
            assigned.get(topic_id) != these
            for topic_id, these in initialized.partitions.items()
            if initialized.names[topic_id] in names
        )

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_names

    # -- the interface of any group (kwire.groups.group)

    @property
    def state(self) -> AssignedGroupState:
        """EMPTY or STABLE: members take over their targets at once."""
        return AssignedGroupState.STABLE if self.members else AssignedGroupState.EMPTY

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Refuse OffsetCommit: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Allow OffsetFetch: it returns no offsets, which is not an error."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @property
    def may_become_classic(self) -> bool:
        return False

    @property
    def offsets_may_expire(self) -> bool:
        return False

    @property
    def is_deleted_without_offsets(self) -> bool:
        """A share group exists until it is deleted."""
        return False


def topic_names_of(members: Iterable[ShareGroupMember]) -> frozenset[str]:
    return frozenset[str]().union(*(member.topic_names for member in members))
