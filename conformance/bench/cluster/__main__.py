"""`python -m kwire.conformance.bench.cluster`: measures clusters of three brokers, in turns."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console

from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.bench import machine
from kwire.conformance.bench.cluster import figures, joining, losses
from kwire.conformance.bench.cluster.asking import ClusterRequests, NoAnswer, NotInTime
from kwire.conformance.bench.cluster.figures import Book
from kwire.conformance.bench.cluster.steady import WORKS
from kwire.conformance.bench.cluster.subjects import (
    ALONE,
    BESIDE_CONTROLLER,
    KWIRE,
    ON_ZOOKEEPER,
    BenchSubject,
    Contest,
)
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import touch_memory
from kwire.conformance.java import JavaMissing
from kwire.testing import BrokerStartError, ZooKeeperMissing, ZooKeeperStartError

FAILURES = (
    ApacheKafkaError,
    RequestFailed,
    BrokerStartError,
    JavaMissing,
    NoAnswer,
    NotInTime,
    ZooKeeperMissing,
    ZooKeeperStartError,
)
LOSSES = ("failover", "client-failover", "shutdown", "catch-up", "many")
PARTS = (*(work.key for work in WORKS), *LOSSES, "join")
REPORT = Path("artifacts", "bench-cluster")
OPEN_FILES = 65_536
TOUCH_BYTES_MAX = 8 << 30
FILE_COLUMNS = 170


@dataclass(frozen=True)
class ClusterBenchPlan:
    """What to measure in a turn, and how much of it."""

    only: frozenset[str]
    rounds: int
    warm_s: float
    seconds: float
    kills: int
    megabytes: int
    partitions: int
    topics: int
    session_timeout_ms: int

    def has(self, key: str) -> bool:
        return not self.only or key in self.only

    def note(self, contest: Contest) -> str:
        """Return the text below the table: how it was measured and how to read it."""
        return (
            f"Replication factor 3, min.insync.replicas=2, sessions of {self.session_timeout_ms}"
            f" ms on {contest.store}; all else by default (Apache Kafka with the"
            f" JVM options of its start script). {self.rounds} rounds, in turns, each on fresh"
            f" clusters: {self.warm_s:g} s to warm up and {self.seconds:g} s of each work,"
            f" {self.kills} leaders killed, {self.megabytes} MB to catch up with,"
            f" {self.partitions} partitions, {self.topics} topics. Less is better of times and"
            " memory. A time after a loss begins with kill -9, so it has the session's timeout in"
            " it where there are sessions."
        )


QUICK = ClusterBenchPlan(frozenset(), 1, 1.0, 1.0, 1, 30, 200, 200, 6000)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Measure only these.")
@click.option("--rounds", default=3, show_default=True, help="Turns of each cluster.")
@click.option("--warm", default=8.0, show_default=True, help="Seconds of warm-up for each work.")
@click.option("--seconds", default=6.0, show_default=True, help="Seconds to measure each work.")
@click.option("--kills", default=7, show_default=True, help="Leaders to kill in a turn.")
@click.option("--megabytes", default=1000, show_default=True, help="Data of the catch-up, in MB.")
@click.option("--partitions", default=2000, show_default=True, help="Of the large cluster.")
@click.option("--topics", default=10_000, show_default=True, help="Of the cluster to join.")
@click.option("--session-timeout-ms", default=6000, show_default=True, help="Of all brokers.")
@click.option("--quick", is_flag=True, help="A short run to see that it works.")
@click.option("--kraft", is_flag=True, help="Beside a KRaft controller, not on ZooKeeper.")
@click.option("--alone", is_flag=True, help="`kwire serve --brokers 3`, which needs neither.")
@click.option("--only-kwire", is_flag=True, help="Leave Apache Kafka out.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    default=REPORT,
    show_default=True,
    help="Folder for figures.json and figures.md.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the brokers' data. [default: a temporary directory]",
)
def main(
    only: tuple[str, ...],
    rounds: int,
    warm: float,
    seconds: float,
    kills: int,
    megabytes: int,
    partitions: int,
    topics: int,
    session_timeout_ms: int,
    quick: bool,
    kraft: bool,
    alone: bool,
    only_kwire: bool,
    report: Path,
    directory: Path | None,
) -> None:
    """Measure three kwire brokers and three of Apache Kafka; print a table with ratios.

    On ZooKeeper, Apache Kafka is 3.9.2; with --kraft or --alone it is 4.4.0, on a KRaft controller.

    \b
      make bench-cluster
      make bench-cluster ARGS='--quick'
      make bench-cluster ARGS='--kraft'
      make bench-cluster ARGS='--alone --only client-failover'
      make bench-cluster ARGS='--only failover --kills 20 --rounds 1'
    """
    plan = ClusterBenchPlan(
        frozenset(only),
        rounds,
        warm,
        seconds,
        kills,
        megabytes,
        partitions,
        topics,
        session_timeout_ms,
    )
    if quick:
        plan = ClusterBenchPlan(**{**asdict(QUICK), "only": frozenset(only)})
    else:
        touch_memory(min(machine.free_memory_bytes() // 2, TOUCH_BYTES_MAX))
    machine.allow_open_files(OPEN_FILES)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_COLUMNS)
    if kraft and alone:
        raise click.UsageError("--kraft and --alone are two kinds of clusters: give one of them")
    contest = BESIDE_CONTROLLER if kraft else ALONE if alone else ON_ZOOKEEPER
    names = [KWIRE] if only_kwire else contest.names
    book = Book(contest.apache, contest.failover_limit_s)
    note = plan.note(contest)
    with tempfile.TemporaryDirectory(prefix="kwire-bench-", dir=directory) as folder:
        try:
            measure(
                plan, contest, names, Path(folder), book, lambda what: click.echo(what, err=True)
            )
        except FAILURES as failure:
            raise click.ClickException(str(failure)) from failure
        finally:
            book.close()
            book.print(console, note)
            write(book, plan, note, report)
    console.print(f"written: {report}/figures.json, {report}/figures.md")


def measure(
    plan: ClusterBenchPlan,
    contest: Contest,
    names: list[str],
    root: Path,
    book: Book,
    say: Callable[[str], None],
) -> None:
    """Run all rounds (A B, B A, ...); calls `say` with each part and its time in the run."""
    start = time.monotonic()
    for number in range(plan.rounds):
        for name in names if number % 2 == 0 else reversed(names):

            def say_part(what: str, at: str = f"round {number + 1}, {name}") -> None:
                say(f"{time.monotonic() - start:5.0f} s  {at}: {what}")

            with (
                contest.running(name, root / "turn", plan.session_timeout_ms) as subject,
                closing(ClusterRequests(subject)) as asking,
            ):
                asking.wait_until_members()
                turn(plan, subject, asking, book, say_part)
                say_part("done")


def turn(
    plan: ClusterBenchPlan,
    subject: BenchSubject,
    asking: ClusterRequests,
    book: Book,
    say: Callable[[str], None],
) -> None:
    """Measure everything in the plan on a new cluster."""

    def sample_memory(when: str) -> None:
        book.add("memory", subject.name, figures.memory(when, *subject.memory_mb()))

    sample_memory("idle")
    for work in WORKS:
        if plan.has(work.key):
            say(work.title)
            measured = work.measure(subject, asking, plan.warm_s, plan.seconds)
            book.add(work.key, subject.name, measured)
    sample_memory("after load")
    _lose(plan, subject, asking, book, say)
    if plan.has("many"):
        say(f"{plan.partitions} partitions")
        many = losses.ManyPartitions(subject, asking, plan.partitions)
        book.add("many", subject.name, {"created": many.create()})
        sample_memory("many partitions")
        lost = [("a member", False)]
        if subject.has_controller:
            lost.append(("the controller", True))
        for what, controller in lost:
            book.add("many", subject.name, {what: many.lose(controller=controller)})
    if plan.has("join") and subject.can_grow:
        say(f"{plan.topics} topics")
        topics = joining.ManyTopics(subject, asking, plan.topics)
        book.add("join", subject.name, {"created": topics.create()})
        sample_memory("many topics")
        say("a broker joins")
        book.add("join", subject.name, topics.join())


def _lose(
    plan: ClusterBenchPlan,
    subject: BenchSubject,
    asking: ClusterRequests,
    book: Book,
    say: Callable[[str], None],
) -> None:
    """Measure a broker that catches up, one that is shut down, and one that is killed."""
    if plan.has("catch-up"):
        say("catch-up")
        caught_up = losses.catch_up(subject, asking, plan.megabytes)
        book.add("catch-up", subject.name, caught_up)
    if plan.has("shutdown"):
        say("controlled shutdown")
        book.add("shutdown", subject.name, losses.shutdowns(subject, asking))
    if plan.has("failover"):
        say("failover")
        times = losses.failover(subject, asking, plan.kills, plan.session_timeout_ms)
        book.add("failover", subject.name, {"each": times})
    if plan.has("client-failover"):
        for what, settings in (("short backoffs", losses.SHORT_BACKOFFS), ("default settings", {})):
            say(f"failover of a client, {what}")
            times = losses.client_failover(
                subject, asking, plan.kills, plan.session_timeout_ms, settings
            )
            book.add("client-failover", subject.name, {what: times})


def write(book: Book, plan: ClusterBenchPlan, note: str, report: Path) -> None:
    """Write the figures into the folder `report`, as JSON and as Markdown."""
    report.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": dict(machine.facts()),
        "plan": asdict(plan) | {"only": sorted(plan.only)},
        "figures": book.as_json(),
    }
    (report / "figures.json").write_text(json.dumps(content, indent=2) + "\n")
    (report / "figures.md").write_text(book.markdown(note))


if __name__ == "__main__":
    main()
