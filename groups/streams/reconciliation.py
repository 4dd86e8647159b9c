"""How a member gets from the tasks that it has to those of the target assignment.

It gives up first what it is not to have: until it says that it does not own that any more it stays
in its epoch (UNREVOKED_TASKS).  Then it is in the target's epoch, with all of the target that is
free; for the rest it waits (UNRELEASED_TASKS).  A task is free as an active one if it is not active
anywhere; and in a process that has it in any way, as nothing else: its state is one directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import MemberState, StreamsMember
from kwire.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    Task,
    Tasks,
    TaskSets,
    TasksSince,
)


@dataclass(frozen=True, slots=True)
class Target:
    """What a member is to have, since which epoch."""

    epoch: int
    tasks: TaskSets


@dataclass(slots=True)
class _Sorted:
    """What of one kind of tasks a member keeps, gives up and gets, and whether it waits for more.

    Each is a task and the epoch in which it was given, which counts for active tasks only.
    """

    kept: dict[str, dict[int, int]]
    revoked: dict[str, dict[int, int]]
    free: dict[str, dict[int, int]]
    is_waiting: bool = False

    @property
    def given(self) -> TasksSince:
        """What it has with what it gets."""
        given = {subtopology: dict(these) for subtopology, these in self.kept.items()}
        for subtopology, these in self.free.items():
            given.setdefault(subtopology, {}).update(these)
        return given


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One heartbeat's step of one member."""

    member: StreamsMember
    target: Target
    owned: TaskSets | None
    """What it says it owns; None: nothing has changed since it said so last."""
    group: StreamsGroup

    def step(self) -> StreamsMember | None:
        """The member as it is next; None: it must let go of everything and join anew."""
        member = self.member
        match member.state:
            case MemberState.STABLE if member.epoch == self.target.epoch:
                return member
            case MemberState.UNREVOKED_TASKS:
                return member if self._owns_any(member.revoking) else self._next(member.epoch + 1)
            case MemberState.UNKNOWN if self.owned is None or not self.owned.is_empty:
                return None
        return self._next(member.epoch)

    def _owns_any(self, revoked: HeldTasks) -> bool:
        """Who does not say what it owns may own it still."""
        return self.owned is None or revoked.has_any(self.owned)

    def _next(self, epoch: int) -> StreamsMember:
        assigned, tasks = self.member.assigned, self.target.tasks
        active = self._sort(assigned.active, tasks.active, self._is_active_unreleased)
        standby = self._sort(_since(assigned.standby), tasks.standby, self._is_unreleased)
        warmup = self._sort(_since(assigned.warmup), tasks.warmup, self._is_unreleased)
        revoked = HeldTasks(active.revoked, _sets(standby.revoked), _sets(warmup.revoked))
        if not revoked.is_empty and self._owns_any(revoked):
            kept = HeldTasks(active.kept, _sets(standby.kept), _sets(warmup.kept))
            return self._at(epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
        given = HeldTasks(active.given, _sets(standby.given), _sets(warmup.given))
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
        return self._at(self.target.epoch, state, given, NOTHING_HELD)

    def _sort(
        self, has: TasksSince, wanted: Tasks, is_unreleased: Callable[[Task], bool]
    ) -> _Sorted:
        found = _Sorted({}, {}, {})
        for subtopology in {**wanted, **has}:
            goal, held = wanted.get(subtopology, frozenset()), has.get(subtopology, {})
            missing = [partition for partition in goal if partition not in held]
            free = [p for p in missing if not is_unreleased((subtopology, p))]
            found.is_waiting = found.is_waiting or len(free) < len(missing)
            for place, what in (
                (found.kept, {p: since for p, since in held.items() if p in goal}),
                (found.revoked, {p: since for p, since in held.items() if p not in goal}),
                (found.free, dict.fromkeys(free, self.target.epoch)),
            ):
                if what:
                    place[subtopology] = what
        return found

    def _is_active_unreleased(self, task: Task) -> bool:
        if self.group.active_process(task) is not None:
            return True
        return self.member.process_id in self.group.following_processes(task)

    def _is_unreleased(self, task: Task) -> bool:
        process_id = self.member.process_id
        if self.group.active_process(task) == process_id:
            return True
        return process_id in self.group.following_processes(task)

    def _at(
        self, epoch: int, state: MemberState, assigned: HeldTasks, revoking: HeldTasks
    ) -> StreamsMember:
        return replace(
            self.member,
            epoch=epoch,
            previous_epoch=self.member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )


def _since(tasks: Tasks) -> TasksSince:
    return {subtopology: dict.fromkeys(these, 0) for subtopology, these in tasks.items()}


def _sets(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    return {subtopology: frozenset(these) for subtopology, these in tasks.items()}
