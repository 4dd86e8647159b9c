"""The command line of the chaos rounds with a cluster."""

from __future__ import annotations

import faulthandler
import signal
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
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
from kwire.conformance.chaos.cluster import network, rounds
from kwire.conformance.chaos.cluster.members import ground
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterFaultKind, ClusterPlan, Store, draw
from kwire.conformance.chaos.reporting import PREFIX, RoundOutcome, end_in_order, run_and_report
from kwire.testing import ZooKeeperMissing

ROUNDS = 300
STORES = (Store.ZOOKEEPER, Store.ZOOKEEPER, Store.SHARED)
"""ZooKeeper has twice the weight, since more faults exist for brokers on several machines."""
KEEP = Path("build/chaos-cluster")
RESULTS = Path("artifacts/chaos-cluster.jsonl")
ALONE_S = 120.0
"""Time after its deadline at which a round ends by itself; another process kills it before."""


@click.command()
@plan_options(ROUNDS, [kind.value for kind in ClusterFaultKind])
@click.option(
    "--store", type=click.Choice([*(store.value for store in Store), ALL]), default=ALL,
    show_default=True, help="Where the cluster keeps its metadata; all: the seed determines it.",
)  # fmt: skip
@block_options(KEEP, RESULTS)
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
    options = [*(f"--only-fault={name}" for name in only), f"--workload={workload}"]
    options.append(f"--store={store}")
    blocks = Blocks(
        __package__ or "", Path(__file__).parent, keep, results, block_rounds, deadline_s
    )
    sys.exit(0 if blocks.run(seed, count, ROUNDS, options) else 1)


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
