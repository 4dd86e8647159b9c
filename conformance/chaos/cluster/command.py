"""The command line of the chaos rounds in a cluster."""

from __future__ import annotations

import faulthandler
import secrets
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import click

from kwire.conformance.chaos.cluster import network, rounds
from kwire.conformance.chaos.cluster.members import Ground, ground
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterPlan, FaultKind, Store, draw
from kwire.conformance.chaos.cluster.rounds import Verdict
from kwire.conformance.chaos.rounds import HISTORY_FILE, ClientHangs
from kwire.testing import BrokerStartError, ZooKeeperMissing

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
    signal.signal(signal.SIGTERM, _ended)  # so that what was started is ended
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
    failed = []
    try:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-chaos-"))
            on = stack.enter_context(ground(Path(directory), BROKERS))
            for number in range(first, first + total):
                plan = draw(number, kinds, workloads, stores)
                if not _passes(plan, on, keep):
                    failed.append(number)
    except ZooKeeperMissing as error:
        raise _missing(str(error)) from error
    click.echo(f"{total} rounds, {len(failed)} with violations {failed or ''}")
    sys.exit(1 if failed else 0)


def _ended(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def _missing(words: str) -> SystemExit:
    click.echo(words, err=True)
    return SystemExit(EXIT_MISSING)


def _passes(plan: ClusterPlan, on: Ground, keep: Path) -> bool:
    """Run one round, print its line, keep what it left if it failed."""
    click.echo(_head(plan), nl=False)
    with tempfile.TemporaryDirectory(prefix="kwire-chaos-") as name:
        directory = Path(name)
        try:
            verdict = rounds.run(plan, on, directory)
        except (BrokerStartError, ClientHangs) as failure:
            click.echo(f"  {type(failure).__name__}: {failure}")
            _keep(directory, keep / str(plan.seed))
            return False
        click.echo(_outcome(verdict))
        for violation in verdict.violations:
            click.echo(f"    {violation}")
        if verdict.violations:
            _keep(directory, keep / str(plan.seed))
            click.echo(f"    kept in {keep / str(plan.seed)}")
        return not verdict.violations


def _head(plan: ClusterPlan) -> str:
    faults = ", ".join(map(str, plan.faults))
    return f"seed {plan.seed}  {plan.store}  {plan.workload}  {faults}"


def _outcome(verdict: Verdict) -> str:
    result = f"{len(verdict.violations)} VIOLATIONS" if verdict.violations else "ok"
    operations = f"{verdict.operations} operations, {verdict.not_ok} not ok"
    synced = f"in sync after {verdict.in_sync_s:.1f} s"
    return f"  {operations}, {synced}  {verdict.seconds:.1f} s  {result}"


def _keep(directory: Path, target: Path) -> None:
    """The history, and each broker's log; the disks with the data are unmounted by now."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(directory / HISTORY_FILE, target / HISTORY_FILE)
    for log in (*directory.glob("*/broker.log"), *directory.glob("broker.log")):
        shutil.copy(log, target / f"{log.parent.name}.log")
