"""The command line of the chaos rounds."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import click

from kwire.conformance.chaos import plan as planning
from kwire.conformance.chaos import rounds
from kwire.conformance.chaos.plan import FaultKind, Plan
from kwire.conformance.chaos.subject import SUBJECTS, Subject
from kwire.conformance.chaos.telling import all_pass, end_in_order, passes
from kwire.conformance.chaos.workloads import WORKLOADS

ROUNDS = 200
ALL = "all"
KEEP = Path("build/chaos")


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
    end_in_order()
    first = secrets.randbelow(1 << 31) if seed is None else seed
    kinds = [FaultKind(only)] if only else list(FaultKind)
    workloads = list(WORKLOADS) if workload == ALL else [workload]
    total = count or (ROUNDS if seed is None else 1)

    def passes_seed(seed: int) -> bool:
        plan = planning.draw(seed, kinds, workloads)
        judge = partial(rounds.run, plan, SUBJECTS[subject])
        return passes(_head(plan), judge, keep / str(seed))

    sys.exit(0 if all_pass(range(first, first + total), passes_seed) else 1)


def _head(plan: Plan) -> str:
    kinds = Counter(fault.kind.value for fault in plan.faults)
    faults = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
    return f"seed {plan.seed}  {plan.workload}  {faults}"


__all__ = ["Subject", "main"]
