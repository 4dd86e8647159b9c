"""`kwire clock`: describes and advances the clock of a broker started with `--control`."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.testing.control import controlling
from kwire.cli.text.output import json_option, number_text, print_json
from kwire.cli.values import duration_s, iso_time
from kwire.testing.control import ControlClient

LISTING = Listing(
    160,
    "Describe and advance the clock of a broker, for a test.",
    "describe the broker's clock and advance it, so that sessions, transactions and tokens expire"
    " now",
)


@click.group(cls=Commands, old={"show": "describe"})
def command() -> None:
    """Describe and advance the clock of a broker.

    The broker must run with --control: kwire serve --control 9644

    \b
      kwire clock describe
      kwire clock advance 90m
    """


@command.command()
@json_option
@controlling
def describe(control: ControlClient, as_json: bool) -> None:
    """Describe the broker's time, and how far it is ahead of this machine's time.

    \b
      kwire clock describe --json
    """
    _tell(control.get("/clock"), as_json=as_json)


@command.command()
@click.argument("duration", metavar="DURATION")
@json_option
@controlling
def advance(control: ControlClient, duration: str, as_json: bool) -> None:
    """Advance the clock.  Timers that become due fire now, in their order.

    DURATION is like 30s, 90m or 1.5h.

    \b
      kwire clock advance 90m
    """
    said = control.post("/clock", {"advance_ms": round(duration_s(duration) * 1000)})
    _tell(said, as_json=as_json)


def _tell(said: dict[str, int], *, as_json: bool) -> None:
    """Prints the broker's time, and how far it is ahead of the real time."""
    if as_json:
        print_json(said)
        return
    ahead_s = said["ahead_ms"] / 1000
    click.echo(f"{iso_time(said['now_ms'])}, {number_text(ahead_s)} s ahead")
