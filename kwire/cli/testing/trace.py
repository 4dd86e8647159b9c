"""`kwire trace`: shows the requests and responses of a broker started with `--control`.

`kwire trace replay` sends the requests of a recorded trace to any broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kwire.cli.app import connected
from kwire.cli.grammar.bounds import PAUSE_S, POSITIVE_COUNT
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FOUND, checks, failure_status
from kwire.cli.serve import BROKERS_MAX
from kwire.cli.testing.control import asked_for, controlling, controls_from, which_requests
from kwire.cli.text.output import json_option, json_text, number_text, print_json, printable
from kwire.testing.clock import Clock
from kwire.testing.control import ControlClient, ControlError
from kwire.testing.several.traces import joined

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

LISTING = Listing(
    150,
    "Show requests and responses as they arrive.",
    "print requests and answers, decoded; `replay` sends them again to any broker and compares "
    "the answers",
)

LOOK_AGAIN_S: Final = 0.1
WIDTHS: Final = (12, 14, 24, 26)
"""The least widths of the columns time, client, request and partitions."""
SHOWN_PARTS_MAX: Final = 3


@click.group(cls=Commands, invoke_without_command=True)
@which_requests
@click.option("--errors", is_flag=True, help="Only requests that got an error or no response.")
@click.option("--count", type=POSITIVE_COUNT, metavar="N", help="Exit after N requests.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields, one JSON object a line.")
@click.option(
    "--bytes", "keep_bytes", is_flag=True, help="As --json, with the bytes that a replay needs."
)
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), default=1, metavar="N",
    help="Trace N brokers, whose control ports start at that of --control.",
)  # fmt: skip
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
    brokers: int,
    **which: Any,  # noqa: ANN401 - the options
) -> None:
    """Show requests and responses as they arrive, until Ctrl-C.

    The broker must run with --control: kwire serve --control 9644

    \b
      kwire trace
      kwire trace --topic orders --api Produce --errors
      kwire trace --client billing --json --count 100 > trace.jsonl
      kwire trace --bytes > trace.jsonl
      kwire trace --bytes --brokers 3 > trace.jsonl     of kwire serve --brokers 3 --control 9644
      kwire trace replay trace.jsonl -b localhost:9093

    Passwords and tokens are not shown, and of records only the headers of their batches. With
    --bytes, requests and responses are recorded in full, except those with such secrets and those
    above 4 MiB; the line says why.
    """
    if context.invoked_subcommand is not None:
        return
    as_json |= keep_bytes
    asked = {**asked_for(apis, which), **({"bytes": True} if keep_bytes else {})}
    with ExitStack() as ending:
        followed = [
            ending.enter_context(TracedBroker(each, asked))
            for each in controls_from(control, brokers)
        ]
        events = all_events(followed, only_errors=errors)
        for event in events if count is None else islice(events, count):
            click.echo(json_text(event) if as_json else printable(line_of(event, brokers > 1)))


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--pace", type=click.Choice(["answers", "recorded"]), default="answers", show_default=True,
    help="Send as fast as responses arrive (answers), or not faster than in the trace (recorded).",
)  # fmt: skip
@click.option(
    "--patience", type=PAUSE_S, default=0.0, metavar="SECONDS",
    help="How long to wait for a broker that is not ready yet. [not at all]",
)  # fmt: skip
@click.option(
    "-c", "--control", metavar="ADDRESS",
    help="Address of `kwire serve --control`: advance the broker's clock as in the trace. For "
    "several brokers, the address of broker 1.",
)  # fmt: skip
@json_option
@checks
@connected
def replay(
    cluster: Cluster, file: Path, pace: str, patience: float, control: str | None, as_json: bool
) -> None:
    """Send the requests of a trace again, and compare the responses with the recorded ones.

    The broker may be any that holds what the recorded one held when the trace began, such as an
    empty one. Values that brokers assign (ids of topics, producers and members, epochs, sessions)
    are replaced in the requests by those of this broker; offsets are sent as recorded.

    Requests to several brokers go to the brokers with the same ids in the cluster of the bootstrap
    servers. Give them some --patience, since they wait for each other.

    \b
      kwire trace --bytes > trace.jsonl
      kwire trace replay trace.jsonl -b localhost:9093
      kwire trace replay trace.jsonl -b kafka:9092 --patience 30 --json

    Exits with 0 if all responses are the same, with 1 if some differ, and with 2 if the trace is
    damaged or no broker answers.
    """
    from kwire.client.connection import address_text
    from kwire.client.errors import ClientError
    from kwire.testing.replaying import DamagedTrace, NoCounterpart
    from kwire.testing.replaying import replay as replayed

    try:
        outcome = replayed(
            file,
            ",".join(address_text(*each) for each in cluster.bootstrap),
            pace=pace,
            patience_s=patience,
            timeout_s=cluster.timeout_s,
            security=cluster.security,
            clocks=None if control is None else clocks_from(ControlClient(control)),
        )
    except (DamagedTrace, NoCounterpart, ClientError, ControlError) as problem:
        click.echo(f"kwire: {printable(str(problem))}", err=True)
        raise SystemExit(failure_status()) from problem
    if as_json:
        print_json(outcome.to_json())
    else:
        for line in outcome.lines():
            click.echo(printable(line))
    if not outcome.same:
        raise SystemExit(EXIT_FOUND)


def clocks_from(first: ControlClient) -> Callable[[int | None], Clock]:
    """The clock of each broker by its id, as with `kwire serve --brokers`; of a single one by None.

    `first` is the control of broker 1.
    """
    return lambda broker_id: Clock(first.at_port(first.port + (broker_id or 1) - 1))


class TracedBroker:
    """A trace at one broker, which the end of the `with` block removes."""

    def __init__(self, control: ControlClient, asked: Mapping[str, Any]) -> None:
        """Begins a trace at one broker; `asked` is its filter as JSON.  Raises ControlError."""
        self._control = control
        self._number = control.post("/traces", asked)["trace"]
        self._last = 0
        self.lost: ControlError | None = None
        """Why the broker no longer answers; None while it does."""

    def new(self) -> list[Mapping[str, Any]]:
        """The events since the last call."""
        try:
            reply = self._control.get(f"/traces/{self._number}?after={self._last}")
        except ControlError as problem:
            self.lost = problem
            return []
        if reply["dropped"]:
            click.echo(f"kwire: {reply['dropped']} requests came too fast to be shown", err=True)
        events: list[Mapping[str, Any]] = reply["events"]
        if events:
            self._last = events[-1]["number"]
        return events

    def __enter__(self) -> TracedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the trace.  An error is only reported, since the trace's events have been shown."""
        if self.lost is not None:  # The trace is gone with its broker.
            return
        try:
            self._control.delete(f"/traces/{self._number}")
        except ControlError as problem:
            click.echo(f"kwire: {printable(str(problem))}", err=True)


