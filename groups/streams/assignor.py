"""The assignor `sticky`: a task stays with its member, or where its state is, within a fair share.

1. Active tasks stay with their member, else go to a member that has them as a standby; in both
   cases up to an even share.  The rest go one by one to the process with the least load, and within
   it to the member with the fewest tasks.
2. Standbys of stateful tasks go in the same way to a process that does not have the task yet: first
   to the member that had it active, then to one that has its state, then to the process with the
   least load.

A member has the state of a task as a standby, or if it reports offsets of the task.  Standbys come
first, then those that are ahead of others.

The result equals Apache Kafka's.  Therefore it follows the iteration order of Java's maps and
queues, which decides which member gets which task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kwire.groups.java import HashTable, string_hash, table_size
from kwire.groups.java_queue import PriorityQueue
from kwire.groups.streams.process import Process
from kwire.groups.streams.tasks import NO_SUMS, Task, Tasks, TaskSets, TaskSums

NAME = "sticky"


class StreamsMemberSpec(NamedTuple):
    """A member; `has` are its present tasks, and `offsets` the state that it reports."""

    member_id: str
    process_id: str
    has: TaskSets
    offsets: TaskSums = NO_SUMS


class SubtopologySpec(NamedTuple):
    subtopology_id: str
    task_count: int
    stateful: bool


@dataclass(frozen=True, slots=True)
class StreamsGroupSpec:
    """A streams group; members in the order of Java's map, subtopologies ordered by id."""

    members: Sequence[StreamsMemberSpec]
    subtopologies: Sequence[SubtopologySpec]
    standbys: int
    """`num.standby.replicas`"""


class _Holder(NamedTuple):
    """A member that had a task, and its process."""

    process: Process
    member_id: str


class _Candidate(NamedTuple):
    """A member that has the state of a task, as a standby or from earlier."""

    holder: _Holder
    is_standby: bool
    offset: int

    @property
    def order(self) -> tuple[bool, int]:
        return not self.is_standby, -self.offset


