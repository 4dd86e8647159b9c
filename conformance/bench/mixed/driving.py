"""Runs a watched broker and all kinds of clients."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any, NamedTuple, Self, TypeAlias

from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.growth.asking import Caller
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.mixed import stalls
from kwire.conformance.bench.mixed.clients import KINDS, MixedKind
from kwire.conformance.bench.mixed.waits import Histogram

END_S = 60.0
"""Limit for the clients to end after their deadline."""
SETTINGS = {"log.cleaner.backoff.ms": "2000", "log.retention.check.interval.ms": "10000"}
"""So that compaction and retention act during the run."""

Results: TypeAlias = "multiprocessing.Queue[tuple[str, list[int]]]"


class WatchedKwire(Kwire):
    """`kwire serve` whose loop is watched (watched.py)."""

    def __init__(self, directory: Path) -> None:
        """Keep the passes beside the data."""
        super().__init__(directory)
        self.passes = directory / "passes.jsonl"
        self.settings |= SETTINGS

    def command(self) -> list[str]:
        """Return the command line of `kwire serve`, run by watched.py."""
        python, _, _, *words = super().command()
        watched = Path(__file__).with_name("watched.py")
        return [python, str(watched), str(self.passes), *words]


def act(kind: MixedKind, address: Address, seconds: float, results: Results) -> None:
    """Act as one kind of client in a process of its own, and return the times of its requests."""
    results.put((kind.name, kind.act(address, time.monotonic() + seconds)))


@contextmanager
def clients(address: Address, seconds: float) -> Iterator[Results]:
    """Run all clients; yield a queue that gets the times of each at its end."""
    context = multiprocessing.get_context("spawn")
    results: Results = context.Queue()
    processes = [
        context.Process(target=act, args=(kind, address, seconds, results)) for kind in KINDS
    ]
    try:
        for process in processes:
            process.start()
        yield results
    finally:
        for process in processes:
            process.kill()
            process.join()


class MixedBlock(NamedTuple):
    """The waits of each kind of client in one block, and the long passes of the broker's loop."""

    waits: dict[str, Histogram]
    passes: list[stalls.LongPass]

    def as_json(self) -> dict[str, Any]:
        return {
            "waits": {name: histogram.as_json() for name, histogram in self.waits.items()},
            "passes": [each._asdict() for each in self.passes],
        }

    @classmethod
    def read(cls, kept: dict[str, Any]) -> Self:
        """Return what `as_json` has made."""
        return cls(
            {name: Histogram.read(counts) for name, counts in kept["waits"].items()},
            [stalls.LongPass.of(fields) for fields in kept["passes"]],
        )


def prepare(broker: WatchedKwire) -> None:
    """Create the topics of all kinds of clients on a new broker."""
    with Caller(broker.address) as caller:
        for kind in KINDS:
            kind.prepare(caller)


def measure(broker: WatchedKwire, seconds: float) -> MixedBlock:
    """Run all kinds of clients for `seconds`; return what they waited for, and why."""
    passes_before = len(stalls.read(broker.passes))
    waits = {}
    with clients(broker.address, seconds) as results:
        for _ in KINDS:
            try:
                name, times = results.get(timeout=seconds + END_S)
            except Empty:
                raise RequestFailed("a kind of client did not end") from None
            if times:
                waits[name] = Histogram.of(times)
    return MixedBlock(waits, stalls.read(broker.passes)[passes_before:])


def together(blocks: Iterable[MixedBlock]) -> MixedBlock:
    """Return all blocks as one."""
    waits: dict[str, Histogram] = {}
    passes: list[stalls.LongPass] = []
    for block in blocks:
        for name, histogram in block.waits.items():
            waits.setdefault(name, Histogram()).add(histogram)
        passes += block.passes
    return MixedBlock(waits, passes)
