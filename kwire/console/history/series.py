"""Values over time, by the name of what they are about, for a limited time and in limited memory.

A sample is one row: an array of floats with a place for each series.  So a value takes four bytes,
and 720 samples of 11,000 series take 32 MB.  If there are more, every second row of the older half
is dropped: the hour stays, with less detail.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise
from threading import Lock
from typing import Final, NamedTuple

SPAN_MS: Final = 3_600_000
"""How long samples are kept."""
VALUES_MAX: Final = 8_000_000
"""The most values of all rows together; they take 32 MB."""
SERIES_MAX: Final = 25_000
"""The most series: two of each of 10,000 topics, some of each of 1,000 groups."""
DIGITS: Final = 6
"""Significant digits of a value; a float of four bytes has seven."""


class SeriesKey(NamedTuple):
    """The name of a series: what is measured, of what, and of which part of it."""

    kind: str
    name: str = ""
    part: str = ""


class SeriesPoint(NamedTuple):
    """A value at a time, in ms since 1970; None if the value is unknown."""

    time_ms: int
    value: float | None


class SampledRow(NamedTuple):
    """One sample: its time, and a value for each place, NaN if unknown."""

    time_ms: int
    values: array[float]


class SampleHistory:
    """The samples of the last hour.  Its methods may be called from several threads."""

    def __init__(
        self, *, span_ms: int = SPAN_MS, values_max: int = VALUES_MAX, series_max: int = SERIES_MAX
    ) -> None:
        self._span_ms = span_ms
        self._values_max = values_max
        self._series_max = series_max
        self._places: dict[SeriesKey, int] = {}
        self._last_seen_ms: dict[SeriesKey, int] = {}
        self._free: list[int] = []
        self._rows: list[SampledRow] = []
        self._lock = Lock()
        self.left_out = 0
        """How many series of the last sample had no place."""

    def add(self, time_ms: int, values: Mapping[SeriesKey, float | None]) -> None:
        """Add a sample.  Series that it lacks have no value at this time."""
        with self._lock:
            self._forget_before(time_ms - self._span_ms)
            row = array("f", [math.nan]) * (len(self._places) + len(self._free))
            self.left_out = 0
            for key, value in values.items():
                if value is None:
                    continue
                place = self._place_of(key)
                if place is None:
                    self.left_out += 1
                    continue
                if place >= len(row):
                    row.extend([math.nan] * (place - len(row) + 1))
                row[place] = value
                self._last_seen_ms[key] = time_ms
            self._rows.append(SampledRow(time_ms, row))
            self._thin_out()

    def points(self, key: SeriesKey) -> list[SeriesPoint]:
        """The values of a series, the oldest first; empty if there is no such series."""
        with self._lock:
            place = self._places.get(key)
            if place is None:
                return []
            return [SeriesPoint(row.time_ms, _value(row, place)) for row in self._rows]

    def last(self, key: SeriesKey) -> float | None:
        """The value of a series in the last sample, or None."""
        with self._lock:
            place = self._places.get(key)
            return None if place is None or not self._rows else _value(self._rows[-1], place)

    def keys(self, kind: str, name: str | None = None) -> list[SeriesKey]:
        """The series of a kind, or only those about one name, sorted."""
        with self._lock:
            wanted = (key for key in self._places if key.kind == kind)
            return sorted(key for key in wanted if name in (None, key.name))

    @property
    def last_ms(self) -> int | None:
        """The time of the last sample, or None."""
        with self._lock:
            return self._rows[-1].time_ms if self._rows else None

    def _place_of(self, key: SeriesKey) -> int | None:
        """The place of a series in each row, a new one if it has none; None if all are taken."""
        place = self._places.get(key)
        if place is not None:
            return place
        if len(self._places) >= self._series_max:
            return None
        if self._free:
            place = self._free.pop()
            for row in self._rows:  # the values of the series that had the place
                if place < len(row.values):
                    row.values[place] = math.nan
        else:
            place = len(self._places)
        self._places[key] = place
        return place

    def _forget_before(self, time_ms: int) -> None:
        """Drop old rows, and the series that have no value since then."""
        self._rows = [row for row in self._rows if row.time_ms >= time_ms]
        for key in [key for key, seen_ms in self._last_seen_ms.items() if seen_ms < time_ms]:
            del self._last_seen_ms[key]
            self._free.append(self._places.pop(key))

    def _thin_out(self) -> None:
        """Drop rows while there are too many values; the newest half keeps all of its rows."""
        while len(self._rows) > 2 and self._values > self._values_max:
            half = len(self._rows) // 2
            self._rows = [*self._rows[:half][::2], *self._rows[half:]]
            if half < 2:
                self._rows = self._rows[1:]

    @property
    def _values(self) -> int:
        return sum(len(row.values) for row in self._rows)


def _value(row: SampledRow, place: int) -> float | None:
    """The value at a place of a row, without the digits that a float of four bytes invents."""
    value = row.values[place] if place < len(row.values) else math.nan
    return None if math.isnan(value) else float(f"{value:.{DIGITS}g}")


def thinned(points: Iterable[SeriesPoint], count: int) -> list[SeriesPoint]:
    """At most `count` points, each the one with the highest value of a part of all points.

    So a plot of few points shows each peak.
    """
    given = list(points)
    if len(given) <= count:
        return given
    bounds = [round(number * len(given) / count) for number in range(count + 1)]
    return [
        max(given[start:end], key=lambda point: -math.inf if point.value is None else point.value)
        for start, end in pairwise(bounds)
    ]
