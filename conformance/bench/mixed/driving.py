"""Runs a watched broker and all kinds of clients."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import TypeAlias

from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.growth.asking import Caller
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.mixed import stalls
from kwire.conformance.bench.mixed.clients import KINDS, MixedKind, Percentiles

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


def measure(
    broker: WatchedKwire, seconds: float
) -> tuple[dict[str, Percentiles], list[stalls.LongPass]]:
    """Return the waits of each kind of client, and the long passes of the broker's loop."""
    with Caller(broker.address) as caller:
        for kind in KINDS:
            kind.prepare(caller)
    waits = {}
    with clients(broker.address, seconds) as results:
        for _ in KINDS:
            try:
                name, times = results.get(timeout=seconds + END_S)
            except Empty:
                raise RequestFailed("a kind of client did not end") from None
            if times:
                waits[name] = Percentiles.of(times)
    return waits, stalls.read(broker.passes)
