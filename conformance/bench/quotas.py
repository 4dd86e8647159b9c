"""`python -m kwire.conformance.bench.quotas`: what a producer gets that wants more than its quota.

It offers four times what `producer_byte_rate` allows its client id, and keeps on while the broker
has it rest.  Counted is what was acknowledged.  Another client's tiny produce requests are timed,
one in flight: alone, beside the producer with its quota, and beside it without one.
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
from kwire.conformance.bench.brokers import Apache, Broker, Kwire, running
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.transactions import REPLY_HEADER_BYTES, request

TIMES = 4
"""What is offered, in quotas."""
IN_FLIGHT = 5
BATCH_RECORDS, BATCH_VALUE_BYTES = 16, 1000
WINDOWS = 11
"""Over how many seconds brokers measure."""
WARM_S = 2.0
PATIENCE_S = 60.0
"""For another process to start, or to tell what it has done."""
GREEDY = "greedy"
_PRODUCE_VERSION = 12
_HEADER = Struct(">hhih")


Results: TypeAlias = "multiprocessing.Queue[list[int]]"


class Shares(NamedTuple):
    """Of its quota that the producer got: in all, and in each of the spans that brokers measure."""

    whole: float
    spans: list[float]

    @classmethod
    def of(cls, taken: Sequence[int], quota: int) -> Shares:
        """`taken` are the bytes of each second."""
        begins = range(0, len(taken) - WINDOWS + 1, WINDOWS)
        spans = [statistics.mean(taken[begin : begin + WINDOWS]) / quota for begin in begins]
        return cls(statistics.mean(taken) / quota, spans)


class Figures(NamedTuple):
    """Of one round: what the producer got of its quota, and others' latencies in µs."""

    shares: Shares
    alone: tuple[float, float]
    beside: tuple[float, float]
    unbounded: tuple[float, float]


def produce_frame(topic: str, batch: bytes) -> bytes:
    """A produce request of the client id that has the quota."""
    message = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])],
    )
    header = _HEADER.pack(0, _PRODUCE_VERSION, 0, len(GREEDY)) + GREEDY.encode() + b"\0"
    payload = header + message.encode(_PRODUCE_VERSION)
    return len(payload).to_bytes(4) + payload


def offer(address: Address, topic: str, bytes_per_second: int, seconds: int, told: Results) -> None:
    """Offer that much, five requests in flight at most; tells that it begins, and then what was
    taken in each second."""
    frame = produce_frame(topic, frames.batch(BATCH_RECORDS, BATCH_VALUE_BYTES))
    pause_s = len(frame) / bytes_per_second
    taken, in_flight = [0] * seconds, 0
    with load.connect(address) as sock:
        told.put([])
        began = due = time.monotonic()
        ends = began + seconds
        while (now := time.monotonic()) < ends:
            if in_flight < IN_FLIGHT and now >= due:
                sock.sendall(frame)
                in_flight += 1
                due += pause_s
            elif _has_reply(sock, (ends if in_flight == IN_FLIGHT else min(due, ends)) - now):
                load.receive_reply(sock)
                in_flight -= 1
                taken[min(int(now - began), seconds - 1)] += len(frame)
    told.put(taken)


def _has_reply(sock: socket.socket, wait_s: float) -> bool:
    return bool(select.select([sock], [], [], max(0.0, wait_s))[0])


def set_quota(address: Address, bytes_per_second: float | None) -> None:
    """Of the client id that asks for more; None takes it away."""
    operation = OpData("producer_byte_rate", bytes_per_second or 0.0, bytes_per_second is None)
    entry = RequestEntryData([EntityData("client-id", GREEDY)], [operation])
    with load.connect(address) as sock:
        sock.sendall(request(AlterClientQuotasRequest([entry]), 1))
        reply = load.receive_reply(sock)
    answer = AlterClientQuotasResponse.decode(reply, 1, 4 + REPLY_HEADER_BYTES).entries[0]
    if answer.error_code:
        raise frames.BrokerRefused(f"the quota was not set: {answer.error_message}")


@contextmanager
def greedy(address: Address, topic: str, bytes_per_second: int, seconds: int) -> Iterator[Results]:
    """A process that offers so much meanwhile."""
    context = multiprocessing.get_context("spawn")
    told: Results = context.Queue()
    process = context.Process(target=offer, args=(address, topic, bytes_per_second, seconds, told))
    process.start()
    told.get(timeout=PATIENCE_S)
    try:
        yield told
    finally:
        process.join(seconds + PATIENCE_S)
        process.terminate()


def measure(broker: Broker, quota: int, seconds: int, number: int) -> Figures:
    """One round, on topics of its own."""
    tiny, large = f"tiny-{number}", f"large-{number}"
    for topic in (tiny, large):
        broker.create_topic(topic)
    load.produce(broker.address, large, frames.batch(1, 100), WARM_S)

    def others(turn: float) -> tuple[float, float]:
        sample = load.produce(broker.address, tiny, frames.batch(1, 100), turn)
        assert sample.p50_us is not None
        assert sample.p99_us is not None
        return sample.p50_us, sample.p99_us

    others(WARM_S)
    alone = others(seconds)
    set_quota(broker.address, quota)
    with greedy(broker.address, large, TIMES * quota, seconds) as told:
        beside = others(seconds)
        shares = Shares.of(told.get(timeout=PATIENCE_S), quota)
    set_quota(broker.address, None)
    with greedy(broker.address, large, TIMES * quota, seconds) as told:
        unbounded = others(seconds)
        told.get(timeout=PATIENCE_S)
    return Figures(shares, alone, beside, unbounded)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quota", default=1_000_000, show_default=True, help="In bytes a second.")
@click.option("--seconds", default=30, show_default=True, help="Of each measurement.")
@click.option("--rounds", default=3, show_default=True, help="By turns; medians are shown.")
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
def main(quota: int, seconds: int, rounds: int, only_kwire: bool) -> None:
    """Have a producer offer four times its quota, and time what others see of it."""
    with tempfile.TemporaryDirectory(prefix="kwire-quotas-") as folder:
        brokers: Sequence[Broker] = [Kwire(Path(folder) / "kwire")]
        if not only_kwire:
            brokers = [*brokers, Apache(Path(folder) / "apache")]
        with ExitStack() as stack:
            for broker in brokers:
                stack.enter_context(running(broker))
            found: dict[str, list[Figures]] = {broker.name: [] for broker in brokers}
            for number in range(rounds):
                for broker in brokers:
                    found[broker.name].append(measure(broker, quota, seconds, number))
    Console().print(_table(found, quota, seconds))


def _table(found: dict[str, list[Figures]], quota: int, seconds: int) -> Table:
    title = f"a producer that offers {TIMES} times its {quota} B/s for {seconds} s"
    table = Table(title=title)
    table.add_column("broker")
    parts = ("of its quota", f"of each {WINDOWS} s")
    others = ("others alone p50", "p99", "beside it p50", "p99", "without a quota p50", "p99")
    for column in (*parts, *others):
        table.add_column(column, justify="right")
    for name, rounds in found.items():
        cells = [
            _spread([each.shares.whole for each in rounds]),
            _spread([share for each in rounds for share in each.shares.spans]),
        ]
        for turn in ("alone", "beside", "unbounded"):
            for at in (0, 1):
                us = statistics.median(getattr(each, turn)[at] for each in rounds)
                cells.append(f"{us:.0f} µs")
        table.add_row(name, *cells)
    return table


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return "-"
    return f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"


if __name__ == "__main__":
    main()
