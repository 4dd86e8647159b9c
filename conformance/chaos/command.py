"""The command line of the chaos rounds with one broker."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import click

from kwire.conformance.chaos import plan as planning
from kwire.conformance.chaos import rounds
from kwire.conformance.chaos.plan import BrokerFaultKind, BrokerPlan
from kwire.conformance.chaos.reporting import all_pass, end_in_order, passes
from kwire.conformance.chaos.subject import SUBJECTS
from kwire.conformance.chaos.workloads import WORKLOADS

ROUNDS = 200
ALL = "all"
KEEP = Path("build/chaos")


@click.command()
@click.option(
    "--rounds", "count", type=click.IntRange(min=1), metavar="N",
    help=f"Number of rounds; {ROUNDS}, or 1 with --seed.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the first round; each next round adds 1.")
@click.option(
    "--only-fault", "only", type=click.Choice([kind.value for kind in BrokerFaultKind]),
    help="Inject only faults of this kind.",
)  # fmt: skip
@click.option(
    "--workload", type=click.Choice([*WORKLOADS, ALL]), default=ALL, show_default=True,
    help="Run this workload in all rounds; all: the seed determines it.",
)  # fmt: skip
@click.option(
    "--subject", type=click.Choice(list(SUBJECTS)), default="kwire", show_default=True,
    help="The broker to test.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Folder for the history and broker log of failed rounds.",
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
    kinds = [BrokerFaultKind(only)] if only else list(BrokerFaultKind)
    workloads = list(WORKLOADS) if workload == ALL else [workload]
    total = count or (ROUNDS if seed is None else 1)

    def passes_seed(seed: int) -> bool:
        plan = planning.draw(seed, kinds, workloads)
        judge = partial(rounds.run, plan, SUBJECTS[subject])
        return passes(_head(plan), judge, keep / str(seed))

    sys.exit(0 if all_pass(range(first, first + total), passes_seed) else 1)


def _head(plan: BrokerPlan) -> str:
    kinds = Counter(fault.kind.value for fault in plan.faults)
    faults = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
    return f"seed {plan.seed}  {plan.workload}  {faults}"


__all__ = ["main"]
