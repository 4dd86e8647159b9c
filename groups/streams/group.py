"""A streams group: the state that its records hold.

- `epoch` rises with each change of the members and their metadata, of the topology and its topics
  (`metadata_hash`), and of the settings for the assignment.
- `target` is the target assignment, computed for `target_epoch`, which follows the epoch.
- Each member moves to its target on its own (kwire.groups.streams.reconciliation).

All of it is durable, except the `session`.  A decision changes nothing here; only
`kwire.groups.streams.kind` does, when it applies records.  After a load, timeouts start again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from kwire.codecs.messages.list_groups import ListedGroup
from kwire.groups.group import Group
from kwire.groups.member_epochs import CommitPartition, MemberEpochs
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import NO_TASKS, TaskSets
from kwire.groups.streams.topology import Topology

STREAMS_TYPE = "streams"

FIRST_EPOCH = 1
"""Epoch of a new group; 0 is the epoch of a member that joins."""


class StreamsState(Enum):
    """Values are the names that ListGroups and StreamsGroupDescribe print."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The topology has a problem with its topics."""
    ASSIGNING = "Assigning"
    """The target assignment for the group's epoch is not computed yet."""
    RECONCILING = "Reconciling"
    STABLE = "Stable"


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


class SessionOf(NamedTuple):
    """The new session of a group: the soft state of GroupEffects."""

    group_id: str
    session: StreamsSession

    def install(self, groups: dict[str, Group]) -> None:
        """Set the group's session.  A shutdown request ends when the last member has left."""
        group, session = groups.get(self.group_id), self.session
        if isinstance(group, StreamsGroup):
            group.session = session if group.members else replace(session, shutdown_by=None)


Owners = dict[tuple[str, int], set[str]]
"""Task -> ids of the members that hold it."""


@dataclass(slots=True)
class StreamsGroup(MemberEpochs[StreamsMember]):
    """See the module.  Dicts keep the order in which members joined."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    """Epoch of the topology that has no problem with its topics; -1: none."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of the last assignment."""
    topology: Topology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """Time of the last computation of the target; 0: never."""
    target: dict[str, TaskSets] = field(default_factory=dict)
    active_owners: Owners = field(default_factory=dict)
    followers: Owners = field(default_factory=dict)
    """Owners of standby and warm-up tasks."""
    session: StreamsSession = StreamsSession()

    # -- changes by records

    def put(self, member: StreamsMember) -> None:
        """Add a member, or replace the one with the same id."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before)
        self.members[member.member_id] = member
        for owners, task in self._places(member):
            owners.setdefault(task, set()).add(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
        if not self.members:
            self.session = replace(self.session, shutdown_by=None)

    def _release(self, member: StreamsMember) -> None:
        for owners, task in self._places(member):
            held_by = owners.get(task)
            if held_by is not None:
                held_by.discard(member.member_id)
                if not held_by:
                    del owners[task]

    def _places(self, member: StreamsMember) -> Iterable[tuple[Owners, tuple[str, int]]]:
        for held in (member.assigned, member.revoking):
            for owners, tasks in (
                (self.active_owners, held.active),
                (self.followers, held.standby),
                (self.followers, held.warmup),
            ):
                for subtopology, partitions in tasks.items():
                    for partition in partitions:
                        yield owners, (subtopology, partition)

    # -- tasks

    def target_of(self, member_id: str) -> TaskSets:
        return self.target.get(member_id, NO_TASKS)

    def active_process(self, task: tuple[str, int]) -> str | None:
        """Id of the process in which the task is active, or None."""
        return next(iter(self._processes(self.active_owners, task)), None)

    def following_processes(self, task: tuple[str, int]) -> set[str]:
        """Ids of the processes that have the task as a standby or a warm-up."""
        return self._processes(self.followers, task)

    def _processes(self, owners: Owners, task: tuple[str, int]) -> set[str]:
        return {self.members[member_id].process_id for member_id in owners.get(task, ())}

    # -- the interface of any group (kwire.groups.group)

    @property
    def type_name(self) -> str:
        return STREAMS_TYPE

    @property
    def is_valid(self) -> bool:
        """Whether the current topology has no problem with its topics."""
        topology = self.topology
        return topology is not None and topology.epoch == self.validated_topology_epoch

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if not self.is_valid:
            return StreamsState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsState.ASSIGNING
        reconciled = all(m.reconciled_to(self.target_epoch) for m in self.members.values())
        return StreamsState.STABLE if reconciled else StreamsState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=STREAMS_TYPE,
            group_state=self.state_name,
            group_type=STREAMS_TYPE,
        )

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

    def is_subscribed_to(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return topic in self.topology.subtopology_of_source
