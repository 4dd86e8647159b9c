"""Turns, rounds and warm-up of a benchmark, and the series of its figures."""

from __future__ import annotations

import itertools
import mmap
import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from kwire.conformance.bench import startup
from kwire.conformance.bench.brokers import Apache, BenchBroker, Floor, Kwire, running
from kwire.conformance.bench.rows import (
    FIRST_SECONDS,
    FIRST_SECONDS_TARGET,
    Figure,
    Figures,
    Row,
)
from kwire.conformance.bench.stock import RATES, Stock

WARM_SLICE_S = 2.0
WARM_SLICES_STALE = 2  # after this many slices without a new best, the rate no longer rises
WARM_GAIN = 1.03  # a smaller gain does not count as a rise
SETTLE_S = 0.3  # between turns, until the files of the last one are deleted

WHILE_UP = " while up"
LEFT_MIN_S = 0.5  # the least time to measure, if a start takes most of the first seconds

Progress = Callable[[str], None]
_topics = itertools.count()


@dataclass
class Series:
    """The values of one figure over all rounds, by broker."""

    row: str
    title: str
    figure: Figure
    target: float | None
    limit: float | None = None
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, broker: str, value: float) -> None:
        self.values.setdefault(broker, []).append(value)

    def median(self, broker: str) -> float | None:
        values = self.values.get(broker)
        return median(values) if values else None

    def ratios(self, ours: str, theirs: str) -> list[float]:
        """Return how many times better `ours` was than `theirs`, in each round."""
        pairs = zip(self.values.get(ours, ()), self.values.get(theirs, ()), strict=False)
        return [self.figure.times_better(a, b) for a, b in pairs]

    def met(self, ours: str, theirs: str) -> bool | None:
        """Return whether the median reaches the target or is within the limit; None without
        both."""
        value = self.median(ours)
        if self.limit is not None and value is not None:
            return value <= self.limit
        ratios = self.ratios(ours, theirs)
        return median(ratios) >= self.target if self.target is not None and ratios else None


def new_topic() -> str:
    return f"bench-{time.time_ns()}-{next(_topics)}"


def touch_memory(size_bytes: int) -> None:
    """Write to `size_bytes` of memory and free it, in a process of its own.

    A virtual machine gets its memory page by page at the first use, at a tenth of the speed.
    Without this, the broker whose log grows into new memory would be slower.
    """
    toucher = multiprocessing.get_context("spawn").Process(target=_touch, args=(size_bytes,))
    toucher.start()
    toucher.join()


def _touch(size_bytes: int) -> None:
    with mmap.mmap(-1, size_bytes) as region:
        for position in range(0, size_bytes, mmap.PAGESIZE):
            region[position] = 1


