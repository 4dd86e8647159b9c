"""A broker's time, which a test has go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kwire.testing.control import ControlClient


class Clock:
    """The clock of one broker; it begins with the world's time at each `reset`."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    @property
    def now_ms(self) -> int:
        """The broker's time in ms since the epoch.  Raises ControlError."""
        return int(self._said()["now_ms"])

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead of the world's; below 0 where it stood still.

        Raises ControlError.
        """
        return int(self._said()["ahead_ms"])

    @property
    def is_held(self) -> bool:
        """Whether it stands still.  Raises ControlError."""
        return bool(self._said()["held"])

    @contextmanager
    def held(self) -> Iterator[None]:
        """In a `with` block the broker's time stands still, but for what `advance` is asked for.

        Requests are served, and nothing comes due by itself.  Raises ControlError.
        """
        self._control.post("/clock", {"held": True})
        try:
            yield
        finally:
            self._control.post("/clock", {"held": False})

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Have so much time pass now: what comes due meanwhile is done, in its order.

        Timeouts of sessions, rebalances and transactions, retention, tokens; clients are not told
        of it, and hear what those hear that were away for so long.  Raises ControlError.
        """
        total_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        self._control.post("/clock", {"advance_ms": round(total_s * 1000)})

    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = self._control.get("/clock")
        return said
