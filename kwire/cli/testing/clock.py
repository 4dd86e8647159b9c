"""`kwire clock`: the time of a broker that was started with `--control`."""

from __future__ import annotations

import click

from kwire.cli.grammar.commands import Commands
from kwire.cli.testing.control import controlling
from kwire.cli.text.output import json_option, number_text, print_json
from kwire.cli.values import duration_s, iso_time
from kwire.testing.control import ControlClient


@click.group(cls=Commands, old={"show": "describe"})
def command() -> None:
    """Describe a broker's time, and have it pass.

    The broker has to be started for it: kwire serve --control 9644

    \b
      kwire clock describe
      kwire clock advance 90m
    """


@command.command()
@json_option
@controlling
def describe(control: ControlClient, as_json: bool) -> None:
    """Describe the broker's time, and how far it is ahead of this machine's.

    \b
      kwire clock describe --json
    """
    _tell(control.get("/clock"), as_json=as_json)


@command.command()
@click.argument("duration", metavar="DURATION")
@json_option
@controlling
def advance(control: ControlClient, duration: str, as_json: bool) -> None:
    """Have time pass: what comes due meanwhile is done now, in its order.

    DURATION is as 30s, 90m or 1.5h.

    \b
      kwire clock advance 90m
    """
    said = control.post("/clock", {"advance_ms": round(duration_s(duration) * 1000)})
    _tell(said, as_json=as_json)


def _tell(said: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    ahead_s = said["ahead_ms"] / 1000
    click.echo(f"{iso_time(said['now_ms'])}, {number_text(ahead_s)} s ahead")
