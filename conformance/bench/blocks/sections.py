"""What `make bench` measures: the sections of its report, whose rows are blocks in a file."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from kwire.conformance.bench import startup
from kwire.conformance.bench.blocks.file import BlockFile
from kwire.conformance.bench.brokers import BenchBroker, External, Floor, running
from kwire.conformance.bench.measure import Bench, Progress, Series, fresh_pair
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import FIRST_SECONDS, ROWS, Figure
from kwire.conformance.bench.sizes import SIZES, measure_series
from kwire.conformance.bench.stock import STOCK
from kwire.conformance.bench.transactions import TRANSACTION_ROWS

FEW_ROUNDS = 3
"""The most rounds of what takes long."""


@dataclass
class BenchPlan:
    """What to measure, and for how long."""

    only: frozenset[str]
    seconds: float
    rounds: int
    warm_max_s: float
    quick: bool
    floor: bool

    def has(self, key: str) -> bool:
        return key in self.only if self.only else not (self.quick and key in NOT_QUICK)


@dataclass
class MeasuredBrokers:
    """The measured brokers, and the folder of all data."""

    brokers: Sequence[BenchBroker]
    root: Path

    @property
    def started(self) -> list[str]:
        """The names of the brokers that this program starts."""
        return [broker.name for broker in self.brokers if not isinstance(broker, External)]


class MeasuredSection(ABC):
    """A section of the report; each of its blocks is measured on its own.

    parts         what --only chooses
    on_running    whether all its blocks are measured on the same running brokers; otherwise each
                  starts its own, and a broker that runs already cannot be measured
    rounds_max    the most rounds of a block
    """

    heading: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]
    on_running: ClassVar[bool] = False
    rounds_max: ClassVar[int | None] = None

    def keys(self, plan: BenchPlan) -> list[str]:
        """The keys of the blocks that the plan has."""
        return [part for part in self.parts if plan.has(part)]

    @abstractmethod
    def note(self, plan: BenchPlan) -> str:
        """How it was measured."""

    @abstractmethod
    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        """Measure one block."""


class Start(MeasuredSection):
    heading = "Start and memory"
    parts = ("start",)

    def note(self, plan: BenchPlan) -> str:
        return (
            "From the start of the process on an empty directory (Apache Kafka's: formatted). After"
            " load: the largest memory at the end of a row below."
        )

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        return bench.startups(contest.root / "start", contest.started)


class RawSockets(MeasuredSection):
    heading = "Warm, raw sockets"
    parts = tuple(row.key for row in ROWS)
    on_running = True

    def note(self, plan: BenchPlan) -> str:
        return (
            f"Each broker was warmed with a row's own work until its rate stopped rising (at most"
            f" {plan.warm_max_s:.0f} s), then {plan.rounds} rounds of {plan.seconds:g} s."
        )

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        floors = [Floor(contest.root / "floor")] if plan.floor else []
        rows = [row for row in ROWS if row.key == key]
        return bench.warm(rows, [*contest.brokers, *floors])


class ManyTransactions(MeasuredSection):
    heading = "Transactions"
    parts = tuple(row.key for row in TRANSACTION_ROWS)
    on_running = True

    def note(self, plan: BenchPlan) -> str:
        return (
            "Produce and EndTxn as a client of transaction version 2 sends them; all producers"
            " write to the same partitions. What one is told to try again it tries 5 ms later."
        )

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        rows = [row for row in TRANSACTION_ROWS if row.key == key]
        return bench.warm(rows, contest.brokers)


class StockClients(MeasuredSection):
    heading = "Warm, stock clients"
    parts = tuple(client.key for client in STOCK)
    on_running = True
    rounds_max = FEW_ROUNDS

    def note(self, plan: BenchPlan) -> str:
        return "Default settings, a topic of one partition; the first round is not counted."

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        clients = [client for client in STOCK if client.key == key]
        return bench.stock(clients, contest.brokers)


class FirstSeconds(MeasuredSection):
    heading = f"The first {FIRST_SECONDS:.0f} seconds"
    parts = ("first",)
    rounds_max = FEW_ROUNDS

    def keys(self, plan: BenchPlan) -> list[str]:
        """A block for each row on raw sockets."""
        return [f"first {row.key}" for row in ROWS] if plan.has("first") else []

    def note(self, plan: BenchPlan) -> str:
        return (
            f"The {FIRST_SECONDS:.0f} s that follow the start of the process, which is what a test"
            " suite sees: a rate is what was done in them by their length, or by the time the"
            " broker was up; percentiles are of the requests that were answered in them."
        )

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        rows = [row for row in ROWS if key == f"first {row.key}"]
        return bench.first_seconds(rows, contest.root / "first", contest.started)


class LargeSizes(MeasuredSection):
    heading = "Sizes"
    parts = tuple(size.key for size in SIZES)

    def note(self, plan: BenchPlan) -> str:
        return (
            "Each broker is started for this alone and measured once; another process sends it one"
            " tiny record after another meanwhile, whose longest wait is how long it was held."
        )

    def measure(
        self, key: str, plan: BenchPlan, bench: Bench, contest: MeasuredBrokers
    ) -> list[Series]:
        sizes = [size for size in SIZES if size.key == key]
        return measure_series(
            sizes, lambda: fresh_pair(contest.root / "sizes", contest.started), bench.say
        )


SECTIONS: tuple[MeasuredSection, ...] = (
    Start(),
    RawSockets(),
    ManyTransactions(),
    StockClients(),
    FirstSeconds(),
    LargeSizes(),
)
HEADINGS = tuple(section.heading for section in SECTIONS)
"""The headings of the sections that a whole run measures, which the plot shows."""
NOT_QUICK = frozenset(
    part
    for section in SECTIONS
    if not isinstance(section, (Start, RawSockets))
    for part in section.parts
)


def chosen(plan: BenchPlan, contest: MeasuredBrokers) -> list[tuple[MeasuredSection, list[str]]]:
    """The sections of a plan that can be measured, each with the keys of its blocks."""
    return [
        (section, keys)
        for section in SECTIONS
        if (section.on_running or contest.started) and (keys := section.keys(plan))
    ]


def keys_of(plan: BenchPlan, contest: MeasuredBrokers) -> list[str]:
    """The keys of all blocks of a plan."""
    return [key for _, keys in chosen(plan, contest) for key in keys]


def measure(plan: BenchPlan, contest: MeasuredBrokers, file: BlockFile, say: Progress) -> None:
    """Measure the blocks of the plan that the file does not have, and keep each of them."""
    missing = [
        (section, key) for section, keys in chosen(plan, contest) for key in keys if key not in file
    ]
    for on_running, blocks in itertools.groupby(missing, lambda block: block[0].on_running):
        with running(*contest.brokers) if on_running else nullcontext():
            for section, key in blocks:
                rounds = min(plan.rounds, section.rounds_max or plan.rounds)
                bench = Bench(plan.seconds, rounds, plan.warm_max_s, say)
                series = section.measure(key, plan, bench, contest)
                memory = _memory_mb(contest.brokers) if on_running else {}
                file.add(key, {"series": [asdict(each) for each in series], "memory_mb": memory})


def _memory_mb(brokers: Sequence[BenchBroker]) -> dict[str, float]:
    """The memory of running brokers in MB, by name; without those that do not report it."""
    return {broker.name: size for broker in brokers if (size := broker.rss_mb()) is not None}


def sections(plan: BenchPlan, contest: MeasuredBrokers, file: BlockFile) -> list[Section]:
    """Return the sections of the report, of the blocks that the file has."""
    found = []
    for section, keys in chosen(plan, contest):
        outcomes = [file.outcome(key) for key in keys if key in file]
        if series := [_series_of(each) for outcome in outcomes for each in outcome["series"]]:
            found.append(Section(section.heading, section.note(plan), series))
    if found and found[0].heading == Start.heading:
        found[0].series += _after_load(plan, contest, file)
    return found


def _after_load(plan: BenchPlan, contest: MeasuredBrokers, file: BlockFile) -> list[Series]:
    """Return the largest memory of each running broker at the end of a block."""
    series = Series("memory", "memory", startup.AFTER_LOAD, None)
    sizes = [file.outcome(key)["memory_mb"] for key in keys_of(plan, contest) if key in file]
    for broker in contest.brokers:
        if own := [each[broker.name] for each in sizes if broker.name in each]:
            series.add(broker.name, max(own))
    return [series] if series.values else []


def _series_of(kept: dict[str, Any]) -> Series:
    """Return a series as it was before it became JSON."""
    return Series(**{**kept, "figure": Figure(**kept["figure"])})
