"""A decision about one streams group, while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kwire.codecs.messages.coordinator.streams_group_metadata import LastAssignmentConfig
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.groups.assigned.decision import AssignedDecision
from kwire.groups.assigned.target import MemberTarget
from kwire.groups.streams import target
from kwire.groups.streams.configuring import ConfiguredTopology, InternalTopic, TopologyCache
from kwire.groups.streams.group import SessionOf, StreamsGroup, StreamsSession
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import ROLES
from kwire.groups.streams.tasks import NO_TASKS, TaskSets
from kwire.groups.surroundings import StreamsSettings


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatReply:
    """The response of a heartbeat, and the internal topics to create after it."""

    response: StreamsGroupHeartbeatResponse
    to_create: Mapping[str, InternalTopic] = field(default_factory=dict)


class StreamsPlan(NamedTuple):
    """What a target assignment is computed from."""

    configured: ConfiguredTopology
    configs: Mapping[str, str]


class StreamsDecision(AssignedDecision[StreamsGroup, StreamsMember, TaskSets]):
    """It collects records and timers, and changes nothing."""

    NOUN = "streams group"
    ROLES = ROLES
    settings: StreamsSettings
    configurations: TopologyCache
    """Set by the kind."""
    plan: StreamsPlan
    """Set before a target assignment is computed."""

    def read_settings(self) -> StreamsSettings:
        return self.surroundings.streams_settings(self.group_id)

    # -- the session

    def set_session(self, session: StreamsSession) -> None:
        if session != self.group.session:
            self.effects.soft = SessionOf(self.group_id, session)

    def end_delay(self) -> None:
        self.set_session(replace(self.group.session, is_delayed=False))

    def cancel_timers(self, member_id: str) -> None:
        self.end_session(member_id)
        self.end_revocation(member_id)

    # -- the epoch

    def next_epoch_of(
        self, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
    ) -> int:
        """Begin the group's next epoch.  Returns it."""
        listed = [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())]
        return self.next_epoch(metadata_hash, validated_topology_epoch, listed)

    # -- the target assignment

    def assign(self, members: Mapping[str, StreamsMember]) -> Mapping[str, TaskSets]:
        plan = self.plan
        return target.compute(self.group, members.values(), plan.configured, plan.configs)

    @staticmethod
    def is_unchanged(before: TaskSets | None, after: TaskSets) -> bool:
        return before == after

    target_value = staticmethod(target.value)

    def no_target(self) -> MemberTarget[TaskSets]:
        """An empty target, while the first assignment is delayed."""
        return MemberTarget(self.group.target_epoch, NO_TASKS)
