"""`python -m kwire.conformance.bench.quotas`: measures a producer that exceeds its quota.

It sends four times the `producer_byte_rate` of its client id, and continues while the broker
throttles it. The acknowledged bytes are counted. Small produce requests of another client are
timed, one in flight: alone, beside the producer with its quota, and beside it without a quota.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple, TypeAlias

import click
from rich.console import Console
from rich.table import Table

from kwire.codecs.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.brokers import Apache, BenchBroker, Kwire, running
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.transactions import REPLY_HEADER_BYTES, request

TIMES = 4
"""The producer's rate as a multiple of its quota."""
IN_FLIGHT = 5
BATCH_RECORDS, BATCH_VALUE_BYTES = 16, 1000
WINDOWS = 11
"""The seconds over which brokers measure a rate."""
WARM_S = 2.0
PATIENCE_S = 60.0
"""Time for another process to start, or to return its result."""
GREEDY = "greedy"
_PRODUCE_VERSION = 12
_HEADER = Struct(">hhih")


Results: TypeAlias = "multiprocessing.Queue[list[int]]"


class Shares(NamedTuple):
    """The share of its quota that the producer got: in total, and in each span of WINDOWS
    seconds."""

    whole: float
    spans: list[float]

    @classmethod
    def of(cls, taken: Sequence[int], quota: int) -> Shares:
        """Return the shares of `taken`, the acknowledged bytes of each second."""
        begins = range(0, len(taken) - WINDOWS + 1, WINDOWS)
        spans = [statistics.mean(taken[begin : begin + WINDOWS]) / quota for begin in begins]
        return cls(statistics.mean(taken) / quota, spans)


class Figures(NamedTuple):
    """The producer's shares of its quota in one round, and the others' p50 and p99 in µs."""

    shares: Shares
    alone: tuple[float, float]
    beside: tuple[float, float]
    unbounded: tuple[float, float]


def produce_frame(topic: str, batch: bytes) -> bytes:
    """Return a produce request of the client id that has the quota."""
    message = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])],
    )
    header = _HEADER.pack(0, _PRODUCE_VERSION, 0, len(GREEDY)) + GREEDY.encode() + b"\0"
    payload = header + message.encode(_PRODUCE_VERSION)
    return len(payload).to_bytes(4) + payload


def offer(
    address: Address, topic: str, bytes_per_second: int, seconds: int, results: Results
) -> None:
    """Send at that rate with at most five requests in flight, in a process of its own.

    Puts an empty list into `results` when it begins, and at the end the acknowledged bytes of each
    second.
    """
    frame = produce_frame(topic, frames.batch(BATCH_RECORDS, BATCH_VALUE_BYTES))
    pause_s = len(frame) / bytes_per_second
    taken, in_flight = [0] * seconds, 0
    with load.connect(address) as sock:
        results.put([])
        start = due = time.monotonic()
        ends = start + seconds
        while (now := time.monotonic()) < ends:
            if in_flight < IN_FLIGHT and now >= due:
                sock.sendall(frame)
                in_flight += 1
                due += pause_s
            elif _has_reply(sock, (ends if in_flight == IN_FLIGHT else min(due, ends)) - now):
                load.receive_reply(sock)
                in_flight -= 1
                taken[min(int(now - start), seconds - 1)] += len(frame)
    results.put(taken)


def _has_reply(sock: socket.socket, wait_s: float) -> bool:
    return bool(select.select([sock], [], [], max(0.0, wait_s))[0])


def set_quota(address: Address, bytes_per_second: float | None) -> None:
    """Set the quota of the greedy client id; None removes it."""
    operation = OpData("producer_byte_rate", bytes_per_second or 0.0, bytes_per_second is None)
    entry = RequestEntryData([EntityData("client-id", GREEDY)], [operation])
    with load.connect(address) as sock:
        sock.sendall(request(AlterClientQuotasRequest([entry]), 1))
        reply = load.receive_reply(sock)
    answer = AlterClientQuotasResponse.decode(reply, 1, 4 + REPLY_HEADER_BYTES).entries[0]
    if answer.error_code:
        raise frames.RequestFailed(f"the quota was not set: {answer.error_message}")


