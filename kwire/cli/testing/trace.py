"""`kwire trace`: see each request and its answer, at a broker that was started with `--control`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from kwire.cli.output import json_text, printable
from kwire.cli.testing.control import asked_for, controlling, which_requests
from kwire.testing.control import ControlClient, ControlError

LOOK_AGAIN_S: Final = 0.1
WIDTHS: Final = (12, 14, 24, 26)
"""Of time, client, request and partitions, as far as they fit."""
SHOWN_PARTS_MAX: Final = 3


@click.command()
@which_requests
@click.option("--errors", is_flag=True, help="Only what was answered with an error, or never.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="All that is said, a line of JSON each.")
@controlling
def command(
    control: ControlClient,
    apis: tuple[str, ...],
    errors: bool,
    count: int | None,
    as_json: bool,
    **which: Any,  # noqa: ANN401 - the options
) -> None:
    """Show requests and their answers as they come, until Ctrl-C.

    The broker has to be started for it: kwire serve --control 9644

    \b
      kwire trace
      kwire trace --topic orders --api Produce --errors
      kwire trace --client billing --json --count 100 > trace.jsonl

    Passwords and tokens are not shown; of records, what the headers of their batches say.
    """
    number = control.post("/traces", asked_for(apis, which))["trace"]
    try:
        for shown, event in enumerate(_events(control, number, only_errors=errors), 1):
            click.echo(json_text(event) if as_json else printable(line_of(event)))
            if shown == count:
                return
    finally:
        _end(control, number)


def _events(
    control: ControlClient, number: int, *, only_errors: bool
) -> Iterator[Mapping[str, Any]]:
    last = 0
    while True:
        seen = control.get(f"/traces/{number}?after={last}")
        if seen["dropped"]:
            click.echo(f"kwire: {seen['dropped']} requests came too fast to be shown", err=True)
        for event in seen["events"]:
            last = event["number"]
            if not only_errors or event["errors"] or "ending" in event:
                yield event
        if not seen["events"]:
            time.sleep(LOOK_AGAIN_S)


def _end(control: ControlClient, number: int) -> None:
    """Where the broker is gone, so is the trace."""
    try:
        control.delete(f"/traces/{number}")
    except ControlError as problem:
        click.echo(f"kwire: {printable(str(problem))}", err=True)


def line_of(event: Mapping[str, Any]) -> str:
    """An event for people: time, client, request, partitions, what came of it, ms."""
    seconds, ms = divmod(event["timeMs"], 1000)
    cells = (
        f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{ms:03d}",
        event["client"] or "-",
        f"{event['api']} v{event['version']}",
        _parts(event["partitions"]),
    )
    padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return f"{padded}  {outcome_of(event)}, {event['durationMs']:g} ms"


def _parts(parts: list[Mapping[str, Any]]) -> str:
    names = [
        part["topic"] if part["partition"] is None else f"{part['topic']}-{part['partition']}"
        for part in parts[:SHOWN_PARTS_MAX]
    ]
    rest = len(parts) - len(names)
    return ", ".join([*names, *([f"{rest} more"] if rest else [])]) or "-"


def outcome_of(event: Mapping[str, Any]) -> str:
    """`ok`, the errors that were told, or what there was instead of an answer."""
    told = ", ".join(event["errors"])
    if "ending" in event:
        told = f"{told} {event['ending']}".strip()
    elif "response" not in event:
        told = "not answered"
    by = f" (fault {event['fault']})" if "fault" in event else ""
    return (told or "ok") + by
