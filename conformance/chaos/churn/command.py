"""The command line of the churn."""

from __future__ import annotations

import secrets
import sys
from functools import partial
from pathlib import Path

import click

from kwire.conformance.chaos.churn import round as churn
from kwire.conformance.chaos.churn.plan import ALL_KINDS
from kwire.conformance.chaos.telling import end_in_order, passes

MINUTES = 30.0
KEEP = Path("build/churn")


@click.command()
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), default=MINUTES, show_default=True,
    help="How long members come and go.",
)  # fmt: skip
@click.option("--seed", type=int, help="Of what happens; a new one is drawn and told without it.")
@click.option(
    "--only", "kinds", type=click.Choice(ALL_KINDS), multiple=True,
    help="Groups of this kind; may be given several times. All need Java, for streams.",
)  # fmt: skip
@click.option(
    "--brokers", type=click.IntRange(min=1), default=1, show_default=True,
    help="More than one: a cluster on one machine, of which one is killed at a time.",
)  # fmt: skip
@click.option(
    "--keep", type=click.Path(file_okay=False, path_type=Path), default=KEEP, show_default=True,
    metavar="DIR", help="Where histories and the broker's log are kept if something is wrong.",
)  # fmt: skip
def main(
    minutes: float, seed: int | None, kinds: tuple[str, ...], brokers: int, keep: Path
) -> None:
    """Members of groups of every protocol join, leave, are killed and paused; so is their broker.

    They work all the while, and nothing may be read again once its offset was committed, nor left
    out; each record of a share group ends accepted, rejected or delivered as often as it may be;
    Kafka Streams counts exactly. The exit status is 1 if that is not so.
    """
    end_in_order()
    chosen = kinds or ALL_KINDS
    number = secrets.randbelow(1 << 31) if seed is None else seed
    head = f"seed {number}  {minutes:g} minutes  {', '.join(chosen)}"
    judge = partial(churn.run, number, minutes * 60, chosen, brokers=brokers)
    sys.exit(0 if passes(head, judge, keep) else 1)
