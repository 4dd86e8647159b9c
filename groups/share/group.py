"""A share group: the state that its records hold.

- `epoch` rises with each change of the members, of their subscriptions, of the subscribed topics,
  and of the partitions that may be read.
- `target` is the target assignment, computed for `target_epoch`, which follows the epoch.

All of it is durable.  A decision changes nothing here; only `kwire.groups.share.kind` does, when it
applies records.  After a load, sessions start again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.groups.assignment import Assignment
from kwire.groups.share.initializing import NO_STATE_TOPICS, StateTopics
from kwire.groups.share.member import ShareGroupMember

SHARE_TYPE = "share"
EMPTY, STABLE = "Empty", "Stable"

FIRST_EPOCH = 1
"""Epoch of a group before its first subscription; 0 is the epoch of a member that joins."""


@dataclass(slots=True)
class ShareGroup:
    """See the module.  Dicts keep the order in which members joined."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ShareGroupMember] = field(default_factory=dict)
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """Time of the last computation of the target; 0: never."""
    target: dict[str, Assignment] = field(default_factory=dict)
    state_topics: StateTopics = NO_STATE_TOPICS

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

    # -- the interface of any group (kwire.groups.group)

    @property
    def type_name(self) -> str:
        return SHARE_TYPE

    @property
    def state_name(self) -> str:
        return STABLE if self.members else EMPTY

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=SHARE_TYPE,
            group_state=self.state_name,
            group_type=SHARE_TYPE,
        )

    def check_commit(self, request: OffsetCommitRequest, api_version: int) -> ErrorCode:
        """Refuse OffsetCommit: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, topic_id_of: Callable[[str], bytes]
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Allow OffsetFetch: it returns no offsets, which is not an error."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def may_become_classic(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_names

    @property
    def offsets_may_expire(self) -> bool:
        return False

    def retention_start_ms(self, commit_timestamp_ms: int) -> int:
        return commit_timestamp_ms

    @property
    def is_deleted_without_offsets(self) -> bool:
        """A share group exists until it is deleted."""
        return False


def topic_names_of(members: Iterable[ShareGroupMember]) -> frozenset[str]:
    return frozenset[str]().union(*(member.topic_names for member in members))
