"""The command line of the chaos rounds with a cluster."""

from __future__ import annotations

import faulthandler
import secrets
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
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
from kwire.conformance.chaos.cluster import network, rounds
from kwire.conformance.chaos.cluster.members import ground
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterFaultKind, ClusterPlan, Store, draw
from kwire.conformance.chaos.reporting import PREFIX, RoundOutcome, end_in_order, run_and_report
from kwire.testing import ZooKeeperMissing

ROUNDS = 300
ALL = "all"
WORKLOADS = ("plain", "bank", "chain")
STORES = (Store.ZOOKEEPER, Store.ZOOKEEPER, Store.SHARED)
"""ZooKeeper has twice the weight, since more faults exist for brokers on several machines."""
KEEP = Path("build/chaos-cluster")
RESULTS = Path("artifacts/chaos-cluster.jsonl")
ALONE_S = 120.0
"""Time after its deadline at which a round ends by itself; another process kills it before."""


@click.command()
@click.option(
    "--rounds", "count", type=click.IntRange(min=1), metavar="N",
    help=f"Number of rounds; {ROUNDS}, or 1 with --seed.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the first round; each next round adds 1.")
@click.option(
    "--only-fault", "only", type=click.Choice([kind.value for kind in ClusterFaultKind]),
    multiple=True, help="Inject only faults of this kind; may be repeated.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
    help="Run this workload in all rounds; all: the seed determines it.",
)  # fmt: skip
@click.option(
    "--store", type=click.Choice([*(store.value for store in Store), ALL]), default=ALL,
    show_default=True, help="Where the cluster keeps its metadata; all: the seed determines it.",
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
    store: str,
    keep: Path,
    results: Path,
    block_rounds: int,
    deadline_s: float,
    here: bool,
) -> None:
    """Kill, pause, cut off and starve three brokers under load, and check what clients saw.

    Each round follows from its seed, and is a process of its own.  It needs network namespaces, and
    ZooKeeper.  The exit status is 1 if a round fails, 77 if something that it needs is missing.
    """
    end_in_order()
    if here:
        assert seed is not None, "--here runs the round of --seed"
        draw_plan = partial(
            draw,
            seed,
            [ClusterFaultKind(name) for name in only] or list(ClusterFaultKind),
            WORKLOADS if workload == ALL else (workload,),
            STORES if store == ALL else (Store(store),),
        )
        sys.exit(_run_here(draw_plan(), keep / str(seed), deadline_s).status)
    first = secrets.randbelow(1 << 31) if seed is None else seed
    total = count or (ROUNDS if seed is None else 1)
    seeds = range(first, first + total)
    options = [*(f"--only-fault={name}" for name in only), f"--workload={workload}"]
    options.append(f"--store={store}")
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
    sys.exit(0 if run_blocks(seeds, block_rounds, stored, runner.run) else 1)


def _run_here(plan: ClusterPlan, kept: Path, deadline_s: float) -> RoundOutcome:
    """Run one round in this process; it ends by itself if the process with the deadline is gone."""
    faulthandler.register(signal.SIGUSR1)  # the stack of each thread
    try:
        network.enter([sys.executable, "-m", __package__ or "", *sys.argv[1:]])
        faulthandler.dump_traceback_later(deadline_s + ALONE_S, exit=True)
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX))
            on = stack.enter_context(ground(Path(directory), BROKERS))
            return run_and_report(_head(plan), lambda at: rounds.run(plan, on, at), kept)
    except network.NetworkMissing as error:
        raise _missing(f"no network namespaces: {error}") from error
    except ZooKeeperMissing as error:
        raise _missing(str(error)) from error


def _missing(text: str) -> SystemExit:
    click.echo(text, err=True)
    return SystemExit(EXIT_MISSING)


def _head(plan: ClusterPlan) -> str:
    faults = ", ".join(map(str, plan.faults))
    return f"seed {plan.seed}  {plan.store}  {plan.workload}  {faults}"
