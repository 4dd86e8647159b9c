"""Measures a scale at a tenth and at its full size, on two brokers that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self, TypeAlias

from kwire.conformance.bench.against import processor_s
from kwire.conformance.bench.brokers import Apache, Kwire
from kwire.conformance.bench.growth.scale import Scale, Step, Steps

Measured: TypeAlias = Kwire | Apache
MakeBroker = Callable[[Path], Measured]

IDLE_S = 3.0
SETTLE_S = 1.0
"""Time between a change and a measurement of memory or of the idle broker."""
CALLS_MIN = 3
"""The fewest calls of a step in a turn."""


class Cost(NamedTuple):
    """What one request costs the broker at both sizes, in µs of processor time.

    tenth, full       medians of all rounds
    growth            full by tenth: the median of the rounds
    least, most       the smallest and the largest growth of a round
    """

    tenth: float
    full: float
    growth: float
    least: float
    most: float

    @classmethod
    def of(cls, rounds: Sequence[tuple[float, float]]) -> Self:
        """Return the cost of a request from the pairs (tenth, full) of all rounds."""
        ratios = [full / tenth for tenth, full in rounds]
        tenth, full = (median(each) for each in zip(*rounds, strict=True))
        return cls(tenth, full, median(ratios), min(ratios), max(ratios))


@dataclass
class MeasuredGrowth:
    """The measured values of one broker at a tenth and at full size.

    costs     by name of the request
    memory    MB when empty, at a tenth, at full size
    start     s from the start of the process until everything is served, likewise; or empty
    work      s of processor time in that time, likewise
    idle      ms of processor time in a second without requests, at a tenth and at full size
    """

    costs: dict[str, Cost] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)


def beyond_linear(values: Sequence[float]) -> float:
    """Return the value at full size divided by ten times what a tenth adds to an empty broker.

    1 means that each thing adds the same at both sizes.
    """
    empty, tenth, full = values
    return full / (empty + 10 * max(0.0, tenth - empty))


class _Sized:
    """A running broker with things of one size."""

    def __init__(self, scale: Scale, broker: Measured, size: int) -> None:
        """Prepare a broker that is not started yet."""
        self.scale, self.broker, self.size = scale, broker, size
        self.steps: Steps = {}
        self.started = self.restarted = (0.0, 0.0)
        self.memory_mb = (0.0, 0.0)
        self.idle_ms = 0.0

    def start(self, stack: ExitStack) -> None:
        """Start the broker, build everything, connect, and measure memory and the idle broker."""
        stack.callback(self.broker.stop)
        start_s = self.broker.start()
        self.started = start_s, processor_s(self.broker.pid)
        time.sleep(SETTLE_S)
        empty_mb = self.broker.rss_mb() or 0.0
        self.scale.build(self.broker, self.size)
        self.steps = stack.enter_context(self.scale.opened(self.broker, self.size))
        for step in self.steps.values():
            step()
        time.sleep(SETTLE_S)
        self.memory_mb = empty_mb, self.broker.rss_mb() or 0.0
        before_s = processor_s(self.broker.pid)
        time.sleep(IDLE_S)
        self.idle_ms = (processor_s(self.broker.pid) - before_s) * 1e3 / IDLE_S

    def turn(self, step: Step, seconds: float) -> float:
        """Call a step for `seconds`; return the broker's processor time a request in µs."""
        before_s = processor_s(self.broker.pid)
        ends = time.monotonic() + seconds
        requests = calls = 0
        while calls < CALLS_MIN or time.monotonic() < ends:
            requests += step()
            calls += 1
        return (processor_s(self.broker.pid) - before_s) * 1e6 / requests

    def restart(self) -> None:
        """Measure the time from the start of the process until everything is served."""
        start_s = self.broker.restart({})
        before = time.monotonic()
        self.scale.wait_until_served(self.broker, self.size)
        start_s += time.monotonic() - before
        self.restarted = start_s, processor_s(self.broker.pid)


def measure(
    scale: Scale,
    make: MakeBroker,
    root: Path,
    *,
    full: int,
    rounds: int,
    seconds: float,
    warm_s: float,
) -> MeasuredGrowth:
    """Return what a scale costs on two new brokers, one at `full` and one at a tenth of it.

    A turn of each request takes `seconds`, after `warm_s` seconds that are not counted.
    """
    growth = MeasuredGrowth()
    tenth = _Sized(scale, make(root / "tenth"), full // 10)
    whole = _Sized(scale, make(root / "full"), full)
    with ExitStack() as stack:
        for sized in (tenth, whole):
            sized.start(stack)
        for name in tenth.steps:
            growth.costs[name] = _rounds(tenth, whole, name, rounds, seconds, warm_s)
        if scale.is_stored:
            for sized in (tenth, whole):
                sized.restart()
            times = tenth.started, tenth.restarted, whole.restarted
            growth.start, growth.work = map(list, zip(*times, strict=True))
    growth.memory = [*tenth.memory_mb, whole.memory_mb[1]]
    growth.idle = [tenth.idle_ms, whole.idle_ms]
    return growth


def _rounds(
    tenth: _Sized, whole: _Sized, name: str, rounds: int, seconds: float, warm_s: float
) -> Cost:
    """Return the cost of a request at both sizes; the order of the brokers alternates."""
    for sized in (tenth, whole):
        sized.turn(sized.steps[name], warm_s)
    pairs = []
    for number in range(rounds):
        costs = {}
        for sized in (tenth, whole) if number % 2 == 0 else (whole, tenth):
            costs[sized.size] = sized.turn(sized.steps[name], seconds)
        pairs.append((costs[tenth.size], costs[whole.size]))
    return Cost.of(pairs)
