"""The command line of the chaos rounds with a mixed cluster."""

from __future__ import annotations

import faulthandler
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kwire.conformance.chaos.blocks import (
    BLOCK_ROUNDS,
    DEADLINE_S,
    EXIT_MISSING,
    BlockResults,
    BlockRunner,
    DamagedResults,
    commit_of,
    report,
    run_blocks,
)
from kwire.conformance.chaos.mixed import rounds
from kwire.conformance.chaos.mixed.plan import BROKERS, MixedFaultKind, MixedPlan, draw
from kwire.conformance.chaos.reporting import RoundOutcome, end_in_order, run_and_report
from kwire.conformance.java import JavaMissing
from kwire.conformance.kraft_cluster import APACHE, KWIRE

ROUNDS = 100
ALL = "all"
WORKLOADS = ("plain", "bank", "chain")
KEEP = Path("build/chaos-mixed")
RESULTS = Path("artifacts/chaos-mixed.jsonl")
ALONE_S = 120.0
"""Time after its deadline at which a round ends by itself; another process kills it before."""


@click.command()
@click.option(
    "--rounds", "count", type=click.IntRange(min=1), metavar="N",
    help=f"Number of rounds; {ROUNDS}, or 1 with --seed.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the first round; each next round adds 1.")
@click.option(
    "--only-fault", "only", type=click.Choice([kind.value for kind in MixedFaultKind]),
    multiple=True, help="Inject only faults of this kind; may be repeated.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
    help="Run this workload in all rounds; all: the seed determines it.",
)  # fmt: skip
@click.option(
    "--broker", "kinds", type=click.Choice([KWIRE, APACHE]), multiple=True,
    help=f"Kind of a broker at the start; given {BROKERS} times.  Without, the seed determines it.",
)  # fmt: skip
@click.option(
    "--controllers", type=click.Choice(["1", "3"]),
    help="Number of controllers; without, the seed determines it.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Folder for history, logs and output of failed rounds.",
)  # fmt: skip
@click.option(
    "--results", type=click.Path(dir_okay=False, path_type=Path), default=RESULTS,
    show_default=True, metavar="FILE",
    help="File with a line for each round and each block, if there are several rounds.  "
    "Rounds that it has of this commit and these options are not run again.",
)  # fmt: skip
@click.option(
    "--block", "block_rounds", type=click.IntRange(min=1), default=BLOCK_ROUNDS, show_default=True,
    metavar="N", help="Number of rounds in a block.",
)  # fmt: skip
@click.option(
    "--deadline", "deadline_s", type=click.FloatRange(min=0, min_open=True), default=DEADLINE_S,
    show_default=True, metavar="SECONDS", help="When a round is killed and reported as hanging.",
)  # fmt: skip
@click.option("--here", is_flag=True, hidden=True, help="Run one round in this process.")
def main(
    count: int | None,
    seed: int | None,
    only: tuple[str, ...],
    workload: str,
    kinds: tuple[str, ...],
    controllers: str | None,
    keep: Path,
    results: Path,
    block_rounds: int,
    deadline_s: float,
    here: bool,
) -> None:
    """Kill, pause and replace brokers of kwire and Apache Kafka, and their controllers, under load.

    Each round follows from its seed, and is a process of its own.  It needs Java.  The exit status
    is 1 if a round fails, 77 if something that it needs is missing.
    """
    end_in_order()
    if kinds and len(kinds) != BROKERS:
        raise click.UsageError(f"--broker is given {BROKERS} times, or not at all")
    if here:
        assert seed is not None, "--here runs the round of --seed"
        plan = draw(
            seed,
            [MixedFaultKind(name) for name in only] or list(MixedFaultKind),
            WORKLOADS if workload == ALL else (workload,),
            kinds,
            None if controllers is None else int(controllers),
        )
        sys.exit(_run_here(plan, keep / str(seed), deadline_s).status)
    first = secrets.randbelow(1 << 31) if seed is None else seed
    total = count or (ROUNDS if seed is None else 1)
    options = _options(only, workload, kinds, controllers)
    command = [sys.executable, "-m", __package__ or "", "--here", *options]
    command += [f"--keep={keep}", f"--deadline={deadline_s:g}"]
    runner = BlockRunner(command, keep, deadline_s)
    if total == 1:
        sys.exit(0 if report({first: runner.run(first)[0]}) else 1)
    click.echo(f"to continue after an interruption: --seed {first} --rounds {total}")
    try:
        stored = BlockResults(results, commit_of(Path(__file__).parent), " ".join(options))
    except DamagedResults as error:
        raise click.ClickException(str(error)) from error
    seeds = range(first, first + total)
    sys.exit(0 if run_blocks(seeds, block_rounds, stored, runner.run) else 1)


def _options(
    only: Sequence[str], workload: str, kinds: Sequence[str], controllers: str | None
) -> list[str]:
    """The options that change the plans of the rounds."""
    options = [*(f"--only-fault={name}" for name in only), f"--workload={workload}"]
    options += [f"--broker={kind}" for kind in kinds]
    return options if controllers is None else [*options, f"--controllers={controllers}"]


def _run_here(plan: MixedPlan, kept: Path, deadline_s: float) -> RoundOutcome:
    """Run one round in this process; it ends by itself if the process with the deadline is gone."""
    faulthandler.register(signal.SIGUSR1)  # the stack of each thread
    faulthandler.dump_traceback_later(deadline_s + ALONE_S, exit=True)
    try:
        return run_and_report(_head(plan), lambda at: rounds.run(plan, at), kept)
    except JavaMissing as error:
        click.echo(str(error), err=True)
        raise SystemExit(EXIT_MISSING) from error


def _head(plan: MixedPlan) -> str:
    faults = ", ".join(map(str, plan.faults))
    kinds = "-".join(plan.kinds)
    return f"seed {plan.seed}  {kinds}  {plan.controllers} controllers  {plan.workload}  {faults}"
