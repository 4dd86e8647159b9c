"""A member of an assigned group: its metadata, its epoch and what it has.

state       meaning
----------  --------------------------------------------------------------------------------------
STABLE      it has all of its target; members of share groups are always in this state
UNREVOKED   it must give something up before it moves to the next epoch; it has done so when a
            heartbeat does not list it as owned any more
UNRELEASED  it is in the new epoch, and waits for what other members still hold
UNKNOWN     a newer broker wrote a state that is unknown here
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, ClassVar, Generic, Self, TypeVar

from kwire.groups.assigned.records import CurrentAssignment, MemberMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""A static member leaves but keeps its partitions; the next member with its instance id gets
them."""

NO_REBALANCE_TIMEOUT = -1

H = TypeVar("H")
"""What a member has: partitions or tasks."""


class MemberState(Enum):
    """See the module.  Each kind of groups has its own numbers for these states in records."""

    STABLE = auto()
    UNREVOKED = auto()
    UNRELEASED = auto()
    UNKNOWN = auto()


UNKNOWN_STATE = 127


@dataclass(frozen=True)
class AssignedMember(ABC, Generic[H]):
    """See the module.  Immutable: a change makes a new one."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As the description of the group shows it, with Java's leading slash."""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: H = field(kw_only=True)
    revoking: H = field(kw_only=True)
    """What the member must give up."""

    NOTHING: ClassVar[Any]
    """The value of `assigned` and `revoking` of a member that has nothing."""
    STATE_NUMBERS: ClassVar[Mapping[MemberState, int]]
    """The states as numbers in records."""

    @property
    def assigned_in_no_epoch(self) -> H:
        """What the member has, each with epoch 0: what a record says while the member is away."""
        return self.assigned

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    # -- records

    @abstractmethod
    def to_metadata(self, group_id: str) -> MemberMetadata[Any, Any]:
        """The record of the member's metadata."""

    @abstractmethod
    def with_metadata(self, value: Any) -> Self:  # noqa: ANN401 - the kind's value
        """The member after the record of its metadata."""

    @abstractmethod
    def to_assignment(self, group_id: str) -> CurrentAssignment[Any, Any]:
        """The record of the member's current assignment."""

    @abstractmethod
    def with_assignment(self, value: Any) -> Self:  # noqa: ANN401 - the kind's value
        """The member after the record of its current assignment."""

    def without_assignment(self) -> Self:
        """The member after the tombstone of its current assignment."""
        nothing = self.NOTHING
        return replace(self, epoch=-1, previous_epoch=-1, assigned=nothing, revoking=nothing)

    @property
    def state_number(self) -> int:
        """The state as a number in the record of the current assignment."""
        return self.STATE_NUMBERS[self.state]

    @classmethod
    def state_of(cls, number: int) -> MemberState:
        """The state with this number in a record."""
        numbers = cls.STATE_NUMBERS.items()
        return next((state for state, known in numbers if known == number), MemberState.UNKNOWN)


V = TypeVar("V")


def given(value: V | None, unchanged: V) -> V:
    """The value of a field of a heartbeat; None means that it has not changed."""
    return unchanged if value is None else value


def state_numbers(first: int) -> Mapping[MemberState, int]:
    """The numbers of the states in records, from `first` on."""
    known = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED
    return {MemberState.UNKNOWN: UNKNOWN_STATE} | {s: first + n for n, s in enumerate(known)}


def with_epochs(
    partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int
) -> dict[int, int]:
    """Partition -> the epoch in which it was assigned, from a record of a current assignment.

    Brokers before 4.3 wrote no epochs of partitions: the member epoch is used then.
    """
    if epochs is None or len(epochs) != len(partitions):
        epochs = [member_epoch] * len(partitions)
    return dict(zip(partitions, epochs, strict=True))
