"""What the command lines of chaos rounds that run in blocks have in common."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kwire.conformance.chaos.blocks import (
    BLOCK_ROUNDS,
    DEADLINE_S,
    BlockResults,
    BlockRunner,
    DamagedResults,
    commit_of,
    report,
    run_blocks,
)

ALL: Final = "all"
WORKLOADS: Final = ("plain", "bank", "chain")

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds these options, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def plan_options(rounds: int, fault_kinds: Iterable[str]) -> Callable[[Command], Command]:
    """The options that say which rounds there are; `rounds` is their usual number."""
    return with_options(
        click.option(
            "--rounds", "count", type=click.IntRange(min=1), metavar="N",
            help=f"Number of rounds; {rounds}, or 1 with --seed.",
        ),
        click.option("--seed", type=int, help="Seed of the first round; each next round adds 1."),
        click.option(
            "--only-fault", "only", type=click.Choice(list(fault_kinds)),
            multiple=True, help="Inject only faults of this kind; may be repeated.",
        ),
        click.option(
            "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
            help="Run this workload in all rounds; all: the seed determines it.",
        ),
    )  # fmt: skip


def block_options(keep: Path, results: Path) -> Callable[[Command], Command]:
    """The options that say how rounds run, and where their outcomes are kept."""
    return with_options(
        click.option(
            "--keep", type=click.Path(file_okay=False, path_type=Path), default=keep,
            show_default=True, metavar="DIR",
            help="Folder for history, logs and output of failed rounds.",
        ),
        click.option(
            "--results", type=click.Path(dir_okay=False, path_type=Path), default=results,
            show_default=True, metavar="FILE",
            help="File with a line for each round and each block, if there are several rounds.  "
            "Rounds that it has of this commit and these options are not run again.",
        ),
        click.option(
            "--block", "block_rounds", type=click.IntRange(min=1), default=BLOCK_ROUNDS,
            show_default=True, metavar="N", help="Number of rounds in a block.",
        ),
        click.option(
            "--deadline", "deadline_s", type=click.FloatRange(min=0, min_open=True),
            default=DEADLINE_S, show_default=True, metavar="SECONDS",
            help="When a round is killed and reported as hanging.",
        ),
        click.option("--here", is_flag=True, hidden=True, help="Run one round in this process."),
    )  # fmt: skip


@dataclass(frozen=True)
class Blocks:
    """The values of `block_options`, for the rounds of one command."""

    package: str
    """The module that runs one round with --here."""
    source: Path
    """A folder in the repository, whose commit counts."""
    keep: Path
    results: Path
    block_rounds: int
    deadline_s: float

    def run(self, seed: int | None, count: int | None, rounds: int, options: Sequence[str]) -> bool:
        """Run rounds from `seed` on, each in a process of its own; return whether all pass.

        Without `seed` the first one is drawn; without `count` there are `rounds`, or 1 with a seed.
        `options` change the plans.
        """
        first = secrets.randbelow(1 << 31) if seed is None else seed
        total = count or (rounds if seed is None else 1)
        command = [sys.executable, "-m", self.package, "--here", *options]
        command += [f"--keep={self.keep}", f"--deadline={self.deadline_s:g}"]
        runner = BlockRunner(command, self.keep, self.deadline_s)
        if total == 1:
            return report({first: runner.run(first)[0]})
        click.echo(f"to continue after an interruption: --seed {first} --rounds {total}")
        try:
            stored = BlockResults(self.results, commit_of(self.source), " ".join(options))
        except DamagedResults as error:
            raise click.ClickException(str(error)) from error
        return run_blocks(range(first, first + total), self.block_rounds, stored, runner.run)
