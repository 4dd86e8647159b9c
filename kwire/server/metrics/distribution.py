"""The distribution of a value over the last two minutes: quantiles, and a count and sum for ever.

Values are whole numbers from 0 on, of any unit (ns, bytes).  They are counted in buckets whose
width is a sixteenth of the value or less, so a quantile is wrong by 3.2 % at most; values below 32
are exact.  A distribution has at most 32 buckets for each doubling of the value.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final

SLICE_S: Final = 15
"""The age of the current slice at which `turn` is called."""

SLICES: Final = 8
"""The slices of the window: two minutes."""

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles that Apache Kafka's histograms have."""

_EXACT_BITS: Final = 5
_SUB_BUCKETS: Final = 1 << _EXACT_BITS


class Distribution:
    """Counts values; see the module.

    count   how many values were observed since the start
    sum     their sum
    """

    __slots__ = ("_counts", "_older", "_past", "count", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._older: deque[defaultdict[int, int]] = deque(maxlen=SLICES - 1)
        self._past: dict[int, int] | None = None
        """The older slices together; None until a scrape asks for them."""

    def observe(self, value: int, weight: int = 1) -> None:
        """Count `value` as `weight` equal values."""
        shift = value.bit_length() - _EXACT_BITS
        self._counts[shift << _EXACT_BITS | value >> shift if shift > 0 else value] += weight
        self.count += weight
        self.sum += value * weight

    def turn(self) -> None:
        """Begin a new slice of the window; the oldest slice is dropped."""
        if self._counts or any(self._older):
            self._older.append(self._counts)
            self._counts = defaultdict(int)
            self._past = None

    def window(self) -> dict[int, int]:
        """Return how often each bucket was hit in the window; see `quantiles_of`."""
        if self._past is None:
            self._past = _merged(self._older)
        return _merged((self._past, self._counts))

    def quantiles(self, points: Sequence[float] = QUANTILES, zeros: int = 0) -> list[float]:
        """Return the quantiles of the window, each 0 if it is empty; see `quantiles_of`."""
        return quantiles_of(self.window(), points, zeros)


def merged_window(distributions: Iterable[Distribution]) -> dict[int, int]:
    """The window of several distributions together."""
    return _merged([distribution.window() for distribution in distributions])


def quantiles_of(
    window: dict[int, int], points: Sequence[float] = QUANTILES, zeros: int = 0
) -> list[float]:
    """Return the quantiles of a window, in the unit of its values.

    `points` are ascending, from 0 to 1.  `zeros` is the number of further values that were 0 and
    not counted.
    """
    total = zeros + sum(window.values())
    if not total:
        return [0.0] * len(points)
    buckets = iter(sorted(window.items()))
    found: list[float] = []
    below, value = zeros, 0.0
    for point in points:
        while below < point * total:
            bucket, count = next(buckets)
            below += count
            value = middle_of(bucket)
        found.append(value)
    return found


def middle_of(bucket: int) -> float:
    """The value in the middle of a bucket."""
    shift, high_bits = bucket >> _EXACT_BITS, bucket & (_SUB_BUCKETS - 1)
    if shift == 0:
        return float(bucket)
    return float((high_bits << shift) + ((1 << shift) - 1) / 2)


def _merged(slices: Iterable[dict[int, int]]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for counts in slices:
        if merged:
            for bucket, count in counts.items():
                merged[bucket] = merged.get(bucket, 0) + count
        else:
            merged.update(counts)
    return merged
