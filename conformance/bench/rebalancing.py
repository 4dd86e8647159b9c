"""`python -m kwire.conformance.bench.rebalancing`: measures rebalances of hundreds of members.

They join at once, one leaves, and many leave at once; each time it measures how long the others
take until each partition has one owner and the shares are even. Then all members send heartbeats,
and then commits, as fast as they are answered. The members are those of `members.py`, in this
process and on the broker's own cores, the same program for both brokers.
"""

from __future__ import annotations

import tempfile
import time
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

import click
import trio
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from rich.console import Console

from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.heartbeat import HeartbeatRequest
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.primitives import Message
from kwire.conformance.bench import machine, report
from kwire.conformance.bench.brokers import Apache, BenchBroker, Kwire, running
from kwire.conformance.bench.measure import Series, new_topic
from kwire.conformance.bench.members import (
    Crowd,
    SimulatedClassicMember,
    SimulatedConsumerMember,
    SimulatedCooperativeMember,
    SimulatedMember,
)
from kwire.conformance.bench.report import Section
from kwire.conformance.bench.rows import Figure

HEADING = "Large groups"
RESULTS = Path(__file__).with_name("RESULTS.md")
FILE_COLUMNS = 190
MEMBERS, PARTITIONS, LEAVING = 500, 1000, 100
LEAVES = 10
"""How often one member leaves. With two heartbeats to wait for, the standard deviation of one time
is 35 %, and that of the mean of ten is 11 %."""
TIMEOUT_S = 120.0
POLL_S = 0.05
REST_S = 2.0
RUSH_S = 5.0
OPEN_FILES = 4096
SETTINGS = {
    "group.initial.rebalance.delay.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""Settings of both brokers: heartbeats once a second, as the classic members send them."""

COLD = Figure("until all have their share", "s", more_is_better=False, target=1.0)
ONE = Figure("after one has left", "s", more_is_better=False, target=1.0)
MANY = Figure("after {} have left at once", "s", more_is_better=False, target=1.0)
HEARTBEATS = Figure("heartbeats", "a second", target=1.0)
COMMITS = Figure("commits", "a second", target=1.0)
FIGURES = (COLD, ONE, MANY, HEARTBEATS, COMMITS)

PROTOCOLS: dict[str, type[SimulatedMember]] = {
    "classic": SimulatedClassicMember,
    "cooperative": SimulatedCooperativeMember,
    "consumer": SimulatedConsumerMember,
}
BEATS: dict[str, type[Message]] = {
    "classic": HeartbeatRequest,
    "cooperative": HeartbeatRequest,
    "consumer": ConsumerGroupHeartbeatRequest,
}


async def figures(crowd: Crowd, protocol: str, broker: BenchBroker, members: int) -> list[float]:
    """Return the figures of a new group, in the order of FIGURES."""
    crowd.members = [PROTOCOLS[protocol](crowd, broker.address) for _ in range(members)]
    leaving = max(1, members * LEAVING // MEMBERS)
    with trio.fail_after(TIMEOUT_S):
        async with trio.open_nursery() as nursery:
            start = trio.current_time()
            for member in crowd.members:
                nursery.start_soon(member.run)
            await crowd.settled.wait()
            values = [trio.current_time() - start]
            await _rest()
            values.append(await _mean_after_one_left(crowd))
            values.append(await crowd.remove(crowd.members[:leaving]))
            await _rest()
            values.append(await _rush(crowd, BEATS[protocol]))
            values.append(await _rush(crowd, OffsetCommitRequest))
            nursery.cancel_scope.cancel()
    return values


async def _mean_after_one_left(crowd: Crowd) -> float:
    """Let members leave one after another; return the mean time until the others had all
    partitions.

    Sticky assignors give the partitions of one member to a few others. These learn of it by their
    next heartbeats, whose phases are random: one leave takes any time up to the interval.
    """
    times = []
    for _ in range(max(1, len(crowd.members) * LEAVES // MEMBERS)):
        times.append(await crowd.remove(crowd.members[:1]))
        await _rest()
    return mean(times)


async def _rest() -> None:
    """Wait until the members know the latest epoch of the group."""
    await trio.sleep(REST_S)


# Responses per second while all members send `request` without pause.
async def _rush(crowd: Crowd, request: type[Message]) -> float:
    """Return how many of these requests per second all members get answered together.

    Counting begins after a fifth of the time, when all members have changed their pace.
    """
    crowd.rush(request)
    await trio.sleep(RUSH_S / 5)
    crowd.begin_to_count()
    start = trio.current_time()
    await trio.sleep(RUSH_S)
    await crowd.counting.wait()
    rate = crowd.answered / (trio.current_time() - start)
    crowd.rush(None)
    return rate


def measure(broker: BenchBroker, protocol: str, members: int, partitions: int) -> list[float]:
    """Return the figures of a turn, on a new topic and group."""
    topic = new_topic()
    broker.create_topic(topic, partitions)
    crowd = Crowd(topic, topic, topic_id_of(broker.bootstrap, topic), partitions)
    values = trio.run(figures, crowd, protocol, broker, members)
    broker.delete_topic(topic)
    return values


def topic_id_of(bootstrap: str, topic: str) -> bytes:
    """Return the id of a topic, once the broker has applied its creation."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return urlsafe_b64decode(f"{described.topic_id}==")


def measure_series(
    protocol: str, brokers: Sequence[BenchBroker], rounds: int, members: int, partitions: int
) -> list[Series]:
    """Return the series of a protocol; the brokers take turns (A B, B A, ...)."""
    title = f"{protocol}: {members} members, {partitions} partitions"
    leaving = max(1, members * LEAVING // MEMBERS)
    shown = [
        Figure(figure.name.format(leaving), figure.unit, figure.more_is_better, figure.target)
        for figure in FIGURES
    ]
    all_series = [Series(protocol, title, figure, figure.target) for figure in shown]
    for number in range(rounds):
        for broker in brokers if number % 2 else brokers[::-1]:
            values = measure(broker, protocol, members, partitions)
            for series, value in zip(all_series, values, strict=True):
                series.add(broker.name, value)
    return all_series


def section(rounds: int, series: list[Series]) -> Section:
    """Return the section of the report, with a note on how it was measured."""
    note = (
        "Groups whose members are simulated in one process, on the broker's own cores, with a"
        " heartbeat a second; a group waits a second for its first members"
        f" (`group.initial.rebalance.delay.ms`). {LEAVES} members leave one after another, and the"
        f" figure is their mean. {rounds} rounds."
        " `python -m kwire.conformance.bench.rebalancing` repeats it."
    )
    return Section(HEADING, note, series)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=3, show_default=True, help="Turns of each broker and protocol.")
@click.option("--members", default=MEMBERS, show_default=True, help="Members of the group.")
@click.option("--partitions", default=PARTITIONS, show_default=True, help="Of its topic.")
@click.option("--only", multiple=True, type=click.Choice(list(PROTOCOLS)))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to update. [default: RESULTS.md beside the code, for a whole run]",
)
def main(
    rounds: int, members: int, partitions: int, only: tuple[str, ...], output: Path | None
) -> None:
    """Measure large groups on kwire and Apache Kafka, in turns."""
    machine.allow_open_files(OPEN_FILES)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="kwire-groups-") as folder:
        brokers: list[BenchBroker] = [Kwire(Path(folder, "kwire")), Apache(Path(folder, "apache"))]
        all_series: list[Series] = []
        with running(*brokers):
            for broker in brokers:
                broker.restart(SETTINGS)
            for protocol in only or PROTOCOLS:
                all_series += measure_series(protocol, brokers, rounds, members, partitions)
                for series in all_series[-len(FIGURES) :]:
                    medians = (
                        f"{name} {median(values):,.2f}" for name, values in series.values.items()
                    )
                    console.print(f"{protocol}, {series.figure.name}: {', '.join(medians)}")
    new_section = section(rounds, all_series)
    report.print_section(console, new_section, Apache.name)
    whole = not only and (members, partitions) == (MEMBERS, PARTITIONS)
    output = output or (RESULTS if whole else None)
    if output is not None:
        report.update_report(console, output, new_section, Apache.name)


if __name__ == "__main__":
    main()
