"""A value that comes later, for one task that waits for it."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Promise(Generic[T]):
    """Resolved once, from the loop's thread; waited for by at most one task.

    A value that nobody waits for any longer (its connection ended) is dropped.
    """

    __slots__ = ("_task", "_value", "resolved")

    _value: T

    def __init__(self) -> None:
        self.resolved = False
        self._task: trio.lowlevel.Task | None = None

    def resolve(self, value: T) -> None:
        assert not self.resolved, "a promise is resolved once"
        self.resolved = True
        self._value = value
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    @property
    def value(self) -> T:
        """The value of a promise that is resolved."""
        assert self.resolved
        return self._value

    async def wait(self) -> T:
        if self.resolved:
            await trio.lowlevel.checkpoint()
            return self._value
        assert self._task is None, "one task waits for a promise"
        self._task = trio.lowlevel.current_task()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        return self._value
