"""A test's view of a broker's clock: read it, hold it, advance it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kwire.testing.control import ControlClient


class Clock:
    """The clock of one broker; `reset` sets it to the real time again."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    @property
    def now_ms(self) -> int:
        """The broker's time in ms since the epoch.  Raises ControlError."""
        return int(self._state()["now_ms"])

    @property
    def ahead_ms(self) -> int:
        """How many ms the broker's time is ahead of the real time; negative after it was held.

        Raises ControlError.
        """
        return int(self._state()["ahead_ms"])

    @property
    def is_held(self) -> bool:
        """Whether the broker's time is held.  Raises ControlError."""
        return bool(self._state()["held"])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the broker's time during a `with` block; only `advance` moves it.

        The broker serves requests as usual, but no timer fires.  Raises ControlError.
        """
        self._control.post("/clock", {"held": True})
        try:
            yield
        finally:
            self._control.post("/clock", {"held": False})

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Advance the broker's time by that much; the timers in between fire in order.

        Session, rebalance and transaction timeouts expire, retention deletes segments, and tokens
        expire.  The clients' clocks do not change: to the broker, the clients have sent nothing for
        that long.  Raises ControlError.
        """
        total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        self._control.post("/clock", {"advance_ms": round(total_s * 1000)})

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._control.get("/clock")
        return state
