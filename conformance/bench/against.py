"""`make bench AGAINST=<commit>`: compares kwire with kwire at an earlier commit.

It shows the cost of a change. The brokers take short turns, A B, B A, ..., both on one processor,
with the load generator on another one. The result is the median of the ratios of neighbouring
turns. Beside the clients' figures it shows the broker's processor time for a request, which other
programs disturb least.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.measure import Progress, Series, new_topic
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure, Figures, Row

REPOSITORY = Path(__file__).resolve().parents[2]
WARM_S = 1.0
NO_LESS_THAN = 0.97  # of the earlier value; a smaller difference may be noise
_CPUCLOCK_SCHED = 2  # in a clock id: the processor time of a process, as in clock_getcpuclockid
PROCESSOR = Figure("processor time a request", "µs", more_is_better=False)

NOTE = (
    "Sources of {name} in this environment, in turns with those at hand. Brokers and load"
    " generator had a processor each, where there are two."
)


class EarlierKwire(Kwire):
    """`kwire serve` from the sources of an earlier commit, with the installed dependencies."""

    def __init__(self, commit: str, directory: Path) -> None:
        """Export the sources of the commit, and run kwire from them instead of this project's."""
        super().__init__(directory)
        self.name = commit
        packages = directory.parent / "packages"
        export_sources(commit, packages)
        search_path = {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}
        self.environment = {**os.environ, **search_path}


def export_sources(commit: str, packages: Path) -> None:
    """Copy the sources of `commit` to `packages`, in the layout of their import names."""
    tree = packages.with_name("tree")
    tree.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x"], cwd=tree, check=True, input=archive.stdout)
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    for name, folder in sorted(project["tool"]["setuptools"]["package-dir"].items()):
        shutil.move(tree / folder, packages.joinpath(*name.split(".")))


def compare_rows(
    rows: Sequence[Row], commit: str, root: Path, seconds: float, rounds: int, say: Progress
) -> Section:
    """Measure all rows, in turns."""
    now, before = Kwire(root / "now"), EarlierKwire(commit, root / "before")
    with running(now, before):
        prefer_processors(now, before)
        series = [each for row in rows for each in _row(row, now, before, seconds, rounds, say)]
    return Section(f"Now and at {commit}", NOTE.format(name=commit), series)


def prefer_processors(*brokers: Kwire) -> None:
    """Put the brokers on one processor and this process on another, before all other programs.

    This needs two processors, Linux, and root for the priority; otherwise it does what it can.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    processors = sorted(os.sched_getaffinity(0))
    places = [(broker.pid, processors[0]) for broker in brokers] + [(0, processors[-1])]
    for pid, processor in places:
        os.sched_setaffinity(pid, {processor})
        with suppress(PermissionError):
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def _row(
    row: Row, now: Kwire, before: Kwire, seconds: float, rounds: int, say: Progress
) -> list[Series]:
    """Return the series of one row, measured in turns on both versions.

    The order of the brokers alternates, so that neither always comes second.
    """
    figures = [replace(figure, target=NO_LESS_THAN) for figure in (*row.figures, PROCESSOR)]
    all_series = [Series(row.key, row.title, figure, figure.target) for figure in figures]
    for broker in (now, before):
        turn(row, broker, WARM_S)
    for number in range(rounds):
        say(f"{row.title}: round {number + 1} of {rounds}")
        for broker in (now, before) if number % 2 == 0 else (before, now):
            figures_of_turn = turn(row, broker, seconds)
            for series in all_series:
                if series.figure.name in figures_of_turn:
                    series.add(broker.name, figures_of_turn[series.figure.name])
    return all_series


def turn(row: Row, broker: Kwire, seconds: float) -> Figures:
    """Return the figures of a turn, with the broker's processor time for a request (on Linux)."""
    topic = new_topic()
    row.prepare(broker, topic)
    start_s = processor_s(broker.pid)
    sample = row.sample(broker.address, topic, seconds)
    took_s = processor_s(broker.pid) - start_s
    broker.delete_topic(topic)
    figures = row.figures_of(sample)
    return figures | ({PROCESSOR.name: took_s * 1e6 / sample.requests} if took_s else {})


def processor_s(pid: int) -> float:
    """Processor time in seconds of a process and its threads so far; 0 if the system lacks it."""
    if not sys.platform.startswith("linux"):
        return 0.0
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)
