"""A streams group: the state that its records hold.

Besides what kwire.groups.assigned.group has, it has the topology of the application and the owners
of each task.  The settings for the assignment are part of what its epoch depends on.  All of it is
durable, except the `session`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from kwire.codecs.messages.coordinator.streams_group_metadata import StreamsGroupMetadataValue
from kwire.codecs.messages.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberValue,
)
from kwire.groups.assigned.committing import CommitPartition
from kwire.groups.assigned.static_members import StaticGroup
from kwire.groups.group import Group
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.records import TopologyRecord
from kwire.groups.streams.tasks import NO_TASKS, TaskOffsets, TaskSets, tasks_of
from kwire.groups.streams.topology import Topology

STREAMS_TYPE = "streams"
NO_EPOCH = -1
UNCERTAIN_EPOCH = -2
"""The plug-in may have a description: it was called, and the outcome is not in the log yet."""


class DescriptionEpochs(NamedTuple):
    """Which descriptions of a group's topology the plug-in has, by epochs of the topology.

    NO_EPOCH stands for none.
    """

    topology: int = NO_EPOCH
    """The epoch of the present topology."""
    stored: int = NO_EPOCH
    """The epoch of the description that the plug-in has; UNCERTAIN_EPOCH if it may have one."""
    failed: int = NO_EPOCH
    """The epoch of the description that the plug-in refused for good."""

    @property
    def is_missing(self) -> bool:
        """Whether the plug-in lacks the description of the present topology, and may get it."""
        return self.topology >= 0 and self.topology not in (self.stored, self.failed)


NO_DESCRIPTIONS = DescriptionEpochs()


@dataclass(frozen=True, slots=True)
class StreamsSession:
    """The state of a group that is not in records; a new coordinator starts without it."""

    is_delayed: bool = False
    """Whether the first assignment waits for more members to join."""
    endpoint_epoch: int = 0
    """Rises when tasks of a member with an endpoint have moved."""
    shutdown_by: str | None = None
    """Id of the member that requested the shutdown of the application."""
    is_configured: bool = False
    """Whether the topology had no problem at the last heartbeat."""
    task_offsets: Mapping[str, TaskOffsets] = field(default_factory=dict)
    """Member id -> the offsets that it reported last."""


class SessionOf(NamedTuple):
    """The new session of a group: the soft state of GroupEffects."""

    group_id: str
    session: StreamsSession

    def install(self, groups: dict[str, Group]) -> None:
        """Set the group's session.  A shutdown request ends when the last member has left."""
        group, session = groups.get(self.group_id), self.session
        if isinstance(group, StreamsGroup):
            offsets = {
                member_id: offsets
                for member_id, offsets in session.task_offsets.items()
                if member_id in group.members
            }
            session = replace(session, task_offsets=offsets)
            group.session = session if group.members else replace(session, shutdown_by=None)


Owners = dict[tuple[str, int], set[str]]
"""Task -> ids of the members that hold it."""


