"""An assigned group: the state that its records hold.

- `epoch` rises with each change of what the target assignment depends on: the members and their
  subscriptions, the subscribed topics (`metadata_hash`), and what each kind of groups adds.
- `target` is the target assignment, computed for `target_epoch`, which follows the epoch.

All of it is durable.  A decision changes nothing here; only `apply` of a record does.  After a
load, sessions and rebalance timeouts start again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.groups.assigned.member import AssignedMember
from kwire.groups.group import Group

FIRST_EPOCH = 1
"""Epoch of a group before its first subscription; 0 is the epoch of a member that joins."""

M = TypeVar("M", bound=AssignedMember[Any])
T = TypeVar("T")
"""The target of one member: partitions or tasks."""


class AssignedGroupState(Enum):
    """Values are the names that ListGroups and the descriptions of groups print."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """A target assignment cannot be computed: the topology of a streams group has a problem."""
    ASSIGNING = "Assigning"
    """The target assignment for the group's epoch is not computed yet."""
    RECONCILING = "Reconciling"
    """Members are on their way to their targets."""
    STABLE = "Stable"


@dataclass(slots=True)
class AssignedGroup(Group, ABC, Generic[M, T]):
    """See the module.  Dicts keep the order in which members joined."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, M] = field(default_factory=dict)
    target_epoch: int = FIRST_EPOCH
    target_timestamp_ms: int = 0
    """Time of the last computation; 0 if never, or if a broker did not write the time."""
    target: dict[str, T] = field(default_factory=dict)
    """Member id -> target."""

    type_name: ClassVar[str]
    member_class: ClassVar[type[Any]]
    NO_TARGET: ClassVar[Any]
    """The target of a member for which none was computed."""

    # -- changes by records

    def put(self, member: M) -> None:
        """Add a member, or replace the one with the same id."""
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None:
            self.unindex(before)
        self.index(member)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it exists."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.unindex(member)

    def index(self, member: M) -> None:
        """Add a member to the group's indexes, such as the owner of each partition."""

    def unindex(self, member: M) -> None:
        """Remove a member from the group's indexes: undo `index`."""

    def follow_epoch(self, value: Any) -> None:  # noqa: ANN401 - of the kind's GroupEpoch record
        """Apply the record of the group's epoch."""
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    @staticmethod
    @abstractmethod
    def read_target(value: Any) -> T:  # noqa: ANN401 - of the kind's TargetAssignment record
        """The target in the record of one member's target assignment."""

    @abstractmethod
    def follow_own(self, record: Any) -> None:  # noqa: ANN401 - one of the kind's records
        """Apply a record that only this kind of groups has."""

    def target_of(self, member_id: str) -> T:
        target: T = self.target.get(member_id, self.NO_TARGET)
        return target

    # -- the interface of any group (kwire.groups.group)

    @property
    def is_ready(self) -> bool:
        """Whether a target assignment can be computed."""
        return True

    @property
    def state(self) -> AssignedGroupState:
        """The group's state, which follows from its epochs and its members.

        ASSIGNING: the target assignment is older than the group's epoch.  RECONCILING: not all
        members have reached their target.
        """
        if not self.members:
            return AssignedGroupState.EMPTY
        if not self.is_ready:
            return AssignedGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return AssignedGroupState.ASSIGNING
        reconciled = all(m.reconciled_to(self.target_epoch) for m in self.members.values())
        return AssignedGroupState.STABLE if reconciled else AssignedGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    def listed(self) -> ListedGroup:
        """Return the group's entry in the ListGroups response."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.type_name,
            group_state=self.state_name,
            group_type=self.type_name,
        )

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def has_description(self) -> bool:
        return False

    def retention_start_ms(self, commit_timestamp_ms: int) -> int:
        return commit_timestamp_ms
