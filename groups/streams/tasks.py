"""Tasks: a task is a subtopology and a partition number of its input and state.

A task is active in one member, which processes its records.  A standby keeps a copy of its state in
another process, for a fast takeover.  A warm-up does so for a while, until the task moves there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from kwire.groups.java import HashTable, string_hash

Task = tuple[str, int]
"""(subtopology id, partition)"""

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions; none is empty."""

TasksSince = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the epoch in which it was assigned to the member."""


class TaskIds(Protocol):
    """The tasks of one subtopology, in a request or a record."""

    subtopology_id: str
    partitions: list[int]


@dataclass(frozen=True)
class TaskSets:
    """The tasks of a member's target, or those that a member lists as owned."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)


@dataclass(frozen=True)
class HeldTasks:
    """The tasks that a member has, or that it must give up."""

    active: TasksSince = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    @property
    def followed(self) -> Tasks:
        """The standbys and the warm-ups together."""
        names = {**self.standby, **self.warmup}
        none: frozenset[int] = frozenset()
        return {n: self.standby.get(n, none) | self.warmup.get(n, none) for n in names}

    @property
    def sets(self) -> TaskSets:
        """The tasks without the epochs in which they were assigned."""
        active = {name: frozenset(these) for name, these in self.active.items()}
        return TaskSets(active, self.standby, self.warmup)

    def has_any(self, owned: TaskSets) -> bool:
        """Return whether one of the `owned` tasks is among these, in the same role."""
        pairs = (
            (owned.active, self.active),
            (owned.standby, self.standby),
            (owned.warmup, self.warmup),
        )
        return any(
            not these.isdisjoint(held.get(subtopology, ()))
            for tasks, held in pairs
            for subtopology, these in tasks.items()
        )

    def has_all(self, owned: TaskSets) -> bool:
        """Return whether all of the `owned` tasks are among these, in the same role."""
        return all(
            subtopology in held and these <= set(held[subtopology])
            for tasks, held in (
                (owned.active, self.active),
                (owned.standby, self.standby),
                (owned.warmup, self.warmup),
            )
            for subtopology, these in tasks.items()
        )


NO_TASKS = TaskSets()
NOTHING_HELD = HeldTasks()


def tasks_of(listed: Iterable[TaskIds]) -> Tasks:
    return {each.subtopology_id: frozenset(each.partitions) for each in listed}


TaskSums = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the sum of the offsets of the task's changelogs."""


NO_SUMS: TaskSums = {}


class TaskOffsets(NamedTuple):
    """What a member reports of the state that it has on its disk, not only of its own tasks."""

    offsets: TaskSums
    end_offsets: TaskSums


NO_OFFSETS = TaskOffsets(NO_SUMS, NO_SUMS)


T = TypeVar("T")


def listed(
    tasks: Mapping[str, Iterable[int]], made: Callable[[str, list[int]], T], *, told: bool = False
) -> list[T]:
    """Return the tasks of each subtopology, as `made` builds them, sorted by id.

    With `told` the subtopologies have the order of Java's map, as in responses to clients.
    """
    order: Iterable[str] = sorted(tasks)
    if told:
        order = HashTable(string_hash, order)
    return [made(subtopology, sorted(tasks[subtopology])) for subtopology in order]
