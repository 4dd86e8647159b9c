"""A share group: everything that its records say of it, and what follows from that.

- `epoch` grows with each change of who is in the group, of what they are subscribed to, of those
  topics themselves, and of what may be read of them.
- `target` says who is to read which partitions as of `target_epoch`, which follows the epoch.

All of it is durable: a decision changes nothing here, only `kwire.groups.share.kind` does when it
applies records.  Sessions begin anew when a partition has been loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.groups.consumer.assignors.spec import Assignment
from kwire.groups.share.initializing import NO_STATE_TOPICS, StateTopics
from kwire.groups.share.member import ShareMember

SHARE_TYPE = "share"
EMPTY, STABLE = "Empty", "Stable"

FIRST_EPOCH = 1
"""Of a group that nobody is subscribed to anything in, nor was; 0 is a member's that joins."""


@dataclass(slots=True)
class ShareGroup:
    """See the module.  Dicts keep the order in which members came."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """When the target was computed last; 0: never."""
    target: dict[str, Assignment] = field(default_factory=dict)
    state_topics: StateTopics = NO_STATE_TOPICS

    # -- what it is subscribed to

    @property
    def topic_names(self) -> frozenset[str]:
        return topic_names_of(self.members.values())

    @property
    def has_more_to_read(self) -> bool:
        """Whether the share coordinator has been told of partitions that the target lacks."""
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

    # -- as any group (kwire.groups.group)

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
        """Nobody commits offsets of a share group."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, request: TxnOffsetCommitRequest, topic_id_of: Callable[[str], bytes]
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """There is nothing to be found, which is no error."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def may_turn_classic(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_names

    @property
    def offsets_may_expire(self) -> bool:
        return False

    def unused_since_ms(self, commit_timestamp_ms: int) -> int:
        return commit_timestamp_ms

    @property
    def goes_with_its_offsets(self) -> bool:
        """It stays until it is deleted."""
        return False


def topic_names_of(members: Iterable[ShareMember]) -> frozenset[str]:
    return frozenset[str]().union(*(member.topic_names for member in members))
