"""The command line of the chaos rounds in a cluster."""

from __future__ import annotations

import faulthandler
import secrets
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from kwire.conformance.chaos.cluster import network, rounds
from kwire.conformance.chaos.cluster.members import ground
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterPlan, FaultKind, Store, draw
from kwire.conformance.chaos.telling import all_pass, end_in_order, passes
from kwire.testing import ZooKeeperMissing

ROUNDS = 300
ALL = "all"
WORKLOADS = ("plain", "bank", "chain")
STORES = (Store.ZOOKEEPER, Store.ZOOKEEPER, Store.SHARED)
"""More befalls brokers on several machines."""
KEEP = Path("build/chaos-cluster")
EXIT_MISSING = 77
"""What the rounds need is not to be had here: how test suites say that something was skipped."""


@click.command()
@click.option(
    "--rounds", "count", type=click.IntRange(min=1), metavar="N",
    help=f"How many; {ROUNDS}, or 1 with --seed.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of the first round; each next one has the next number.")
@click.option(
    "--only-fault", "only", type=click.Choice([kind.value for kind in FaultKind]), multiple=True,
    help="Faults of this kind alone; several times if need be.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
    help="This one in all rounds; all: one by the seed.",
)  # fmt: skip
@click.option(
    "--store", type=click.Choice([*(store.value for store in Store), ALL]), default=ALL,
    show_default=True, help="Where the cluster keeps its metadata; all: one by the seed.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Where history and logs of a failing round are kept.",
)  # fmt: skip
def main(
    count: int | None,
    seed: int | None,
    only: tuple[str, ...],
    workload: str,
    store: str,
    keep: Path,
) -> None:
    """Kill, pause, cut off and starve three brokers under load, and check what clients saw.

    Each round follows from its seed.  It takes network namespaces, and ZooKeeper.  The exit status
    is 1 if a round shows a violation, 77 if what it takes is missing.
    """
    end_in_order()
    faulthandler.register(signal.SIGUSR1)  # where each thread is: for rounds that hang
    try:
        network.enter([sys.executable, "-m", __package__ or "", *sys.argv[1:]])
    except network.NetworkMissing as error:
        raise _missing(f"no network namespaces: {error}") from error
    first = secrets.randbelow(1 << 31) if seed is None else seed
    kinds = [FaultKind(each) for each in only] or list(FaultKind)
    workloads = WORKLOADS if workload == ALL else (workload,)
    stores = STORES if store == ALL else (Store(store),)
    total = count or (ROUNDS if seed is None else 1)
    try:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-chaos-"))
            on = stack.enter_context(ground(Path(directory), BROKERS))

            def passes_seed(seed: int) -> bool:
                plan = draw(seed, kinds, workloads, stores)
                return passes(_head(plan), lambda at: rounds.run(plan, on, at), keep / str(seed))

            sys.exit(0 if all_pass(range(first, first + total), passes_seed) else 1)
    except ZooKeeperMissing as error:
        raise _missing(str(error)) from error


def _missing(words: str) -> SystemExit:
    click.echo(words, err=True)
    return SystemExit(EXIT_MISSING)


def _head(plan: ClusterPlan) -> str:
    faults = ", ".join(map(str, plan.faults))
    return f"seed {plan.seed}  {plan.store}  {plan.workload}  {faults}"
