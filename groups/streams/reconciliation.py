"""Reconciliation: moves a member from its current tasks to its target, step by step.

1. The member gives up the tasks that are not in its target.  It stays in its epoch
   (UNREVOKED_TASKS) until a heartbeat shows that it does not own them any more.
2. It moves to the target's epoch and gets the tasks of its target that are free.  It waits for the
   others (UNRELEASED_TASKS).

An active task is free if it is not active anywhere.  In addition, a process that has a task in any
role cannot get it in another role, because all roles use the same state directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember, StreamsMemberState
from kwire.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    Task,
    Tasks,
    TaskSets,
    TasksSince,
)


@dataclass(frozen=True, slots=True)
class StreamsTarget:
    """One member's target and the epoch that it was computed for."""

    epoch: int
    tasks: TaskSets


@dataclass(slots=True)
class _Sorted:
    """Tasks of one role to keep, to revoke and to add, and whether others are not released yet.

    Each maps subtopology -> partition -> the epoch in which it was assigned; the epoch matters for
    active tasks only.
    """

    kept: dict[str, dict[int, int]]
    revoked: dict[str, dict[int, int]]
    free: dict[str, dict[int, int]]
    is_waiting: bool = False

    @property
    def given(self) -> TasksSince:
        """The kept tasks together with the added ones."""
        given = {subtopology: dict(these) for subtopology, these in self.kept.items()}
        for subtopology, these in self.free.items():
            given.setdefault(subtopology, {}).update(these)
        return given


@dataclass(frozen=True, slots=True)
class StreamsReconciliation:
    """The step of one member with one heartbeat."""

    member: StreamsMember
    target: StreamsTarget
    owned: TaskSets | None
    """The tasks that the heartbeat lists as owned; None: unchanged since the last list."""
    group: StreamsGroup

    def step(self) -> StreamsMember | None:
        """The member after the step, or None if it must give up everything and rejoin."""
        member = self.member
        match member.state:
            case StreamsMemberState.STABLE if member.epoch == self.target.epoch:
                return member
            case StreamsMemberState.UNREVOKED_TASKS:
                return member if self._owns_any(member.revoking) else self._next(member.epoch + 1)
            case StreamsMemberState.UNKNOWN if self.owned is None or not self.owned.is_empty:
                return None
        return self._next(member.epoch)

    def _owns_any(self, revoked: HeldTasks) -> bool:
        """Whether the member may still own some of these; True if the heartbeat has no list."""
        return self.owned is None or revoked.has_any(self.owned)

    def _next(self, epoch: int) -> StreamsMember:
        assigned, tasks = self.member.assigned, self.target.tasks
        active = self._sort(assigned.active, tasks.active, self._is_active_unreleased)
        standby = self._sort(_since(assigned.standby), tasks.standby, self._is_unreleased)
        warmup = self._sort(_since(assigned.warmup), tasks.warmup, self._is_unreleased)
        revoked = HeldTasks(active.revoked, _sets(standby.revoked), _sets(warmup.revoked))
        if not revoked.is_empty and self._owns_any(revoked):
            kept = HeldTasks(active.kept, _sets(standby.kept), _sets(warmup.kept))
            return self._at(epoch, StreamsMemberState.UNREVOKED_TASKS, kept, revoked)
        given = HeldTasks(active.given, _sets(standby.given), _sets(warmup.given))
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        state = StreamsMemberState.UNRELEASED_TASKS if is_waiting else StreamsMemberState.STABLE
        return self._at(self.target.epoch, state, given, NOTHING_HELD)

    def _sort(
        self, current: TasksSince, target: Tasks, is_unreleased: Callable[[Task], bool]
    ) -> _Sorted:
        result = _Sorted({}, {}, {})
        for subtopology in {**target, **current}:
            goal, held = target.get(subtopology, frozenset()), current.get(subtopology, {})
            missing = [partition for partition in goal if partition not in held]
            free = [p for p in missing if not is_unreleased((subtopology, p))]
            result.is_waiting = result.is_waiting or len(free) < len(missing)
            for tasks, partitions in (
                (result.kept, {p: since for p, since in held.items() if p in goal}),
                (result.revoked, {p: since for p, since in held.items() if p not in goal}),
                (result.free, dict.fromkeys(free, self.target.epoch)),
            ):
                if partitions:
                    tasks[subtopology] = partitions
        return result

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
        self, epoch: int, state: StreamsMemberState, assigned: HeldTasks, revoking: HeldTasks
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
