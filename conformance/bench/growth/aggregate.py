"""`python -m kwire.conformance.bench.growth.aggregate`: measures brokers of one machine together.

`kwire serve --brokers N` runs N brokers as one cluster.  Clients in processes of their own send one
tiny request, or fetch 1 MB, on each of their connections.  The result is the rate of all together,
and what brokers and clients cost a request: on few cores the clients are the limit, and the
processor time says how many cores both would need.  Linux only, since it reads processor time.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

import click
from rich.console import Console
from rich.table import Table

from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.against import processor_s
from kwire.conformance.bench.brokers import Apache, Kwire, running
from kwire.conformance.bench.growth.asking import Caller, attempts
from kwire.conformance.bench.load import Address, Sample
from kwire.testing.hosting.ports import free_ports

CLIENTS = 2
"""Client processes."""
CONNECTIONS = 16
"""Partitions of the topic, each with a connection of its own; a client has its share of them."""
FETCH_BYTES = 1 << 20
BATCH = (150, 100)
"""Records and bytes of a value in the batches that are fetched."""
BATCHES = 100
"""Batches in each partition that is fetched from."""
WARM_S = 1.0
PATIENCE_S = 60.0
METADATA_VERSION = 12

Result: TypeAlias = "tuple[Sample, float]"
"""A sample, and the processor time of its client in s."""
Work = Callable[[list[Address], str, int, float], Sample]
"""Called with the leaders of a client's partitions, the topic, the first of these partitions, and
the seconds."""


class LocalBrokers(Kwire):
    """`kwire serve --brokers N`, one cluster of N brokers."""

    def __init__(self, directory: Path, count: int) -> None:
        """Take N ports in a row."""
        super().__init__(directory)
        self.name = f"kwire, {count} brokers" if count > 1 else "kwire, one broker"
        self.count = count
        self.address = ("127.0.0.1", free_ports(count))

    def command(self) -> list[str]:
        """Return the command line; a single broker is started as usual."""
        words = super().command()
        if self.count == 1:
            return words
        head, port = words[:4], self.address[1]
        return [*head, f"--brokers={self.count}", f"--port={port}", f"--data={self.directory}/data"]


class Aggregate(NamedTuple):
    """One turn: the rate of all clients, and µs of processor time a request."""

    per_second: float
    mb_per_second: float
    broker_us: float
    client_us: float


def produce(leaders: list[Address], topic: str, first: int, seconds: float) -> Sample:
    """Send a tiny record to each partition again and again."""
    return load.produce_on_many(leaders, topic, frames.batch(1, 100), seconds, first=first)


def fetch(leaders: list[Address], topic: str, first: int, seconds: float) -> Sample:
    """Fetch 1 MB from the partitions in turn."""
    share = seconds / len(leaders)
    samples = [
        load.fetch(leader, topic, [0], share, max_bytes=FETCH_BYTES, partition=first + number)
        for number, leader in enumerate(leaders)
    ]
    sizes = sum(sample.size_bytes for sample in samples)
    return Sample(sum(sample.requests for sample in samples), seconds, sizes)


WORKS: dict[str, Work] = {"tiny produce": produce, "fetch of 1 MB": fetch}


def leaders_of(address: Address, topic: str) -> list[Address]:
    """Return the address of the leader of each partition, as soon as all have one."""
    message = MetadataRequest([MetadataRequestTopic(name=topic)])
    with Caller(address) as caller:
        for _ in attempts():
            reply = caller.ask(message, METADATA_VERSION, MetadataResponse)
            addresses = {broker.node_id: (broker.host, broker.port) for broker in reply.brokers}
            partitions = sorted(reply.topics[0].partitions, key=lambda each: each.partition_index)
            leaders = [addresses.get(partition.leader_id) for partition in partitions]
            known = [leader for leader in leaders if leader is not None]
            if len(known) == CONNECTIONS:
                return known
    raise frames.RequestFailed("not all partitions have a leader")


def act(
    work: Work,
    leaders: list[Address],
    topic: str,
    first: int,
    seconds: float,
    start: float,
    results: multiprocessing.Queue[Result],
) -> None:
    """Work as one client from `start` on, in a process of its own."""
    time.sleep(max(0.0, start - time.monotonic()))
    before = resource.getrusage(resource.RUSAGE_SELF)
    sample = work(leaders, topic, first, seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    results.put((sample, spent_s))


def turn(broker: Kwire | Apache, topic: str, work: Work, seconds: float) -> Aggregate:
    """Let all clients work for `seconds`."""
    leaders = leaders_of(broker.address, topic)
    share = CONNECTIONS // CLIENTS
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Result] = context.Queue()
    start = time.monotonic() + 1.0  # when all processes have started
    processes = [
        context.Process(
            target=act,
            args=(work, leaders[at : at + share], topic, at, seconds, start, results),
        )
        for at in range(0, CONNECTIONS, share)
    ]
    before_s = processor_of_all(broker)
    for process in processes:
        process.start()
    samples = [results.get(timeout=seconds + PATIENCE_S) for _ in processes]
    spent_s = processor_of_all(broker) - before_s
    for process in processes:
        process.join()
    requests = sum(sample.requests for sample, _ in samples)
    return Aggregate(
        sum(sample.per_second for sample, _ in samples),
        sum(sample.mb_per_second for sample, _ in samples),
        spent_s * 1e6 / requests,
        sum(cpu_s for _, cpu_s in samples) * 1e6 / requests,
    )


def processor_of_all(broker: Kwire | Apache) -> float:
    """Return the processor time in s of a broker's process and its children."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return sum(processor_s(pid) for pid in (broker.pid, *map(int, children)))


