"""A promise: a value that is set later, for one task that waits for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")
R = TypeVar("R")


class Promise(Generic[T]):
    """A value that is set once, in the event loop's thread.  At most one task waits for it.

    If the waiting task is cancelled (its connection closed), the value is dropped.
    """

    __slots__ = ("_callbacks", "_task", "_value", "resolved")

    _value: T

    def __init__(self) -> None:
        self.resolved = False
        self._task: trio.lowlevel.Task | None = None
        self._callbacks: tuple[Callable[[T], None], ...] = ()

    def resolve(self, value: T) -> None:
        """Sets the value, wakes the waiting task, then calls the callbacks with the value."""
        assert not self.resolved, "a promise is resolved once"
        self.resolved = True
        self._value = value
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(value)

    def when_resolved(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value: at once if it is set, else when it is."""
        if self.resolved:
            callback(self._value)
        else:
            self._callbacks += (callback,)

    @property
    def value(self) -> T:
        """The value; the promise must be resolved."""
        assert self.resolved
        return self._value

    async def wait(self) -> T:
        """Return the value once it is set.

        A cancelled wait leaves the promise as it is; it may be awaited again.
        """
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


class MappedPromise(Generic[T, R]):
    """An awaitable of `shape(value)` for the value of a promise; it can be awaited once.

    To act at the moment when the value is set, use `promise.when_resolved`: a task that awaits runs
    later, and other tasks may have run in between.
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
    """The reply itself, or the value of its promise once that is resolved."""
    return await reply.wait() if isinstance(reply, Promise) else reply


def then(reply: T | Promise[T], shape: Callable[[T], R]) -> R | Awaitable[R]:
    """`shape(reply)`: at once if the reply is not a promise, else as an awaitable."""
    return MappedPromise(reply, shape) if isinstance(reply, Promise) else shape(reply)


def then_all(replies: Sequence[T | Promise[T]], shape: Callable[[list[T]], R]) -> R | Awaitable[R]:
    """`shape` of several replies in their order: at once if none of them is a promise."""
    available = [reply for reply in replies if not isinstance(reply, Promise)]
    return shape(available) if len(available) == len(replies) else _when_all(replies, shape)


async def _when_all(replies: Sequence[T | Promise[T]], shape: Callable[[list[T]], R]) -> R:
    return shape([await answered(reply) for reply in replies])
