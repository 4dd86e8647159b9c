"""`kwire trace`: see each request and its answer, at a broker that was started with `--control`.

`kwire trace replay` sends what such a trace has kept to any broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwire.cli.app import EXIT_FAILURE, connected
from kwire.cli.output import json_option, json_text, print_json, printable
from kwire.cli.testing.control import asked_for, controlling, which_requests
from kwire.testing.control import ControlClient, ControlError

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

EXIT_TROUBLE: Final = 2
"""Of a replay that could not be: 1 says that answers differ, as with diff."""
LOOK_AGAIN_S: Final = 0.1
WIDTHS: Final = (12, 14, 24, 26)
"""Of time, client, request and partitions, as far as they fit."""
SHOWN_PARTS_MAX: Final = 3


@click.group(invoke_without_command=True)
@which_requests
@click.option("--errors", is_flag=True, help="Only what was answered with an error, or never.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="All that is said, a line of JSON each.")
@click.option("--bytes", "keep_bytes", is_flag=True, help="As JSON, with what a replay sends.")
@click.pass_context
@controlling
def command(
    control: ControlClient,
    context: click.Context,
    apis: tuple[str, ...],
    errors: bool,
    count: int | None,
    as_json: bool,
    keep_bytes: bool,
    **which: Any,  # noqa: ANN401 - the options
) -> None:
    """Show requests and their answers as they come, until Ctrl-C.

    The broker has to be started for it: kwire serve --control 9644

    \b
      kwire trace
      kwire trace --topic orders --api Produce --errors
      kwire trace --client billing --json --count 100 > trace.jsonl
      kwire trace --bytes > trace.jsonl
      kwire trace replay trace.jsonl -b localhost:9093

    Passwords and tokens are not shown; of records, what the headers of their batches say. With
    --bytes all of each request and answer is kept, but for those with such secrets and those above
    4 MiB, of which the line says why.
    """
    if context.invoked_subcommand is not None:
        return
    as_json |= keep_bytes
    asked = {**asked_for(apis, which), **({"bytes": True} if keep_bytes else {})}
    number = control.post("/traces", asked)["trace"]
    try:
        for shown, event in enumerate(_events(control, number, only_errors=errors), 1):
            click.echo(json_text(event) if as_json else printable(line_of(event)))
            if shown == count:
                return
    finally:
        _end(control, number)


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--pace", type=click.Choice(["answers", "recorded"]), default="answers", show_default=True,
    help="As fast as answers come, or no faster than in the trace.",
)  # fmt: skip
@click.option(
    "--patience", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
    help="Ask a broker again for so long that is not ready yet. [not at all]",
)  # fmt: skip
@click.option(
    "-c", "--control", metavar="ADDRESS",
    help="Of the broker's `kwire serve --control`: have its time pass as in the trace.",
)  # fmt: skip
@json_option
@connected
def replay(
    cluster: Cluster, file: Path, pace: str, patience: float, control: str | None, as_json: bool
) -> None:
    """Send the requests of a trace again, and compare the answers with the recorded ones.

    To any broker that holds what the recorded one held when the trace began, as a fresh one does.
    What brokers hand out (ids of topics, producers and members, epochs, sessions) is put into the
    requests as this one hands it out; offsets are sent as recorded.

    
      kwire trace --bytes > trace.jsonl
      kwire trace replay trace.jsonl -b localhost:9093
      kwire trace replay trace.jsonl -b kafka:9092 --patience 30 --json

    Exits with 0 where all answers are the same, with 1 where some differ, and with 2 where the
    trace is damaged or no broker answers.
    """
    from kwire.client.connection import address_text
    from kwire.client.errors import ClientError
    from kwire.testing.clock import Clock
    from kwire.testing.replaying import DamagedTrace
    from kwire.testing.replaying import replay as replayed

    try:
        outcome = replayed(
            file,
            address_text(*cluster.bootstrap[0]),
            pace=pace,
            patience_s=patience,
            timeout_s=cluster.timeout_s,
            security=cluster.security,
            clock=None if control is None else Clock(ControlClient(control)),
        )
    except (DamagedTrace, ClientError, ControlError) as problem:
        click.echo(f"kwire: {printable(str(problem))}", err=True)
        raise SystemExit(EXIT_TROUBLE) from problem
    if as_json:
        print_json(outcome.to_json())
    else:
        for line in outcome.lines():
            click.echo(printable(line))
    if not outcome.same:
        raise SystemExit(EXIT_FAILURE)


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
