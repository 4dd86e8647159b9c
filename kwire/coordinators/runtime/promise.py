"""A value that comes later, for one task that waits for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")
R = TypeVar("R")


class Promise(Generic[T]):
    """Resolved once, from the loop's thread; waited for by at most one task.

    A value that nobody waits for any longer (its connection ended) is dropped.
    """

    __slots__ = ("_callbacks", "_task", "_value", "resolved")

    _value: T

    def __init__(self) -> None:
        self.resolved = False
        self._task: trio.lowlevel.Task | None = None
        self._callbacks: list[Callable[[T], None]] = []

    def resolve(self, value: T) -> None:
        assert not self.resolved, "a promise is resolved once"
        self.resolved = True
        self._value = value
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def when_resolved(self, callback: Callable[[T], None]) -> None:
        """Have a function called with the value, at once if it is there, besides who waits."""
        if self.resolved:
            callback(self._value)
        else:
            self._callbacks.append(callback)

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


class Later(Generic[T, R]):
    """The response that is made of a promise's value; awaited once.

    Who wants to know when that is decided asks the promise: who awaits it has its turn later, and
    others may have had theirs meanwhile.
    """

    __slots__ = ("_shape", "promise")

    def __init__(self, promise: Promise[T], shape: Callable[[T], R]) -> None:
        self.promise = promise
        self._shape = shape

    def __await__(self) -> Generator[Any, Any, R]:
        return self._wait().__await__()

    async def _wait(self) -> R:
        return self._shape(await self.promise.wait())


async def answered(reply: T | Promise[T]) -> T:
    """The value of a reply that may come later."""
    return await reply.wait() if isinstance(reply, Promise) else reply


def then(reply: T | Promise[T], shape: Callable[[T], R]) -> R | Awaitable[R]:
    """The response that `shape` makes of a reply: at once if the reply is there."""
    return Later(reply, shape) if isinstance(reply, Promise) else shape(reply)


def then_all(replies: Sequence[T | Promise[T]], shape: Callable[[list[T]], R]) -> R | Awaitable[R]:
    """The response that `shape` makes of several replies, in their order."""
    there = [reply for reply in replies if not isinstance(reply, Promise)]
    return shape(there) if len(there) == len(replies) else _once_all_there(replies, shape)


async def _once_all_there(replies: Sequence[T | Promise[T]], shape: Callable[[list[T]], R]) -> R:
    return shape([await answered(reply) for reply in replies])
