"""BrokerLife: the driver of a broker's lifecycle; it says which epoch the broker has.

One task runs `run`, from when the image is loaded until the broker has left.  Other parts wait for
what happens to the broker, and name its epoch in their requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.lifecycle import Effect, Lifecycle, Registered, Stop
from kwire.cluster.stores.kraft.observing import Refuse, Wait

if TYPE_CHECKING:
    from kwire.client.connection import Request

QUIET_MS: Final = 10_000
"""Troubles with the controllers are logged at most this often."""

_logger = logging.getLogger(__name__)


class Calls(Protocol):
    """Sends requests to the leading controller: `controllers.ControllerChannel`."""

    async def call(self, request: Request, timeout_ms: float) -> Any:  # noqa: ANN401 - the request's
        """Return the answer.  Raises PeerError."""


def steady_ms() -> int:
    """Return the time of trio's clock, which does not go back."""
    return int(trio.current_time() * 1000)


class BrokerLife:
    """See the module.

    `offset` returns the offset of the newest record in this broker's image.  `told` gets each
    effect, in their order.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        channel: Calls,
        offset: Callable[[], int],
        told: Callable[[Effect], None] | None = None,
    ) -> None:
        self._lifecycle = lifecycle
        self._channel = channel
        self._offset = offset
        self._told = told
        self._woken = trio.Event()
        self._changed = trio.Event()
        self._ended: Stop | StoreError | None = None
        self._warned_ms = -QUIET_MS

    # -- what others see

    @property
    def broker_id(self) -> int:
        """The node id of this broker."""
        return self._lifecycle.identity.broker_id

    @property
    def epoch(self) -> int:
        """The epoch of this broker; -1 before its first registration."""
        return self._lifecycle.epoch

    @property
    def is_fenced(self) -> bool:
        """Whether the controllers said last that this broker is fenced."""
        return self._lifecycle.is_fenced

    @property
    def is_caught_up(self) -> bool:
        """Whether this broker's image has its own registration, as the controllers said."""
        return self._lifecycle.is_caught_up

    @property
    def has_session(self) -> bool:
        """Whether the controllers certainly have not fenced this broker for its silence.

        `lifecycle` says what a broker may do without a session.
        """
        return self._lifecycle.has_session(steady_ms())

    async def wait_registered(self) -> int:
        """Wait until this broker is registered; return its epoch.  Raises StoreError."""
        await self._wait(lambda: self._lifecycle.is_registered)
        return self.epoch

    async def wait_caught_up(self) -> None:
        """Wait until this broker's image has its own registration.  Raises StoreError."""
        await self._wait(lambda: self._lifecycle.is_caught_up)

    async def wait_unfenced(self) -> None:
        """Wait until the controllers count on this broker.  Raises StoreError."""
        await self._wait(lambda: not self._lifecycle.is_fenced)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if isinstance(self._ended, StoreError):
                raise self._ended
            if self._ended is not None:
                raise StoreError("this broker has left the cluster")
            await self._changed.wait()

    # -- what others say

    def ready(self) -> None:
        """This broker is ready to serve: ask the controllers to unfence it."""
        self._lifecycle.ready()
        self.wake()

    def set_directories(
        self, offline: tuple[bytes, ...], cordoned: tuple[bytes, ...] | None
    ) -> None:
        """Tell the controllers of failed and of cordoned log directories, at once.

        `cordoned` is None while the cluster's metadata.version has no cordoned directories.
        """
        self._lifecycle.set_directories(offline, cordoned, steady_ms())
        self.wake()

    async def leave(self) -> bool:
        """Shut down under control; return whether the controllers agreed before the limit."""
        self._lifecycle.leave(steady_ms())
        self.wake()
        while self._ended is None:
            await self._changed.wait()
        return isinstance(self._ended, Stop) and self._ended.is_controlled

    def wake(self) -> None:
        """Look again what is to be done: the image has changed, or something above."""
        woken, self._woken = self._woken, trio.Event()
        woken.set()

    # -- the task

    async def run(self) -> None:
        """Keep this broker registered until it has left.

        Raises StoreError if the controllers refuse it, or have not accepted it in time.
        """
        lifecycle = self._lifecycle
        while True:
            lifecycle.offset = self._offset()
            step = lifecycle.step(steady_ms())
            match step:
                case Stop():
                    self._end(step)
                    return
                case Refuse(why):
                    failure = StoreError(why)
                    self._end(failure)
                    raise failure
                case Wait(until_ms):
                    woken = self._woken
                    with trio.move_on_after(max(until_ms - steady_ms(), 0) / 1000):
                        await woken.wait()
                    continue
            try:
                answer = await self._channel.call(step.request, step.timeout_ms)
            except PeerError as error:
                lifecycle.failed(step, str(error), steady_ms())
            else:
                for effect in lifecycle.answered(step, answer, steady_ms()):
                    self._tell(effect)
                self._wake_waiting()
            self._warn()

    def _end(self, ended: Stop | StoreError) -> None:
        self._ended = ended
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _tell(self, effect: Effect) -> None:
        if isinstance(effect, Registered):
            _logger.info("Broker %d is registered, its epoch is %d.", self.broker_id, effect.epoch)
        else:
            _logger.info("Broker %d is %s.", self.broker_id, effect.value)
        if self._told is not None:
            self._told(effect)

    def _warn(self) -> None:
        """Log why the controllers do not take this broker, not more often than each QUIET_MS."""
        trouble, now_ms = self._lifecycle.trouble, steady_ms()
        if trouble is not None and now_ms - self._warned_ms >= QUIET_MS:
            self._warned_ms = now_ms
            _logger.warning(
                "the controllers have not accepted the last request: %s; trying again", trouble
            )