@contextmanager
def greedy(address: Address, topic: str, bytes_per_second: int, seconds: int) -> Iterator[Results]:
    """Run a process that sends at that rate during the block; yield its results."""
    context = multiprocessing.get_context("spawn")
    results: Results = context.Queue()
    arguments = (address, topic, bytes_per_second, seconds, results)
    process = context.Process(target=offer, args=arguments)
    process.start()
    results.get(timeout=PATIENCE_S)
    try:
        yield results
    finally:
        process.join(seconds + PATIENCE_S)
        process.terminate()


def measure(broker: BenchBroker, quota: int, seconds: int, number: int) -> Figures:
    """Measure one round, on topics of its own."""
    tiny, large = f"tiny-{number}", f"large-{number}"
    for topic in (tiny, large):
        broker.create_topic(topic)
    load.produce(broker.address, large, frames.batch(1, 100), WARM_S)

    def others(turn: float) -> tuple[float, float]:
        """Return p50 and p99 of another client's requests, in microseconds."""
        sample = load.produce(broker.address, tiny, frames.batch(1, 100), turn)
        assert sample.p50_us is not None
        assert sample.p99_us is not None
        return sample.p50_us, sample.p99_us

    others(WARM_S)
    alone = others(seconds)
    set_quota(broker.address, quota)
    with greedy(broker.address, large, TIMES * quota, seconds) as results:
        beside = others(seconds)
        shares = Shares.of(results.get(timeout=PATIENCE_S), quota)
    set_quota(broker.address, None)
    with greedy(broker.address, large, TIMES * quota, seconds) as results:
        unbounded = others(seconds)
        results.get(timeout=PATIENCE_S)
    return Figures(shares, alone, beside, unbounded)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quota", default=1_000_000, show_default=True, help="Bytes per second.")
@click.option("--seconds", default=30, show_default=True, help="Length of each measurement.")
@click.option("--rounds", default=3, show_default=True, help="Rounds; medians are shown.")
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
def main(quota: int, seconds: int, rounds: int, only_kwire: bool) -> None:
    """Measure a producer that sends four times its quota, and its effect on other clients."""
    with tempfile.TemporaryDirectory(prefix="kwire-quotas-") as folder:
        brokers: Sequence[BenchBroker] = [Kwire(Path(folder) / "kwire")]
        if not only_kwire:
            brokers = [*brokers, Apache(Path(folder) / "apache")]
        with ExitStack() as stack:
            for broker in brokers:
                stack.enter_context(running(broker))
            results: dict[str, list[Figures]] = {broker.name: [] for broker in brokers}
            for number in range(rounds):
                for broker in brokers:
                    results[broker.name].append(measure(broker, quota, seconds, number))
    Console().print(_table(results, quota, seconds))


def _table(results: dict[str, list[Figures]], quota: int, seconds: int) -> Table:
    """Return the table of all brokers: shares of the quota, and latencies in microseconds."""
    title = f"a producer that offers {TIMES} times its {quota} B/s for {seconds} s"
    table = Table(title=title)
    table.add_column("broker")
    parts = ("of its quota", f"of each {WINDOWS} s")
    others = ("others alone p50", "p99", "beside it p50", "p99", "without a quota p50", "p99")
    for column in (*parts, *others):
        table.add_column(column, justify="right")
    for name, rounds in results.items():
        cells = [
            _spread([figures.shares.whole for figures in rounds]),
            _spread([share for figures in rounds for share in figures.shares.spans]),
        ]
        for turn in ("alone", "beside", "unbounded"):
            for at in (0, 1):
                us = statistics.median(getattr(figures, turn)[at] for figures in rounds)
                cells.append(f"{us:.0f} µs")
        table.add_row(name, *cells)
    return table


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return "-"
    return f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"


if __name__ == "__main__":
    main()