def all_events(traces: list[TracedBroker], *, only_errors: bool) -> Iterator[Mapping[str, Any]]:
    """The new events of all brokers.  Raises ControlError once no broker answers."""
    while True:
        events = joined(trace.new() for trace in traces)
        for event in events:
            if not only_errors or event["errors"] or "ending" in event:
                yield event
        for trace in [trace for trace in traces if trace.lost is not None]:
            assert trace.lost is not None
            if len(traces) == 1:
                raise trace.lost
            click.echo(f"kwire: {printable(str(trace.lost))}", err=True)
            traces.remove(trace)
        if not events:
            time.sleep(LOOK_AGAIN_S)


def line_of(event: Mapping[str, Any], of_several: bool = False) -> str:
    """An event as a line: time, broker of several, client, request, partitions, outcome."""
    seconds, ms = divmod(event["timeMs"], 1000)
    broker = f"  {event['broker']}" if of_several else ""
    cells = (
        f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{ms:03d}{broker}",
        event["client"] or "-",
        f"{event['api']} v{event['version']}",
        _parts(event["partitions"]),
    )
    padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))
    return f"{padded}  {outcome_of(event)}, {number_text(event['durationMs'])} ms"


def _parts(parts: list[Mapping[str, Any]]) -> str:
    """Return the first topics and partitions of a request as text, with the number of the
    others."""
    names = [
        part["topic"] if part["partition"] is None else f"{part['topic']}-{part['partition']}"
        for part in parts[:SHOWN_PARTS_MAX]
    ]
    rest = len(parts) - len(names)
    return ", ".join([*names, *([f"{rest} more"] if rest else [])]) or "-"


def outcome_of(event: Mapping[str, Any]) -> str:
    """`ok`, the error codes in the response, or how the request ended without a response."""
    outcome = ", ".join(event["errors"])
    if "ending" in event:
        outcome = f"{outcome} {event['ending']}".strip()
    elif "response" not in event:
        outcome = "not answered"
    by = f" (fault {event['fault']})" if "fault" in event else ""
    return (outcome or "ok") + by
