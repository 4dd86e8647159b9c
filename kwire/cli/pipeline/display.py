"""The progress of a query: one live line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.cli.text.output import say

if TYPE_CHECKING:
    from kwire.pipeline.listening import Step

EVERY_S = 10.0


@contextmanager
def display(title: str, *, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
    """Yield a function to call with each micro-batch, from any thread."""
    if quiet:
        yield lambda step: None
    elif sys.stderr.isatty():
        with _live(title) as told:
            yield told
    else:
        yield _lines(title)


@contextmanager
def _live(title: str) -> Iterator[Callable[[Step], None]]:
    """Shows a live progress bar on standard error for the duration of the `with` block; yields the
    function that takes each micro-batch.  The total is the records so far and the lag."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[how]}"),
        TimeElapsedColumn(),
    )
    records = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, how="waiting for records")

        def told(step: Step) -> None:
            """Updates the progress bar with a micro-batch."""
            nonlocal records
            records += step.records
            progress.update(
                task, completed=records, total=records + step.lag, how=_how(records, step)
            )

        yield told


def _lines(title: str) -> Callable[[Step], None]:
    """Returns a function that takes each micro-batch and prints a line of progress, at most every
    `EVERY_S` seconds."""
    records = 0
    told_at = float("-inf")

    def told(step: Step) -> None:
        """Counts a micro-batch, and prints a line unless one was printed shortly before."""
        nonlocal records, told_at
        records += step.records
        if (now := time.monotonic()) - told_at >= EVERY_S:
            told_at = now
            say(f"{title}: {_how(records, step)}")

    return told


def _how(records: int, step: Step) -> str:
    behind = f", {step.lag:,} to go" if step.lag else ""
    return f"{records:,} records, {step.records_per_s:,.0f} a second{behind}"
