"""A decision about one streams group, while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from kwire.codecs.messages.coordinator.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
)
from kwire.codecs.messages.coordinator.streams_group_metadata import (
    LastAssignmentConfig,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
)
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.groups.assigning import AssigningDecision, may_be_computed
from kwire.groups.limits import GroupLimits
from kwire.groups.metadata_hash import MetadataHashes
from kwire.groups.streams import target
from kwire.groups.streams.configuring import ConfiguredTopology, InternalTopic, TopologyCache
from kwire.groups.streams.group import SessionOf, StreamsGroup, StreamsSession
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.reconciliation import StreamsTarget
from kwire.groups.streams.records import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMemberMetadata,
    StreamsTargetAssignment,
)
from kwire.groups.streams.tasks import NO_TASKS, TaskSets
from kwire.groups.streams.topology import Topology
from kwire.groups.surroundings import Surroundings
from kwire.groups.timers import RebalanceTimer, rebalance_key


@dataclass(frozen=True, slots=True)
class StreamsRefusal:
    """The error of a refused heartbeat, with Apache Kafka's message."""

    error: ErrorCode
    message: str | None

    def response(self) -> StreamsGroupHeartbeatResponse:
        return StreamsGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatReply:
    """The response of a heartbeat, and the internal topics to create after it."""

    response: StreamsGroupHeartbeatResponse
    to_create: Mapping[str, InternalTopic] = field(default_factory=dict)


class StreamsPlan(NamedTuple):
    """The input of a task assignment."""

    epoch: int
    configured: ConfiguredTopology
    configs: Mapping[str, str]


class StreamsDecision(AssigningDecision[StreamsGroup]):
    """A decision about a streams group; it collects records and timers, and changes nothing."""

    __slots__ = ("_configs", "_configurations", "_validated_topology_epoch")

    NOUN = "streams group"

    def __init__(
        self,
        group: StreamsGroup,
        limits: GroupLimits,
        surroundings: Surroundings,
        hashes: MetadataHashes,
        configurations: TopologyCache,
        now_ms: int,
    ) -> None:
        super().__init__(group, limits, surroundings, hashes, now_ms)
        self._configurations = configurations
        self._configs = group.assignment_configs
        self._validated_topology_epoch = group.validated_topology_epoch

    # -- sessions

    def expect_heartbeat(self, member_id: str) -> None:
        """Restart the member's session; the member is removed if it sends nothing in that time."""
        settings = self.surroundings.streams_settings(self.group_id)
        self.begin_session(member_id, settings.session_timeout_ms)

    def expect_revocation(self, member: StreamsMember) -> None:
        """Set the timer that removes the member if it does not give up its tasks."""
        timer = RebalanceTimer(self.group_id, member.member_id, member.epoch)
        self.set_timer(timer, member.rebalance_timeout_ms)

    def end_revocation(self, member_id: str) -> None:
        self.cancel_timer(rebalance_key(self.group_id, member_id))

    def set_session(self, session: StreamsSession) -> None:
        if session != self.group.session:
            self.effects.soft = SessionOf(self.group_id, session)

    # -- the topology

    def configure(self, topology: Topology) -> ConfiguredTopology:
        """The configured topology.  Raises InvalidTopology."""
        image = self.surroundings.image
        return self._configurations.of_group(self.group_id, topology, image)

    # -- the epoch

    def epoch_record(self, epoch: int, metadata_hash: int) -> StreamsGroupEpoch:
        configs = [LastAssignmentConfig(key, value) for key, value in sorted(self._configs.items())]
        value = StreamsGroupMetadataValue(
            epoch, metadata_hash, self._validated_topology_epoch, configs
        )
        return StreamsGroupEpoch(StreamsGroupMetadataKey(self.group_id), value)

    def next_epoch_of(
        self, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
    ) -> int:
        """Begin the group's next epoch with a new topology or new settings.  Returns it."""
        self._validated_topology_epoch, self._configs = validated_topology_epoch, configs
        return self.next_epoch(metadata_hash)

    # -- the target

    def is_put_off(self) -> bool:
        """Whether `streams.assignment.interval.ms` delays the next target assignment."""
        interval_ms = self.surroundings.streams_settings(self.group_id).assignment_interval_ms
        return not may_be_computed(self.group.target_timestamp_ms, interval_ms, self.now_ms)

    def compute_target(
        self, members: Mapping[str, StreamsMember], plan: StreamsPlan
    ) -> Mapping[str, TaskSets]:
        """Compute the target assignment; `members` are those after the current request."""
        group = self.group
        tasks = target.compute(group, members.values(), plan.configured, plan.configs)
        for member_id, member_tasks in tasks.items():
            if group.target.get(member_id) != member_tasks:
                self.append(target.record(self.group_id, member_id, member_tasks))
        self.append(target.epoch_record(self.group_id, plan.epoch, self.now_ms))
        return tasks

    def last_target(self, member_id: str) -> StreamsTarget:
        return StreamsTarget(self.group.target_epoch, self.group.target_of(member_id))

    def no_target(self) -> StreamsTarget:
        """An empty target, while the first assignment is delayed."""
        return StreamsTarget(self.group.target_epoch, NO_TASKS)

    # -- leaving

    def fence(self, member_id: str) -> None:
        """Remove a member; the next epoch assigns its tasks to others."""
        group, group_id = self.group, self.group_id
        self.append(
            StreamsCurrentAssignment(
                StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None
            ),
            StreamsTargetAssignment(
                StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None
            ),
            StreamsMemberMetadata(StreamsGroupMemberMetadataKey(group_id, member_id), None),
        )
        self.next_epoch_of(
            group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        )
        self.end_session(member_id)
        self.end_revocation(member_id)

    def end_delay(self) -> None:
        self.set_session(replace(self.group.session, is_delayed=False))
