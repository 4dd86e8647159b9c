"""A process of a streams application while tasks are assigned to its members (its threads)."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.groups.java import HashTable, string_hash
from kwire.groups.java_queue import PriorityQueue
from kwire.groups.streams.tasks import Task


@dataclass(slots=True)
class _Loaded:
    """A member in its process's queue, with its number of tasks when it was put there."""

    member_id: str
    count: int


class Process:
    """The tasks assigned to a process; its load is tasks per member."""

    def __init__(self) -> None:
        """Begin a process without members and tasks."""
        self.counts: dict[str, int] = {}
        """Member id -> number of tasks assigned to it."""
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self._order = HashTable(string_hash)
        self._tasks: set[Task] = set()
        self._total = 0
        self._by_load: PriorityQueue[_Loaded] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0
        self._order.add(member_id)

    @property
    def load(self) -> float:
        return self._total / len(self.counts)

    def has(self, task: Task) -> bool:
        return task in self._tasks

    def give(self, member_id: str, task: Task, *, active: bool) -> int:
        """Assign a task to a member.  Returns the member's new number of tasks."""
        self._by_load = None
        return self._give(member_id, task, active)

    def give_least_loaded(self, task: Task, *, active: bool) -> int:
        """Assign a task to the member with the fewest.  Returns its new number of tasks.

        The order of equal members comes from a queue, which `give` resets.
        """
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, active)
        if self._by_load is None:
            loaded = (_Loaded(member_id, self.counts[member_id]) for member_id in self._order)
            self._by_load = PriorityQueue(lambda member: member.count, loaded)
        least = self._by_load.poll()
        assert least is not None, "a process has members"
        least.count = self._give(least.member_id, task, active)
        self._by_load.add(least)
        return least.count

    def _give(self, member_id: str, task: Task, active: bool) -> int:
        """Add a task to a member and to the load; return the member's number of tasks."""
        given = self.active if active else self.standby
        given.setdefault(member_id, set()).add(task)
        self._tasks.add(task)
        self._total += 1
        self.counts[member_id] += 1
        return self.counts[member_id]
