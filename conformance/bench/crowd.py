"""Measures many connections: the time to open them, the memory of an idle one, and their effect.

The effect is the latency of a busy connection among idle ones.
"""

from __future__ import annotations

import socket
import time
from statistics import median
from time import perf_counter_ns

from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import Figure, Figures

OPENED = 1_500
IDLE = 3_000
TURNS = 5
TURN_S = 1.0
SILENT_S = 3.0
"""Time after which a silent connection counts as idle."""

CROWD_KEY = "crowd"
CROWD = f"{IDLE:,} idle connections"
OPEN = Figure(f"{OPENED:,} opened one after another", "s", more_is_better=False)
SERVED = Figure("the same until each has a reply", "s", more_is_better=False)
MEMORY = Figure("memory of an idle one", "bytes", more_is_better=False)
ALONE = Figure("p99 of a busy one alone", "µs", more_is_better=False)
AMONG = Figure("p99 of a busy one among them", "µs", more_is_better=False)
CROWD_FIGURES = (OPEN, SERVED, MEMORY, ALONE, AMONG)


def crowd(broker: BenchBroker) -> Figures:
    """Measure turns of a producer with one small request in flight, alone and among idle
    connections."""
    _p99(broker)  # warm-up
    p99s: dict[str, list[float]] = {ALONE.name: [], AMONG.name: []}
    before_mb = broker.rss_mb()
    start_ns = perf_counter_ns()
    socks = _open(broker.address, OPENED)
    figures = {OPEN.name: (perf_counter_ns() - start_ns) / 1e9}
    _ask(socks)
    figures[SERVED.name] = (perf_counter_ns() - start_ns) / 1e9
    _close(socks)
    for number in range(TURNS):
        p99s[ALONE.name].append(_p99(broker))
        socks = _open(broker.address, IDLE)
        _ask(socks)
        if number == 0:
            time.sleep(SILENT_S)
        after_mb = broker.rss_mb()
        if number == 0 and before_mb is not None and after_mb is not None:
            figures[MEMORY.name] = (after_mb - before_mb) * 1e6 / IDLE
        p99s[AMONG.name].append(_p99(broker))
        _close(socks)
    return figures | {name: median(values) for name, values in p99s.items()}


def _p99(broker: BenchBroker) -> float:
    """Return the p99 of single produce requests to a new topic, in microseconds."""
    topic = new_topic()
    broker.create_topic(topic)
    sample = load.produce(broker.address, topic, frames.batch(1, 100), TURN_S)
    broker.delete_topic(topic)
    assert sample.p99_us is not None
    return sample.p99_us


def _open(address: Address, count: int) -> list[socket.socket]:
    return [load.connect(address) for _ in range(count)]


def _ask(socks: list[socket.socket]) -> None:
    """Send ApiVersions on each connection, as clients do first, and read the responses."""
    first_request = frames.api_versions().data
    for sock in socks:
        sock.sendall(first_request)
    for sock in socks:
        load.receive_reply(sock)


def _close(socks: list[socket.socket]) -> None:
    for sock in socks:
        sock.close()