class Bench:
    """Measures brokers in turns; calls `say` with the progress."""

    def __init__(self, seconds: float, rounds: int, warm_max_s: float, say: Progress) -> None:
        self.seconds = seconds
        self.rounds = rounds
        self.warm_max_s = warm_max_s
        self.say = say

    def warm(self, rows: Sequence[Row], brokers: Sequence[BenchBroker]) -> list[Series]:
        """Measure all rows on running brokers, after a warm-up with the same work."""
        return [series for row in rows for series in self._warm_row(row, brokers)]

    def _warm_row(self, row: Row, brokers: Sequence[BenchBroker]) -> list[Series]:
        """Return the series of one row, measured in rounds after each broker was warmed up."""
        chosen = [broker for broker in brokers if row.runs_on(broker)]
        for broker in chosen:
            self._warm_up(row, broker)
        all_series = [Series(row.key, row.title, figure, figure.target) for figure in row.figures]
        for number in range(self.rounds):
            # A B, B A, A B, ...: no broker always comes second
            for broker in chosen if number % 2 == 0 else reversed(chosen):
                self.say(f"{row.title}: round {number + 1} of {self.rounds}, {broker.name}")
                _add(all_series, broker, self._turn(row, broker, self.seconds))
        return all_series

    def _turn(self, row: Row, broker: BenchBroker, seconds: float) -> Figures:
        """Measure one turn on a new topic; the floor is started for each turn, since it has one
        log."""
        topic = new_topic()
        if isinstance(broker, Floor):
            with running(broker):
                row.prepare(broker, topic)
                return row.measure(broker, topic, seconds)
        row.prepare(broker, topic)
        try:
            return row.measure(broker, topic, seconds)
        finally:
            broker.delete_topic(topic)
            time.sleep(SETTLE_S)

    def _warm_up(self, row: Row, broker: BenchBroker) -> None:
        """Run the row's work until its first figure no longer improves, for a JIT compiler."""
        if isinstance(broker, Floor):
            return
        figure = row.figures[0]
        best: float | None = None
        stale = 0
        slice_s = min(WARM_SLICE_S, self.warm_max_s)
        for number in range(1, int(self.warm_max_s / slice_s) + 1):
            self.say(f"{row.title}: warming {broker.name}, {number * slice_s:.0f} s")
            value = self._turn(row, broker, slice_s)[figure.name]
            if best is None or figure.times_better(value, best) > WARM_GAIN:
                stale = 0
            else:
                stale += 1
            best = value if best is None or figure.times_better(value, best) > 1 else best
            if stale >= WARM_SLICES_STALE:
                return

    def first_seconds(self, rows: Iterable[Row], root: Path, names: Sequence[str]) -> list[Series]:
        """Measure each row in the first seconds after the start of the brokers' processes."""
        all_rows = []
        for row in rows:
            all_series = [
                Series(row.key, row.title, figure, figure.target)
                for figure in figures_from_the_start(row)
            ]
            for number in range(self.rounds):
                pair = fresh_pair(root, names)
                for broker in pair if number % 2 == 0 else reversed(pair):
                    self.say(f"first {FIRST_SECONDS:.0f} s, {row.title}: {broker.name}")
                    _add(all_series, broker, _from_the_start(row, broker))
            all_rows += all_series
        return all_rows

    def startups(self, root: Path, names: Sequence[str]) -> list[Series]:
        """Measure the times from the start to the first responses, and idle memory; each on an
        empty directory."""
        title = "start to"
        replies = [
            Series("start", title, startup.FIRST_REPLY, None, startup.FIRST_REPLY_LIMIT_S),
            Series("start", title, startup.FIRST_ACK, None),
        ]
        idle = Series("memory", "memory", startup.IDLE, None, startup.IDLE_LIMIT_MB)
        for number in range(self.rounds):
            for broker in fresh_pair(root, names):
                self.say(f"start: round {number + 1} of {self.rounds}, {broker.name}")
                _add([*replies, idle], broker, startup.measure(broker, new_topic()))
        return [*replies, idle]

    def stock(self, clients: Sequence[Stock], brokers: Sequence[BenchBroker]) -> list[Series]:
        """Measure stock clients on running brokers, after one round of warm-up."""
        all_rows = []
        for client in clients:
            all_series = [Series(client.key, client.title, figure, None) for figure in RATES]
            for number in range(self.rounds + 1):
                for broker in brokers if number % 2 == 0 else reversed(brokers):
                    self.say(f"{client.title}: round {number} of {self.rounds}, {broker.name}")
                    topic = new_topic()
                    broker.create_topic(topic)
                    figures = client.measure(broker, topic)
                    broker.delete_topic(topic)
                    if number:
                        _add(all_series, broker, figures)
            all_rows += all_series
        return all_rows


def fresh_pair(root: Path, names: Sequence[str]) -> list[BenchBroker]:
    """New brokers on empty directories: kwire and Apache Kafka, if they are in `names`."""
    pair: list[BenchBroker] = [Kwire(root / "kwire"), Apache(root / "apache")]
    return [broker for broker in pair if broker.name in names]


def figures_from_the_start(row: Row) -> list[Figure]:
    """Return the figures of a row in the first seconds.

    There are two of each rate: over all of these seconds, and over the time that the broker was up.
    """
    wanted = {
        figure.name: FIRST_SECONDS_TARGET if figure.target is not None else None
        for figure in row.figures
    }
    figures = [replace(figure, target=wanted[figure.name]) for figure in row.figures]
    rates = [figure for figure in figures if figure.more_is_better]
    return figures + [replace(rate, name=rate.name + WHILE_UP, target=None) for rate in rates]


def _from_the_start(row: Row, broker: BenchBroker) -> Figures:
    """Start the broker, run the row's work until the first seconds are over, and stop the
    broker."""
    try:
        start_s = broker.start()
        started = time.monotonic() - start_s
        topic = new_topic()
        row.prepare(broker, topic)
        left = FIRST_SECONDS - (time.monotonic() - started)
        sample = row.sample(broker.address, topic, max(left, LEFT_MIN_S))
    finally:
        broker.stop()
    while_up = {name + WHILE_UP: value for name, value in row.figures_of(sample).items()}
    in_all = row.figures_of(sample._replace(seconds=max(FIRST_SECONDS, sample.seconds)))
    return while_up | in_all


def _add(all_series: list[Series], broker: BenchBroker, figures: Figures) -> None:
    for series in all_series:
        series.add(broker.name, figures[series.figure.name])
