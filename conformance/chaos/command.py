"""The command line of the chaos rounds."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NoReturn

import click

from kwire.conformance.chaos import plan as planning
from kwire.conformance.chaos import rounds
from kwire.conformance.chaos.plan import FaultKind, Plan
from kwire.conformance.chaos.rounds import HISTORY_FILE, ClientHangs, Verdict
from kwire.conformance.chaos.subject import SUBJECTS, Subject, SubjectFailed
from kwire.conformance.chaos.workloads import WORKLOADS

ROUNDS = 200
ALL = "all"
KEEP = Path("build/chaos")
BROKER_LOG = "broker.log"


@click.command()
@click.option(
    "--rounds", "count", type=click.IntRange(min=1), metavar="N",
    help=f"How many; {ROUNDS}, or 1 with --seed.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of the first round; each next one has the next number.")
@click.option(
    "--only-fault", "only", type=click.Choice([kind.value for kind in FaultKind]),
    help="Faults of this kind alone.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
    help="This one in all rounds; all: one by the seed.",
)  # fmt: skip
@click.option(
    "--subject", type=click.Choice(list(SUBJECTS)), default="kwire", show_default=True,
    help="The broker that is judged.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Where history and broker log of a failing round are kept.",
)  # fmt: skip
def main(
    count: int | None,
    seed: int | None,
    only: str | None,
    workload: str,
    subject: str,
    keep: Path,
) -> None:
    """Kill, pause, restart and starve a broker under load, and check what its clients saw.

    Each round follows from its seed. The exit status is 1 if a round shows a violation.
    """
    signal.signal(signal.SIGTERM, _ended)  # so that what is mounted is unmounted
    first = secrets.randbelow(1 << 31) if seed is None else seed
    kinds = [FaultKind(only)] if only else list(FaultKind)
    workloads = list(WORKLOADS) if workload == ALL else [workload]
    total = count or (ROUNDS if seed is None else 1)
    failed = []
    for number in range(first, first + total):
        plan = planning.draw(number, kinds, workloads)
        if not _passes(plan, subject, keep):
            failed.append(number)
    click.echo(f"{total} rounds, {len(failed)} with violations {failed or ''}")
    sys.exit(1 if failed else 0)


def _ended(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def _passes(plan: Plan, subject: str, keep: Path) -> bool:
    """Run one round, print its line, keep what it left if it failed."""
    with tempfile.TemporaryDirectory(prefix="kwire-chaos-") as name:
        directory = Path(name)
        try:
            verdict = rounds.run(plan, SUBJECTS[subject], directory)
        except (SubjectFailed, ClientHangs) as failure:
            click.echo(f"{_head(plan)}  {type(failure).__name__}: {failure}")
            _keep(directory, keep / str(plan.seed))
            return False
        click.echo(_line(verdict))
        for violation in verdict.violations:
            click.echo(f"    {violation}")
        if verdict.violations:
            _keep(directory, keep / str(plan.seed))
            click.echo(f"    kept in {keep / str(plan.seed)}")
        return not verdict.violations


def _head(plan: Plan) -> str:
    kinds = Counter(fault.kind.value for fault in plan.faults)
    faults = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
    return f"seed {plan.seed}  {plan.workload}  {faults}"


def _line(verdict: Verdict) -> str:
    head = _head(verdict.plan)
    if any(fault.kind is FaultKind.DISK for fault in verdict.plan.faults):
        head += f" ({verdict.disk})"
    result = f"{len(verdict.violations)} VIOLATIONS" if verdict.violations else "ok"
    operations = f"{verdict.operations} operations, {verdict.not_ok} not ok"
    return f"{head}  {operations}  {verdict.seconds:.1f} s  {result}"


def _keep(directory: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in (HISTORY_FILE, BROKER_LOG):
        if (directory / name).exists():
            shutil.copy(directory / name, target / name)


__all__ = ["Subject", "main"]
