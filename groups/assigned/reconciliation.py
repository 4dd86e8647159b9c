"""Reconciliation: moves a member from what it has to its target, step by step.

1. The member gives up what is not in its target.  It stays in its epoch (UNREVOKED) until a request
   shows that it does not own it any more.
2. It moves to the target's epoch and gets what is free of its target.  It waits for what other
   members still hold (UNRELEASED).

So nothing ever has two owners.  Members of share groups need none of this: they share partitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

from kwire.groups.assigned.group import M, T
from kwire.groups.assigned.member import H, MemberState
from kwire.groups.assigned.target import MemberTarget

K = TypeVar("K")
"""A topic id, or a subtopology id."""


@dataclass(slots=True)
class TargetDifference(Generic[K]):
    """Partitions to keep, to revoke and to add: each with the epoch in which it was assigned."""

    kept: dict[K, dict[int, int]] = field(default_factory=dict)
    revoked: dict[K, dict[int, int]] = field(default_factory=dict)
    added: dict[K, dict[int, int]] = field(default_factory=dict)
    is_waiting: bool = False
    """Whether other partitions of the target are not released yet."""

    @property
    def given(self) -> dict[K, dict[int, int]]:
        """The kept partitions together with the added ones."""
        given = dict(self.kept)
        for key, partitions in self.added.items():
            given[key] = {**given.get(key, {}), **partitions}
        return given


def difference(
    current: Mapping[K, Mapping[int, int]],
    target: Mapping[K, Collection[int]],
    target_epoch: int,
    is_unreleased: Callable[[tuple[K, int]], bool],
) -> TargetDifference[K]:
    """Return what a member keeps, gives up and gets, on the way from `current` to `target`.

    `is_unreleased` says whether another member still holds a partition: the member has to wait for
    it.
    """
    result: TargetDifference[K] = TargetDifference()
    for key in {**target, **current}:
        goal, held = target.get(key, ()), current.get(key, {})
        missing = [partition for partition in sorted(goal) if partition not in held]
        free = [partition for partition in missing if not is_unreleased((key, partition))]
        result.is_waiting = result.is_waiting or len(free) < len(missing)
        for part, partitions in (
            (result.kept, {p: epoch for p, epoch in held.items() if p in goal}),
            (result.revoked, {p: epoch for p, epoch in held.items() if p not in goal}),
            (result.added, dict.fromkeys(free, target_epoch)),
        ):
            if partitions:
                part[key] = partitions
    return result


class NextStep(NamedTuple, Generic[H]):
    """What a member may get: `kept` until it has given up `revoked`, then `given`."""

    kept: H
    revoked: H
    given: H
    is_waiting: bool
    """Whether the target has more than `given`."""


@dataclass(frozen=True, slots=True)
class Reconciliation(ABC, Generic[M, T, H]):
    """The step of one member with one request."""

    member: M
    target: MemberTarget[T]

    @abstractmethod
    def compare(self) -> NextStep[H]:
        """Compare what the member has with its target."""

    @abstractmethod
    def owns_any(self, revoked: H) -> bool:
        """Whether the member may still own some of these; True if the request has no list."""

    @property
    @abstractmethod
    def owns_nothing(self) -> bool:
        """Whether the request lists what the member owns, and the list is empty."""

    def without_step(self) -> M:
        """Return the member that has reached its target, or must first give something up."""
        return self.member

    @property
    def revocation_epoch(self) -> int:
        """The epoch in which a member waits while it has to give something up."""
        return self.member.epoch

    def step(self) -> M | None:
        """Return the member after the step, or None if it must give up everything and rejoin.

        None happens only to a member whose state in the log is unknown, and which still owns
        something.
        """
        member = self.member
        match member.state:
            case MemberState.STABLE if member.epoch == self.target.epoch:
                return self.without_step()
            case MemberState.UNREVOKED if self.owns_any(member.revoking):
                return self.without_step()
            case MemberState.UNKNOWN if not self.owns_nothing:
                return None
        kept, revoked, given, is_waiting = self.compare()
        if revoked and self.owns_any(revoked):
            return self._at(self.revocation_epoch, MemberState.UNREVOKED, kept, revoked)
        state = MemberState.UNRELEASED if is_waiting else MemberState.STABLE
        return self._at(self.target.epoch, state, given, member.NOTHING)

    def _at(self, epoch: int, state: MemberState, assigned: H, revoking: H) -> M:
        """Return the member in `epoch` and `state`, with these partitions or tasks.

        Its present epoch becomes the previous one: the next heartbeat may still have it.
        """
        return replace(
            self.member,
            epoch=epoch,
            previous_epoch=self.member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )
