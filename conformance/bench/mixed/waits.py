"""How long the requests of one kind of client took, in a form that several blocks add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

DIGITS = 3
"""The significant digits of a time, as many as the report shows."""


class Percentiles(NamedTuple):
    """How long the requests of one kind of client took, in ms, and their number."""

    requests: int
    p50: float
    p99: float
    p999: float
    longest: float


class Histogram:
    """The number of requests that took each time, in ns with three significant digits."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self._counts = Counter(counts or {})

    @classmethod
    def of(cls, times_ns: Iterable[int]) -> Self:
        """Return the histogram of these times."""
        return cls(Counter(map(rounded, times_ns)))

    @classmethod
    def read(cls, counts: Mapping[str, int]) -> Self:
        """Return what `as_json` has made."""
        return cls({int(time_ns): count for time_ns, count in counts.items()})

    def as_json(self) -> dict[str, int]:
        return {str(time_ns): count for time_ns, count in sorted(self._counts.items())}

    def add(self, other: Histogram) -> None:
        """Count the requests of another block, too."""
        self._counts.update(other._counts)

    def percentiles(self) -> Percentiles:
        """Return the percentiles over all requests, of which there must be one at least."""
        total = self._counts.total()
        ordered = sorted(self._counts.items())

        def below(share: float) -> float:
            """The time in ms below which this share of the requests lies, as `load.percentile`."""
            left = min(int(total * share), total - 1)
            for time_ns, count in ordered:
                if left < count:
                    return time_ns / 1e6
                left -= count
            raise AssertionError("more requests than counted")

        return Percentiles(total, below(0.5), below(0.99), below(0.999), ordered[-1][0] / 1e6)


def rounded(time_ns: int) -> int:
    """Return the time with three significant digits."""
    return round(time_ns, DIGITS - len(str(time_ns))) if time_ns >= 10**DIGITS else time_ns