@dataclass(slots=True)
class _Quota:
    """The fair share: the number of tasks for each member that has less than its share."""

    tasks: int
    members: int
    each: int = 0

    def __post_init__(self) -> None:
        # Rounded up.
        self.each = -(-self.tasks // self.members) if self.members else 0

    def filled(self, count: int) -> None:
        """Note that a member has `count` tasks now.

        At its share it leaves the division, and the other tasks are divided among the other
        members.
        """
        if count == self.each:
            self.members -= 1
            self.tasks -= count
            self.__post_init__()


class _Missing(NamedTuple):
    """A task and the number of its standbys that have no place yet."""

    task: Task
    standbys: int


def assign(spec: StreamsGroupSpec) -> dict[str, TaskSets]:
    """Member id -> tasks."""
    return _Assigning(spec).assign()


class _Assigning:
    """The assignment while it is computed."""

    def __init__(self, spec: StreamsGroupSpec) -> None:
        """Compute the quotas, and note who has which tasks now.

        A stateful task counts once as active and once for each standby.
        """
        self._spec = spec
        active = sum(subtopology.task_count for subtopology in spec.subtopologies)
        stateful = sum(
            subtopology.task_count for subtopology in spec.subtopologies if subtopology.stateful
        )
        self._active_quota = _Quota(active, len(spec.members))
        self._quota = _Quota(active + stateful * spec.standbys, len(spec.members))
        self._processes: dict[str, Process] = {}
        self._order = HashTable(string_hash, size=table_size(len(spec.members)))
        self._was_active: dict[Task, _Holder] = {}
        candidates: dict[Task, list[_Candidate]] = {}
        for member in spec.members:
            self._add_member(member, candidates)
        self._has_state = {
            task: [each.holder for each in sorted(these, key=lambda one: one.order)]
            for task, these in candidates.items()
        }

    def _add_member(
        self, member: StreamsMemberSpec, candidates: dict[Task, list[_Candidate]]
    ) -> None:
        """Add a member to its process, and note the tasks and the state that it has now."""
        process = self._processes.setdefault(member.process_id, Process())
        self._order.add(member.process_id, in_front=True)
        process.add_member(member.member_id)
        holder = _Holder(process, member.member_id)
        for task in _each(member.has.active):
            self._was_active[task] = holder
        for task in _each(member.has.standby):
            offset = member.offsets.get(task[0], {}).get(task[1], 0)
            candidates.setdefault(task, []).append(_Candidate(holder, True, offset))
        for subtopology, offsets in member.offsets.items():
            standbys = member.has.standby.get(subtopology, ())
            for partition, offset in offsets.items():
                if partition not in standbys:
                    reported = _Candidate(holder, False, offset)
                    candidates.setdefault((subtopology, partition), []).append(reported)

    def assign(self) -> dict[str, TaskSets]:
        """Return the tasks of each member id: active tasks first, then standbys.

        Warm-ups are not assigned.
        """
        self._assign_active(self._tasks())
        if self._spec.standbys:
            self._assign_standbys(self._tasks(stateful=True))
        return {
            member.member_id: TaskSets(
                _by_subtopology(process.active.get(member.member_id, ())),
                _by_subtopology(process.standby.get(member.member_id, ())),
            )
            for member in self._spec.members
            for process in (self._processes[member.process_id],)
        }

    def _tasks(self, *, stateful: bool = False) -> list[Task]:
        """Return all tasks, or only those with state, by subtopology and partition."""
        return [
            (subtopology.subtopology_id, partition)
            for subtopology in self._spec.subtopologies
            if subtopology.stateful or not stateful
            for partition in range(subtopology.task_count)
        ]

    # -- active tasks

    def _assign_active(self, tasks: list[Task]) -> None:
        """Assign each active task to one member, where it was or where its state is, if possible.

        The other tasks go one by one to the process with the lowest load.
        """
        tasks.sort(key=_by_partition)
        left = [task for task in tasks if not self._stays(task, self._was_active.get(task))]
        left = [task for task in left if not self._stays(task, self._with_state(task))]
        left.sort()
        queue = self._by_load()
        for task in left:
            process = queue.poll()
            assert process is not None, "a group that is assigned has members"
            self._count_active(process.give_least_loaded(task, active=True))
            queue.add(process)

    def _stays(self, task: Task, holder: _Holder | None) -> bool:
        """Give the task to `holder` if that is below its share.  Returns whether it was given."""
        if holder is None or holder.process.counts[holder.member_id] >= self._active_quota.each:
            return False
        self._count_active(holder.process.give(holder.member_id, task, active=True))
        return True

    def _count_active(self, count: int) -> None:
        self._active_quota.filled(count)
        self._quota.filled(count)

    def _with_state(self, task: Task) -> _Holder | None:
        return _least_loaded(self._has_state.get(task, ()), None)

    # -- standbys

    def _assign_standbys(self, tasks: list[Task]) -> None:
        """Assign the standbys of each task, as many as there are processes without it.

        Those that cannot follow the task's state go one by one to the process with the lowest load.
        """
        tasks.sort(key=_by_partition, reverse=True)
        missing: list[_Missing] = []
        for task in tasks:
            for placed in range(self._spec.standbys):
                if not self._follows(task):
                    missing.append(_Missing(task, self._spec.standbys - placed))
                    break
        missing.sort(key=lambda each: each.task, reverse=True)
        queue = self._by_load()
        for task, standbys in missing:
            for _ in range(standbys):
                if not self._place(queue, task):
                    break

    def _follows(self, task: Task) -> bool:
        """Place one standby where the task's state is, if possible.  Returns whether it was."""
        holder = self._was_active.get(task)
        if holder is not None and not holder.process.has(task) and self._keep_standby(holder, task):
            return True
        holder = _least_loaded(self._has_state.get(task, ()), task)
        return holder is not None and self._keep_standby(holder, task)

    def _keep_standby(self, holder: _Holder, task: Task) -> bool:
        """Give a standby to a member that has the task's state; return False at its share."""
        if holder.process.counts[holder.member_id] >= self._quota.each:
            return False
        self._quota.filled(holder.process.give(holder.member_id, task, active=False))
        return True

    def _place(self, queue: PriorityQueue[Process], task: Task) -> bool:
        """Give a standby to the least loaded process without the task.

        Returns False if each process has the task.
        """
        passed: list[Process] = []
        process = queue.poll()
        while process is not None and process.has(task) and len(queue):
            passed.append(process)
            process = queue.poll()
        if process is None:
            return False
        placed = not process.has(task)
        if placed:
            self._quota.filled(process.give_least_loaded(task, active=False))
        for each in (process, *reversed(passed)):
            queue.add(each)
        return placed

    def _by_load(self) -> PriorityQueue[Process]:
        processes = (self._processes[process_id] for process_id in self._order)
        return PriorityQueue(lambda process: process.load, processes)


def _least_loaded(holders: Sequence[_Holder], without: Task | None) -> _Holder | None:
    """The least loaded holder whose process does not have the task `without`, None if there is
    none.

    A later holder wins only if both its process and itself have a lower load.
    """
    best: _Holder | None = None
    load = count = 0.0
    for holder in holders:
        process = holder.process
        if without is not None and process.has(without):
            continue
        own_count = process.counts[holder.member_id]
        if best is None or (process.load < load and own_count < count):
            best, load, count = holder, process.load, own_count
    return best


def _each(tasks: Tasks) -> Iterable[Task]:
    return ((subtopology, partition) for subtopology, these in tasks.items() for partition in these)


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def _by_subtopology(tasks: Iterable[Task]) -> Mapping[str, frozenset[int]]:
    """Return the partitions of the tasks, by subtopology id."""
    partitions: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        partitions.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(these) for subtopology, these in partitions.items()}
