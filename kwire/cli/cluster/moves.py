"""Shows planned moves of replicas, asks the cluster to carry them out, and shows their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import bytes_text, counted, print_json, print_table, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.moving import Progress
    from kwire.client.spreading import ReplicaMove

ROWS_MAX = 40
PAUSE_S = 0.5
LINE_EVERY_S = 10.0
"""How often progress is printed if there is no terminal for a progress bar."""


def show_plan(moves: Mapping[TopicPartition, ReplicaMove], copied: Mapping[int, int]) -> None:
    """Print the move of each partition, and the bytes that each broker will receive."""
    rows = [
        (str(place), _listed(move.before), _listed(move.after), _listed(move.adding) or None)
        for place, move in list(moves.items())[:ROWS_MAX]
    ]
    if not rows:
        return
    print_table(["partition", "replicas", "will be", "copied to"], rows)
    if len(moves) > len(rows):
        click.echo(f"and {counted(len(moves) - len(rows), 'partition')} more (--json has all)")
    if copied:
        getting = [(each, bytes_text(size)) for each, size in sorted(copied.items())]
        print_table(["broker", "gets"], getting)


def _listed(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def show_under_way(cluster: Cluster, topics: tuple[str, ...], as_json: bool) -> None:
    """Print the reassignments in progress, of these topics or of all."""
    from kwire.client.reassignments import list_reassignments

    found = [
        each for each in list_reassignments(cluster) if not topics or each.partition.topic in topics
    ]
    if as_json:
        columns = ("replicas", "adding", "removing")
        print_json(
            [
                {"topic": each.partition.topic, "partition": each.partition.partition}
                | {name: list(getattr(each, name)) for name in columns}
                for each in found
            ]
        )
        return
    rows = [(str(each.partition), *(_listed(ids) or None for ids in each[1:])) for each in found]
    if rows:
        print_table(["partition", "replicas now", "adding", "removing"], rows)
    say(f"{counted(len(found), 'partition')} being moved")


def ask_for(cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove]) -> None:
    """Ask the controller to start the moves.  Prints those that it refuses, and then exits."""
    from kwire.client.errors import BrokerRefused
    from kwire.client.reassignments import alter_reassignments

    refused = alter_reassignments(cluster, {place: move.after for place, move in moves.items()})
    for place, (code, message) in refused.items():
        say(f"kwire: {BrokerRefused(code, f'reassign {place}', message)}")
    if refused:
        raise SystemExit(EXIT_FAILURE)
    say(f"{counted(len(moves), 'partition')} being moved")


def watched(cluster: Cluster, moves: Mapping[TopicPartition, ReplicaMove]) -> None:
    """Show the progress until all moves are done.  Ctrl-C ends the wait, but not the moves."""
    from kwire.client.moving import await_moves

    try:
        with _display(len(moves)) as show_progress:
            elsewhere = await_moves(cluster, moves, show_progress, lambda: time.sleep(PAUSE_S))
    except KeyboardInterrupt:
        say("the moves continue: `kwire cluster reassign --list` shows them, --cancel cancels them")
        raise
    if elsewhere:
        say(
            f"kwire: {counted(len(elsewhere), 'partition')} did not get the planned replicas, "
            f"such as {elsewhere[0]}: the reassignment may have been cancelled"
        )
        raise SystemExit(EXIT_FAILURE)
    say("done")


@contextmanager
def _display(count: int) -> Iterator[Callable[[Progress], None]]:
    """A function that shows progress: as a bar on a terminal, else as a line every 10 s."""
    if not sys.stderr.isatty():
        yield _lines(count)
        return
    from rich import progress as rich_progress
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.fields[left]}"), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with rich_progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("moving", total=None, left=f"{count} to go")

        def update_bar(progress: Progress) -> None:
            """Updates the progress bar.  A total of 0 bytes would show no bar, hence at least 1."""
            bar.update(
                task,
                completed=progress.copied_bytes,
                total=max(progress.total_bytes, 1),
                left=f"{progress.partitions_left} of {count} to go",
            )

        yield update_bar


def _lines(count: int) -> Callable[[Progress], None]:
    """Return a function that prints the progress as a line, at most every `LINE_EVERY_S`
    seconds."""
    printed_at = time.monotonic()

    def print_line(progress: Progress) -> None:
        """Prints the progress unless a line was printed shortly before.  The end of the moves is
        not printed here."""
        nonlocal printed_at
        if progress.partitions_left and time.monotonic() - printed_at >= LINE_EVERY_S:
            printed_at = time.monotonic()
            copied = f"{bytes_text(progress.copied_bytes)} of {bytes_text(progress.total_bytes)}"
            say(f"{progress.partitions_left} of {count} partitions to go, {copied} copied")

    return print_line