@dataclass(slots=True)
class StreamsGroup(StaticGroup[StreamsMember, TaskSets]):
    """See the module."""

    validated_topology_epoch: int = NO_EPOCH
    """Epoch of the topology that has no problem with its topics; -1: none."""
    stored_description_epoch: int = NO_EPOCH
    """See DescriptionEpochs.stored."""
    failed_description_epoch: int = NO_EPOCH
    """See DescriptionEpochs.failed."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of the last assignment."""
    topology: Topology | None = None
    active_owners: Owners = field(default_factory=dict)
    standby_owners: Owners = field(default_factory=dict)
    warmup_owners: Owners = field(default_factory=dict)
    session: StreamsSession = StreamsSession()

    type_name: ClassVar[str] = STREAMS_TYPE
    member_class = StreamsMember
    NO_TARGET = NO_TASKS

    # -- changes by records

    def index(self, member: StreamsMember) -> None:
        """Note the member's tasks and its instance id."""
        StaticGroup.index(self, member)
        for owners, task in self._places(member):
            owners.setdefault(task, set()).add(member.member_id)

    def unindex(self, member: StreamsMember) -> None:
        """Remove the member from the owners of its tasks, and its instance id."""
        StaticGroup.unindex(self, member)
        for owners, task in self._places(member):
            held_by = owners.get(task)
            if held_by is not None:
                held_by.discard(member.member_id)
                if not held_by:
                    del owners[task]

    def remove(self, member_id: str) -> None:
        """Remove a member; the last one ends a shutdown that was requested."""
        StaticGroup.remove(self, member_id)
        if member_id in self.session.task_offsets:
            offsets = {**self.session.task_offsets}
            del offsets[member_id]
            self.session = replace(self.session, task_offsets=offsets)
        if not self.members:
            self.session = replace(self.session, shutdown_by=None)

    def _places(self, member: StreamsMember) -> Iterable[tuple[Owners, tuple[str, int]]]:
        """Yield each task that the member has or gives up, with the map of owners for its role."""
        for held in (member.assigned, member.revoking):
            for owners, tasks in (
                (self.active_owners, held.active),
                (self.standby_owners, held.standby),
                (self.warmup_owners, held.warmup),
            ):
                for subtopology, partitions in tasks.items():
                    for partition in partitions:
                        yield owners, (subtopology, partition)

    def follow_epoch(self, value: StreamsGroupMetadataValue) -> None:
        StaticGroup.follow_epoch(self, value)
        self.validated_topology_epoch = value.validated_topology_epoch
        self.stored_description_epoch = value.stored_description_topology_epoch
        self.failed_description_epoch = value.failed_description_topology_epoch
        configs = value.last_assignment_configs or ()
        self.assignment_configs = {config.key: config.value for config in configs}

    @staticmethod
    def read_target(value: StreamsGroupTargetAssignmentMemberValue) -> TaskSets:
        return TaskSets(
            tasks_of(value.active_tasks),
            tasks_of(value.standby_tasks),
            tasks_of(value.warmup_tasks),
        )

    def follow_own(self, record: TopologyRecord) -> None:
        self.topology = None if record.value is None else Topology(record.value)

    # -- tasks

    def active_process(self, task: tuple[str, int]) -> str | None:
        """Id of the process in which the task is active, or None."""
        return next(iter(self._processes(self.active_owners, task)), None)

    def standby_processes(self, task: tuple[str, int]) -> set[str]:
        """Ids of the processes that have the task as a standby."""
        return self._processes(self.standby_owners, task)

    def warmup_processes(self, task: tuple[str, int]) -> set[str]:
        """Ids of the processes that have the task as a warm-up."""
        return self._processes(self.warmup_owners, task)

    def _processes(self, owners: Owners, task: tuple[str, int]) -> set[str]:
        return {self.members[member_id].process_id for member_id in owners.get(task, ())}

    # -- the topology

    @property
    def description_epochs(self) -> DescriptionEpochs:
        return DescriptionEpochs(
            self.topology_epoch, self.stored_description_epoch, self.failed_description_epoch
        )

    @property
    def has_description(self) -> bool:
        """Whether the plug-in has, or may have, a description of a topology of the group."""
        return self.stored_description_epoch != NO_EPOCH

    @property
    def topology_epoch(self) -> int:
        """The epoch of the group's topology; -1 without one."""
        return NO_EPOCH if self.topology is None else self.topology.epoch

    @property
    def is_ready(self) -> bool:
        """Whether the current topology has no problem with its topics."""
        topology = self.topology
        return topology is not None and topology.epoch == self.validated_topology_epoch

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the tasks of a group with members read the topic."""
        if not self.members or self.topology is None:
            return False
        return topic in self.topology.subtopology_of_source

    def assigned_since_epoch(self, member: StreamsMember, partition: CommitPartition) -> int | None:
        """The epoch in which the active task that reads the partition was assigned."""
        if self.topology is None:
            return None
        subtopology = self.topology.subtopology_of_source.get(partition.topic)
        return (
            None
            if subtopology is None
            else member.assignment_epoch(subtopology, partition.partition)
        )
