"""The command line of the chaos rounds with a mixed cluster."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kwire.conformance.chaos.block_command import (
    ALL,
    WORKLOADS,
    Blocks,
    block_options,
    plan_options,
)
from kwire.conformance.chaos.blocks import EXIT_MISSING
from kwire.conformance.chaos.mixed import rounds
from kwire.conformance.chaos.mixed.plan import BROKERS, MixedFaultKind, MixedPlan, draw
from kwire.conformance.chaos.reporting import RoundOutcome, end_in_order, run_and_report
from kwire.conformance.java import JavaMissing
from kwire.conformance.kraft_cluster import APACHE, KWIRE

ROUNDS = 100
KEEP = Path("build/chaos-mixed")
RESULTS = Path("artifacts/chaos-mixed.jsonl")
ALONE_S = 120.0
"""Time after its deadline at which a round ends by itself; another process kills it before."""


@click.command()
@plan_options(ROUNDS, [kind.value for kind in MixedFaultKind])
@click.option(
    "--broker", "kinds", type=click.Choice([KWIRE, APACHE]), multiple=True,
    help=f"Kind of a broker at the start; given {BROKERS} times.  Without, the seed determines it.",
)  # fmt: skip
@click.option(
    "--controllers", type=click.Choice(["1", "3"]),
    help="Number of controllers; without, the seed determines it.",
)  # fmt: skip
@block_options(KEEP, RESULTS)
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
    options = _options(only, workload, kinds, controllers)
    blocks = Blocks(
        __package__ or "", Path(__file__).parent, keep, results, block_rounds, deadline_s
    )
    sys.exit(0 if blocks.run(seed, count, ROUNDS, options) else 1)


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
