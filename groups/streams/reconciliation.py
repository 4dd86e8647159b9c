"""Reconciliation of a streams group's member (kwire.groups.assigned.reconciliation).

An active task is free if it is not active anywhere.  In addition, a process that has a task in any
role cannot get it in another role, because all roles use the same state directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kwire.groups.assigned.member import MemberState
from kwire.groups.assigned.reconciliation import NextStep, Reconciliation, difference
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.tasks import HeldTasks, Task, Tasks, TaskSets, TasksSince


@dataclass(frozen=True, slots=True)
class StreamsReconciliation(Reconciliation[StreamsMember, TaskSets, HeldTasks]):
    """The step of one member with one heartbeat."""

    owned: TaskSets | None
    """The tasks that the heartbeat lists as owned; None: unchanged since the last list."""
    group: StreamsGroup

    def compare(self) -> NextStep[HeldTasks]:
        """Return the next step towards the target, for the tasks of all three roles."""
        assigned, target, epoch = self.member.assigned, self.target.assignment, self.target.epoch
        active = difference(assigned.active, target.active, epoch, self._is_active_unreleased)
        standby, warmup = (
            difference(_since(tasks), goal, epoch, self._is_unreleased)
            for tasks, goal in (
                (assigned.standby, target.standby),
                (assigned.warmup, target.warmup),
            )
        )
        return NextStep(
            HeldTasks(active.kept, _sets(standby.kept), _sets(warmup.kept)),
            HeldTasks(active.revoked, _sets(standby.revoked), _sets(warmup.revoked)),
            HeldTasks(active.given, _sets(standby.given), _sets(warmup.given)),
            active.is_waiting or standby.is_waiting or warmup.is_waiting,
        )

    def owns_any(self, revoked: HeldTasks) -> bool:
        return self.owned is None or revoked.has_any(self.owned)

    @property
    def owns_nothing(self) -> bool:
        return self.owned is not None and not self.owned

    @property
    def revocation_epoch(self) -> int:
        """A member that has given up tasks, and must give up others, is in the next epoch."""
        return self.member.epoch + (self.member.state is MemberState.UNREVOKED)

    def _is_active_unreleased(self, task: Task) -> bool:
        """Return whether the member cannot get the active task yet.

        It is active elsewhere, or the member's own process still has it in another role.
        """
        if self.group.active_process(task) is not None:
            return True
        return self.member.process_id in self.group.following_processes(task)

    def _is_unreleased(self, task: Task) -> bool:
        """Return whether the member's process still has the task, in any role."""
        process_id = self.member.process_id
        if self.group.active_process(task) == process_id:
            return True
        return process_id in self.group.following_processes(task)


def _since(tasks: Tasks) -> TasksSince:
    return {subtopology: dict.fromkeys(these, 0) for subtopology, these in tasks.items()}


def _sets(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    return {subtopology: frozenset(these) for subtopology, these in tasks.items()}
