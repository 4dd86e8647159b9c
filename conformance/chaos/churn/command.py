"""The command line of the churn tests."""

from __future__ import annotations

import secrets
import sys
from functools import partial
from pathlib import Path

import click

from kwire.conformance.chaos.churn import round as churn
from kwire.conformance.chaos.churn.plan import ALL_KINDS
from kwire.conformance.chaos.reporting import end_in_order, passes
from kwire.conformance.kraft_cluster import APACHE, KWIRE

MINUTES = 30.0
KEEP = Path("build/churn")


@click.command()
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), default=MINUTES, show_default=True,
    help="How long members join and leave.",
)  # fmt: skip
@click.option("--seed", type=int, help="Seed of the run; without it, a new one is drawn and shown.")
@click.option(
    "--only", "kinds", type=click.Choice(ALL_KINDS), multiple=True,
    help="Only groups of this kind; may be repeated. All kinds need Java, for streams.",
)  # fmt: skip
@click.option(
    "--brokers", type=click.IntRange(min=1), default=1, show_default=True,
    help="More than one: a cluster on one machine; one broker is killed at a time.",
)  # fmt: skip
@click.option(
    "--broker", "broker_kinds", type=click.Choice([KWIRE, APACHE]), multiple=True,
    help="Kind of a broker beside a controller of Apache Kafka; repeated for each broker.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Folder for histories and the broker's log after a violation.",
)  # fmt: skip
def main(
    minutes: float,
    seed: int | None,
    kinds: tuple[str, ...],
    brokers: int,
    broker_kinds: tuple[str, ...],
    keep: Path,
) -> None:
    """Members of groups of every protocol join, leave, are killed and paused; so is their broker.

    They read and write all the time. A record whose offset was committed must not be read again or
    be left out. Each record of a share group must end accepted, rejected or delivered as often as
    the limit allows. Kafka Streams must count exactly. The exit status is 1 after a violation.
    """
    end_in_order()
    chosen = kinds or ALL_KINDS
    number = secrets.randbelow(1 << 31) if seed is None else seed
    head = f"seed {number}  {minutes:g} minutes  {', '.join(chosen)}"
    judge = partial(
        churn.run, number, minutes * 60, chosen, brokers=brokers, broker_kinds=broker_kinds
    )
    sys.exit(0 if passes(head, judge, keep) else 1)
