"""Rates and token buckets for quotas, with the formulas of Apache Kafka's metrics.

Times are milliseconds of any clock that does not go back.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    """The measured time: `quota.window.num` windows of `quota.window.size.seconds`."""

    count: int = 11
    size_ms: int = 1000


class _Window:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: float) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """The amount per second over the last windows: Kafka's Rate of a WindowedSum.

    For a new client the windows before its first request count as empty, so that an initial burst
    does not count as its rate.
    """

    __slots__ = ("_current", "_ring", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._ring: list[_Window] = []
        self._current = 0

    def record(self, amount: float, now_ms: float) -> None:
        window = self._window(now_ms)
        window.total += amount
        window.last_ms = now_ms

    def per_second(self, now_ms: float) -> float:
        span_ms = self.span_ms(now_ms)
        return sum(window.total for window in self._ring) * 1000 / span_ms

    def span_ms(self, now_ms: float) -> float:
        """Return the time in ms over which the rate is measured."""
        size_ms, full_windows_min = self._windows.size_ms, self._windows.count - 1
        elapsed_ms = self._elapsed_ms(now_ms)
        full_windows = elapsed_ms // size_ms
        if full_windows < full_windows_min:
            elapsed_ms += (full_windows_min - full_windows) * size_ms
        return max(elapsed_ms, 1)

    def _elapsed_ms(self, now_ms: float) -> float:
        """The time in ms since the start of the oldest window; creates the first window."""
        self._forget(now_ms)
        if not self._ring:
            self._ring.append(_Window(now_ms))
        return now_ms - min(window.start_ms for window in self._ring)

    def _window(self, now_ms: float) -> _Window:
        """Return the current window; starts the next one if its time is over."""
        ring = self._ring
        if not ring:
            ring.append(_Window(now_ms))
        current = ring[self._current]
        if now_ms - current.start_ms < self._windows.size_ms:
            return current
        self._current = (self._current + 1) % (self._windows.count + 1)
        if self._current == len(ring):
            ring.append(_Window(now_ms))
        else:
            ring[self._current].reset(now_ms)
        return ring[self._current]

    def _forget(self, now_ms: float) -> None:
        """Reset windows that are older than the measured time."""
        age_ms = self._windows.count * self._windows.size_ms
        for window in self._ring:
            if now_ms - window.last_ms >= age_ms:
                window.reset(now_ms)


class SimpleRate(Rate):
    """Kafka's SimpleRate: counts no empty windows before the first, but at least one window."""

    __slots__ = ()

    def span_ms(self, now_ms: float) -> float:
        return max(self._elapsed_ms(now_ms), self._windows.size_ms)


def throttle_ms(rate: Rate, bound: float, now_ms: float) -> int:
    """The throttle time in ms after which the rate is down to `bound`; 0 if it is not above."""
    value = rate.per_second(now_ms)
    if not value > bound:
        return 0
    return round((value - bound) / bound * rate.span_ms(now_ms))


class TokenBucket:
    """A bucket of tokens that fills at a rate and may be overdrawn (KIP-599).

    It holds the tokens of all windows, so a burst of that size causes no throttle time.
    """

    __slots__ = ("_last_ms", "_rate", "_tokens", "_windows")

    def __init__(self, windows: Windows, rate: float, now_ms: float) -> None:
        self._windows = windows
        self._rate = rate
        self._last_ms = now_ms
        self._tokens = self._most

    @property
    def _most(self) -> float:
        return self._windows.count * self._windows.size_ms / 1000 * self._rate

    def change(self, rate: float, now_ms: float) -> None:
        """Fill the bucket at another rate from now on."""
        self._fill(now_ms)
        self._rate = rate
        self._tokens = min(self._tokens, self._most)

    def take(self, count: float, now_ms: float) -> None:
        self._fill(now_ms)
        self._tokens = min(self._most, self._tokens - count)

    def throttle_ms(self, now_ms: float) -> int:
        """The time in ms until the bucket is no longer overdrawn; 0 if it is not."""
        self._fill(now_ms)
        return round(-self._tokens / self._rate * 1000) if self._tokens < 0 else 0

    def _fill(self, now_ms: float) -> None:
        elapsed_s = (now_ms - self._last_ms) / 1000
        self._tokens = min(self._most, self._tokens + self._rate * elapsed_s)
        self._last_ms = now_ms
