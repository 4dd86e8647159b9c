"""Pages go before the work that runs beside them.

A thread that decodes many topics slows down a page that is made at the same time, because threads
of Python take turns.  So samples, and results that are renewed, wait for the pages first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

QUIET_S: Final = 0.25
"""How long no page has been made when other work begins.  A browser takes about so long to fetch a
page's files and to paint it."""
WAIT_S_MAX: Final = 2.0
"""The longest wait, so that other work goes on while pages are made all the time."""
LOOK_AGAIN_S: Final = 0.02
"""The time after which a waiting thread looks again whether a page is still being made."""


class PagesFirst:
    """Knows when pages are made.  Only `wait` may be called by other threads than the loop's."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` and `sleep` are in seconds."""
        self._clock = clock
        self._sleep = sleep
        self._in_progress = 0
        self._last_end_s: float | None = None

    @contextmanager
    def page(self) -> Iterator[None]:
        """A page is being made in this block."""
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1
            self._last_end_s = self._clock()

    def wait(self) -> None:
        """Block this thread until no page was made for QUIET_S, or for WAIT_S_MAX."""
        deadline_s = self._clock() + WAIT_S_MAX
        while (pause_s := self._pause_s()) > 0 and self._clock() < deadline_s:
            self._sleep(pause_s)

    def _pause_s(self) -> float:
        """How long to wait before looking again, or 0 if nothing has to wait."""
        if self._in_progress:
            return LOOK_AGAIN_S
        if self._last_end_s is None:
            return 0.0
        return max(0.0, self._last_end_s + QUIET_S - self._clock())
