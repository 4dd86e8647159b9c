"""A decision about one share group, while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire.codecs.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.groups.assigned.decision import AssignedDecision
from kwire.groups.assigned.target import is_same
from kwire.groups.assignment import Assignment
from kwire.groups.share import target
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.initializing import NOTHING, StateTopicPartitions
from kwire.groups.share.member import ShareGroupMember
from kwire.groups.share.records import ROLES
from kwire.groups.surroundings import ShareSettings


class ShareInitialization(NamedTuple):
    """A request to the share coordinator: initialize the state of these partitions."""

    group_id: str
    group_epoch: int
    topics: StateTopicPartitions
    grown: frozenset[bytes] = frozenset()
    """The ids of those topics of which the group has other partitions already."""


class ShareHeartbeatReply(NamedTuple):
    """The response of a heartbeat, and the initialization to start after it."""

    response: ShareGroupHeartbeatResponse
    initialization: ShareInitialization | None = None


class ShareDecision(AssignedDecision[ShareGroup, ShareGroupMember, Assignment]):
    """It collects records and timers, and changes nothing."""

    NOUN = "share group"
    ROLES = ROLES

    def read_settings(self) -> ShareSettings:
        return self.surroundings.share_settings(self.group_id)

    # -- the target assignment

    def assign(self, members: Mapping[str, ShareGroupMember]) -> Mapping[str, Assignment]:
        return target.compute(self.group, members.values(), self.surroundings.image)

    @staticmethod
    def is_unchanged(before: Assignment | None, after: Assignment) -> bool:
        return before is not None and is_same(before, after)

    target_value = staticmethod(target.value)

    # -- the state that the share coordinator stores

    def initialize(self, topic_names: frozenset[str], epoch: int) -> ShareInitialization | None:
        """The initialization of partitions whose state does not exist yet, or None."""
        group, image = self.group, self.surroundings.image
        retry_ms = self.limits.group_share_initialize_retry_interval_ms
        topics = group.state_topics.to_initialize(sorted(topic_names), image, self.now_ms, retry_ms)
        if topics == NOTHING:
            return None
        grown = frozenset(topics.partitions.keys() & group.state_topics.known.partitions.keys())
        self.append(group.state_topics.with_request(topics, self.now_ms).to_record(group.group_id))
        return ShareInitialization(group.group_id, epoch, topics, grown)
