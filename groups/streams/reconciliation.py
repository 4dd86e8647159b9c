"""Reconciliation of a streams group's member (kwire.groups.assigned.reconciliation).

A member gets an active task when no other member has it as active.  The roles of a task share one
state directory in each process.  So a member does not get a task while another member of its
process has the task in another role.  A member may change the role of a task that it has itself:

active to standby, standby to warm-up, warm-up to standby     at once
standby or warm-up to active     when no other member has it as active; it keeps its role until then
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kwire.groups.assigned.member import MemberState
from kwire.groups.assigned.reconciliation import (
    NextStep,
    Reconciliation,
    TargetDifference,
    difference,
)
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
        standby = difference(
            _since(assigned.standby), target.standby, epoch, self._is_standby_unreleased
        )
        warmup = difference(
            _since(assigned.warmup), target.warmup, epoch, self._is_warmup_unreleased
        )
        # A task that only changes its role is not revoked and added: the member keeps it.
        _convert(assigned.active, standby, from_role=None)
        _convert(assigned.standby, warmup, from_role=standby)
        _convert(assigned.warmup, standby, from_role=warmup)
        promoted = (
            (standby, self._promoted(assigned.standby)),
            (warmup, self._promoted(assigned.warmup)),
        )
        # A task that becomes active stays in its present role until the member gets it as active.
        for role, tasks in promoted:
            for task in tasks:
                _drop(role.revoked, task)
        revoked = HeldTasks(active.revoked, _sets(standby.revoked), _sets(warmup.revoked))
        waits = bool(revoked) and self.owns_any(revoked)
        for role, tasks in promoted:
            for subtopology, partition in tasks:
                if waits or partition not in active.added.get(subtopology, ()):
                    role.kept.setdefault(subtopology, {})[partition] = 0
        return NextStep(
            HeldTasks(active.kept, _sets(standby.kept), _sets(warmup.kept)),
            revoked,
            HeldTasks(active.given, _sets(standby.given), _sets(warmup.given)),
            active.is_waiting or standby.is_waiting or warmup.is_waiting,
        )

    def _promoted(self, tasks: Tasks) -> list[Task]:
        """Those of `tasks` that the target assigns to this member as active."""
        goal = self.target.assignment.active
        return [
            (subtopology, partition)
            for subtopology, these in tasks.items()
            for partition in these
            if partition in goal.get(subtopology, ())
        ]

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
        """Whether the task is active anywhere, or another member of the process has it."""
        return (
            self.group.active_process(task) is not None
            or self._is_standby_of_other(task)
            or self._is_warmup_of_other(task)
        )

    def _is_standby_unreleased(self, task: Task) -> bool:
        """Whether the process still has the task as a standby, or another member in another role.

        "Another member" is one of the same process.
        """
        process_id = self.member.process_id
        own = task[1] in self.member.assigned.active.get(task[0], ())
        return (
            (self.group.active_process(task) == process_id and not own)
            or process_id in self.group.standby_processes(task)
            or self._is_warmup_of_other(task)
        )

    def _is_warmup_unreleased(self, task: Task) -> bool:
        """Whether the process has the task as active or a warm-up, or another member as a standby.

        "Another member" is one of the same process.
        """
        process_id = self.member.process_id
        return (
            self.group.active_process(task) == process_id
            or self._is_standby_of_other(task)
            or process_id in self.group.warmup_processes(task)
        )

    def _is_standby_of_other(self, task: Task) -> bool:
        """Whether a member of the process, but not this one, has the task as a standby."""
        own = task[1] in self.member.assigned.standby.get(task[0], ())
        return not own and self.member.process_id in self.group.standby_processes(task)

    def _is_warmup_of_other(self, task: Task) -> bool:
        """Whether a member of the process, but not this one, has the task as a warm-up."""
        own = task[1] in self.member.assigned.warmup.get(task[0], ())
        return not own and self.member.process_id in self.group.warmup_processes(task)


def _convert(
    held: Mapping[str, Iterable[int]],
    into: TargetDifference[str],
    from_role: TargetDifference[str] | None,
) -> None:
    """Move tasks of `held` that the member is to get in the role `into` from added to kept.

    The role that it has them in, `from_role`, does not revoke them.  It is None for active tasks:
    the member must stop processing these first.
    """
    for subtopology, partitions in held.items():
        for partition in partitions:
            if partition in into.added.get(subtopology, ()):
                _drop(into.added, (subtopology, partition))
                into.kept.setdefault(subtopology, {})[partition] = 0
                if from_role is not None:
                    _drop(from_role.revoked, (subtopology, partition))


def _drop(tasks: dict[str, dict[int, int]], task: Task) -> None:
    """Remove a task, if it is there; no subtopology is left without tasks."""
    partitions = tasks.get(task[0], {})
    partitions.pop(task[1], None)
    if not partitions:
        tasks.pop(task[0], None)


def _since(tasks: Tasks) -> TasksSince:
    return {subtopology: dict.fromkeys(these, 0) for subtopology, these in tasks.items()}


def _sets(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    return {subtopology: frozenset(these) for subtopology, these in tasks.items()}
