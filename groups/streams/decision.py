"""A decision about one streams group, while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kwire.codecs.messages.coordinator.streams_group_metadata import LastAssignmentConfig
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.groups.assigned.static_members import StaticDecision
from kwire.groups.assigned.target import MemberTarget
from kwire.groups.streams import target
from kwire.groups.streams.configuring import ConfiguredTopology, InternalTopic, TopologyCache
from kwire.groups.streams.group import (
    NO_DESCRIPTIONS,
    DescriptionEpochs,
    SessionOf,
    StreamsGroup,
    StreamsSession,
)
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import ROLES
from kwire.groups.streams.tasks import NO_TASKS, TaskSets
from kwire.groups.surroundings import StreamsSettings


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatReply:
    """The response of a heartbeat, and the internal topics to create after it."""

    response: StreamsGroupHeartbeatResponse
    to_create: Mapping[str, InternalTopic] = field(default_factory=dict)
    descriptions: DescriptionEpochs = NO_DESCRIPTIONS
    """Whether the plug-in lacks the description of the topology after the heartbeat."""


class StreamsPlan(NamedTuple):
    """What a target assignment is computed from."""

    configured: ConfiguredTopology
    configs: Mapping[str, str]


class StreamsDecision(StaticDecision[StreamsMember, TaskSets]):
    """It collects records and timers, and changes nothing."""

    group: StreamsGroup

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
        group = self.group
        return self.next_epoch(
            metadata_hash,
            validated_topology_epoch,
            _listed(configs),
            group.stored_description_epoch,
            group.failed_description_epoch,
        )

    def note_description(self, *, stored: int | None = None, failed: int | None = None) -> None:
        """Write to the log for which topology epochs the plug-in stored or refused a description.

        With None, the epoch in the log stays.  The epoch of the group stays, too.
        """
        group = self.group
        self.append(
            self.epoch_record(
                group.epoch,
                group.metadata_hash,
                group.validated_topology_epoch,
                _listed(group.assignment_configs),
                group.stored_description_epoch if stored is None else stored,
                group.failed_description_epoch if failed is None else failed,
            )
        )

    # -- the target assignment

    def assign(self, members: Mapping[str, StreamsMember]) -> Mapping[str, TaskSets]:
        plan = self.plan
        offsets = self.group.session.task_offsets
        return target.compute(members.values(), plan.configured, plan.configs, offsets)

    @staticmethod
    def is_unchanged(before: TaskSets | None, after: TaskSets) -> bool:
        return before == after

    target_value = staticmethod(target.value)

    def no_target(self) -> MemberTarget[TaskSets]:
        """An empty target, while the first assignment is delayed."""
        return MemberTarget(self.group.target_epoch, NO_TASKS)


def _listed(configs: Mapping[str, str]) -> list[LastAssignmentConfig]:
    """The settings of an assignment as a record has them, sorted by name."""
    return [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())]
