"""A streams group: everything that its records say of it, and what follows from that.

- `epoch` grows with each change of who is in the group and what they say of themselves, of the
  topology and its topics (`metadata_hash`), and of the settings that tasks are dealt out by.
- `target` says who is to have which tasks as of `target_epoch`, which follows the epoch.
- Each member gets there on its own (kwire.groups.streams.reconciliation).

All of it is durable but the `session`: a decision changes nothing here, only
`kwire.groups.streams.kind` does when it applies records.  Timeouts begin anew when a partition has
been loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from kwire.codecs.messages.list_groups import ListedGroup
from kwire.groups.group import Group
from kwire.groups.member_epochs import MemberEpochs, Place
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import NO_TASKS, TaskSets
from kwire.groups.streams.topology import Topology

STREAMS_TYPE = "streams"

FIRST_EPOCH = 1
"""Of a group that nobody has ever been in; 0 is a member's that joins."""


class StreamsState(Enum):
    """Values are the names that ListGroups and StreamsGroupDescribe print."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The topology's topics are not as they must be."""
    ASSIGNING = "Assigning"
    """The target assignment is to be computed for the group's epoch."""
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Session:
    """What no record says of a group: it is lost when the coordinator is."""

    is_delayed: bool = False
    """Whether the first assignment waits for more members to join."""
    endpoint_epoch: int = 0
    """Grows when tasks have moved that can be asked for at an endpoint."""
    shutdown_by: str | None = None
    """The member that asked all others to stop."""
    is_configured: bool = False
    """Whether the topology's topics were as they must be when a member was heard of last."""


class SessionOf(NamedTuple):
    """The session of a group as it is from now on: `soft` of Effects."""

    group_id: str
    session: Session

    def settle(self, groups: dict[str, Group]) -> None:
        """The request for a shutdown ends with the last member."""
        group, session = groups.get(self.group_id), self.session
        if isinstance(group, StreamsGroup):
            group.session = session if group.members else replace(session, shutdown_by=None)


Owners = dict[tuple[str, int], set[str]]
"""Task -> the members that hold it."""


@dataclass(slots=True)
class StreamsGroup(MemberEpochs[StreamsMember]):
    """See the module.  Dicts keep the order in which members came."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    """Of the topology whose topics were found as they must be; -1: of none."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """What the last assignment went by."""
    topology: Topology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """When the target was computed last; 0: never."""
    target: dict[str, TaskSets] = field(default_factory=dict)
    active_owners: Owners = field(default_factory=dict)
    followers: Owners = field(default_factory=dict)
    """Of standbys and warm-ups."""
    session: Session = Session()

    # -- following its records

    def put(self, member: StreamsMember) -> None:
        """A member that is new, or takes the place of the one with its id."""
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

    # -- who has what

    def target_of(self, member_id: str) -> TaskSets:
        return self.target.get(member_id, NO_TASKS)

    def active_process(self, task: tuple[str, int]) -> str | None:
        """The process in which a task is active."""
        return next(iter(self._processes(self.active_owners, task)), None)

    def following_processes(self, task: tuple[str, int]) -> set[str]:
        """Those that have a task as a standby or a warm-up."""
        return self._processes(self.followers, task)

    def _processes(self, owners: Owners, task: tuple[str, int]) -> set[str]:
        return {self.members[each].process_id for each in owners.get(task, ())}

    # -- as any group (kwire.groups.group)

    @property
    def type_name(self) -> str:
        return STREAMS_TYPE

    @property
    def is_valid(self) -> bool:
        """Whether its topology was found as it must be."""
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

    def given_since(self, member: StreamsMember, place: Place) -> int | None:
        """Of the active task that reads the partition."""
        if self.topology is None:
            return None
        subtopology = self.topology.subtopology_of_source.get(place.topic)
        return (
            None if subtopology is None else member.assignment_epoch(subtopology, place.partition)
        )

    def is_subscribed_to(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return topic in self.topology.subtopology_of_source
