"""Sends the load to both brokers, and compares what their metrics say of it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kwire.conformance.metrics import coordinated, load
from kwire.conformance.metrics.compared import COMPARED, Compared, Measure
from kwire.conformance.metrics.load import Load
from kwire.conformance.metrics.scrape import Scrape, read
from kwire.conformance.metrics.subjects import Subject

TOLERANCE: Final = 0.02
SETTLE_TIMEOUT_S: Final = 600.0
"""On a busy machine a scrape of Apache Kafka takes many seconds."""
SETTLE_POLL_S: Final = 0.5
UNCHANGED_SCRAPES: Final = 2
"""Scrapes in a row that must have the values of the scrape before."""


@dataclass(frozen=True, slots=True)
class ScrapedLoad:
    """The scrapes of a cluster from before and after the load."""

    before: Scrape
    after: Scrape

    def values(self, compared: Compared) -> dict[tuple[str, ...], float]:
        """Return the values of a comparison by the labels `compared.by`."""
        after = self.after.sums(compared.metric, compared.by, compared.keep)
        if compared.measure is Measure.VALUE:
            return after
        before = self.before.sums(compared.metric, compared.by, compared.keep)
        grown = {key: value - before.get(key, 0.0) for key, value in after.items()}
        return {key: value for key, value in grown.items() if value}

    def has(self, compared: Compared) -> bool:
        """Whether the metric has a value, with whatever labels."""
        return compared.metric in self.after.names()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both values of one series; `problem` says why they differ, or is empty."""

    metric: str
    labels: str
    subject: float
    oracle: float
    problem: str = ""


def measure(subject: Subject, rows: Sequence[Compared] = COMPARED) -> ScrapedLoad:
    """Send the load to a cluster, and return its scrapes; connections are closed after them.

    The metrics of `rows` have their final values.
    """
    sender = Load(subject.bootstrap)
    try:
        sender.prepare()
        before = settled(subject, rows)
        for step in (*load.STEPS, *coordinated.STEPS):
            step(sender)
        time.sleep(subject.renewal_s)
        return ScrapedLoad(before, settled(subject, rows))
    finally:
        sender.finish()


def settled(subject: Subject, rows: Sequence[Compared]) -> Scrape:
    """Scrape until the compared values stay the same: brokers count some things after a reply.

    Raises TimeoutError if they go on changing.
    """
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    values: dict[str, dict[tuple[str, ...], float]] = {}
    unchanged = 0
    changed: Counter[str] = Counter()
    while True:
        scrape = read(subject.urls, subject.controllers)
        before = values
        values = {row.metric: scrape.sums(row.metric, row.by, row.keep) for row in rows}
        differ = [name for name in values if values[name] != before.get(name)]
        unchanged = 0 if differ else unchanged + 1
        if unchanged == UNCHANGED_SCRAPES:
            return scrape
        changed.update(differ)
        if time.monotonic() > deadline:
            raise TimeoutError(f"metrics go on changing: {changed.most_common(5)}")
        time.sleep(SETTLE_POLL_S)


def compare(
    subject: ScrapedLoad, oracle: ScrapedLoad, rows: Iterable[Compared] = COMPARED
) -> Iterator[Verdict]:
    """Yield a verdict for each series of each compared metric that either side has."""
    for row in rows:
        missing = [
            name
            for name, side in (("kwire", subject), ("Apache Kafka", oracle))
            if not side.has(row)
        ]
        if missing:
            yield Verdict(row.metric, "", math.nan, math.nan, f"{' and '.join(missing)} lacks it")
            continue
        left, right = subject.values(row), oracle.values(row)
        for key in sorted(left.keys() | right.keys()):
            labels = ", ".join(f"{name}={value}" for name, value in zip(row.by, key, strict=True))
            one, other = left.get(key, 0.0), right.get(key, 0.0)
            yield Verdict(row.metric, labels, one, other, _problem(one, other))


def _problem(subject: float, oracle: float) -> str:
    """Say by how much two values differ, if by more than the tolerance."""
    largest = max(abs(subject), abs(oracle))
    if math.isclose(subject, oracle, rel_tol=TOLERANCE) or not largest:
        return ""
    return f"{100 * abs(subject - oracle) / largest:.1f} % apart"