def prepare(broker: Kwire | Apache, topic: str) -> None:
    """Create the topic, and fill it so that each partition has more than a fetch takes."""
    with Caller(broker.address) as caller:
        caller.request_topics([topic], CONNECTIONS)
    batch = frames.batch(*BATCH)
    for index, leader in enumerate(leaders_of(broker.address, topic)):
        load.fill(leader, topic, batch, BATCHES, BATCH[0], partition=index)


def measure(brokers: Sequence[Kwire | Apache], rounds: int, seconds: float) -> Table:
    """Return a table with the medians of all rounds, in which the brokers take turns."""
    table = Table(title=f"{CLIENTS} client processes, {CONNECTIONS} connections")
    for column in ("work", "brokers", "requests/s", "MB/s", "broker µs", "client µs"):
        table.add_column(column, justify="left" if column in ("work", "brokers") else "right")
    for broker in brokers:
        prepare(broker, "aggregate")
    for name, work in WORKS.items():
        turns: dict[str, list[Aggregate]] = {broker.name: [] for broker in brokers}
        for number in range(rounds):
            for broker in brokers if number % 2 == 0 else reversed(brokers):
                if number == 0:
                    turn(broker, "aggregate", work, WARM_S)
                turns[broker.name].append(turn(broker, "aggregate", work, seconds))
        for broker in brokers:
            figures = zip(*turns[broker.name], strict=True)
            cells = [f"{median(each):,.1f} ({min(each):,.1f}-{max(each):,.1f})" for each in figures]
            table.add_row(name, broker.name, *cells)
    return table


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--brokers", "counts", multiple=True, type=int, default=[1, 2, 4], help="Brokers.")
@click.option("--rounds", default=3, help="Turns of each.")
@click.option("--seconds", default=3.0, help="Length of a turn.")
@click.option("--apache/--no-apache", default=True, help="Measure Apache Kafka too.")
def main(counts: tuple[int, ...], rounds: int, seconds: float, apache: bool) -> None:
    """Measure what several brokers on one machine do together."""
    with tempfile.TemporaryDirectory(prefix="kwire-aggregate-") as folder:
        root = Path(folder)
        brokers: list[Kwire | Apache] = [LocalBrokers(root / str(count), count) for count in counts]
        if apache:
            brokers.append(Apache(root / "apache"))
        with running(*brokers):
            table = measure(brokers, rounds, seconds)
    Console(width=150).print(table)
    click.echo(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
