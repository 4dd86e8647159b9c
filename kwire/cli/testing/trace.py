"""`kwire trace`: see each request and its answer, at a broker that was started with `--control`.

`kwire trace replay` sends what such a trace has kept to any broker.
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
from kwire.cli.grammar.statuses import EXIT_FOUND, checks, failure_status
from kwire.cli.serve import BROKERS_MAX
from kwire.cli.testing.control import asked_for, controlling, controls_from, which_requests
from kwire.cli.text.output import json_option, json_text, number_text, print_json, printable
from kwire.testing.clock import Clock
from kwire.testing.control import ControlClient, ControlError
from kwire.testing.several.traces import joined

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

"""Of a replay that could not be: 1 says that answers differ, as with diff."""
LOOK_AGAIN_S: Final = 0.1
WIDTHS: Final = (12, 14, 24, 26)
"""Of time, client, request and partitions, as far as they fit."""
SHOWN_PARTS_MAX: Final = 3


@click.group(cls=Commands, invoke_without_command=True)
@which_requests
@click.option("--errors", is_flag=True, help="Only what was answered with an error, or never.")
@click.option("--count", type=POSITIVE_COUNT, metavar="N", help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="All that is said, a line of JSON each.")
@click.option("--bytes", "keep_bytes", is_flag=True, help="As JSON, with what a replay sends.")
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), default=1, metavar="N",
    help="Of N brokers, at the ports from that of --control on.",
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
    """Show requests and their answers as they come, until Ctrl-C.

    The broker has to be started for it: kwire serve --control 9644

    \b
      kwire trace
      kwire trace --topic orders --api Produce --errors
      kwire trace --client billing --json --count 100 > trace.jsonl
      kwire trace --bytes > trace.jsonl
      kwire trace --bytes --brokers 3 > trace.jsonl     of kwire serve --brokers 3 --control 9644
      kwire trace replay trace.jsonl -b localhost:9093

    Passwords and tokens are not shown; of records, what the headers of their batches say. With
    --bytes all of each request and answer is kept, but for those with such secrets and those above
    4 MiB, of which the line says why.
    """
    if context.invoked_subcommand is not None:
        return
    as_json |= keep_bytes
    asked = {**asked_for(apis, which), **({"bytes": True} if keep_bytes else {})}
    with ExitStack() as ending:
        followed = [
            ending.enter_context(Followed(each, asked)) for each in controls_from(control, brokers)
        ]
        events = all_events(followed, only_errors=errors)
        for event in events if count is None else islice(events, count):
            click.echo(json_text(event) if as_json else printable(line_of(event, brokers > 1)))


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--pace", type=click.Choice(["answers", "recorded"]), default="answers", show_default=True,
    help="As fast as answers come, or no faster than in the trace.",
)  # fmt: skip
@click.option(
    "--patience", type=PAUSE_S, default=0.0, metavar="SECONDS",
    help="Ask a broker again for so long that is not ready yet. [not at all]",
)  # fmt: skip
@click.option(
    "-c", "--control", metavar="ADDRESS",
    help="Of the broker's `kwire serve --control`: have its time pass as in the trace. Of several "
    "that of broker 1.",
)  # fmt: skip
@json_option
@checks
@connected
def replay(
    cluster: Cluster, file: Path, pace: str, patience: float, control: str | None, as_json: bool
) -> None:
    """Send the requests of a trace again, and compare the answers with the recorded ones.

    To any broker that holds what the recorded one held when the trace began, as a fresh one does.
    What brokers hand out (ids of topics, producers and members, epochs, sessions) is put into the
    requests as this one hands it out; offsets are sent as recorded.

    What was asked of several brokers is asked of those with the same ids, in the cluster that the
    bootstrap servers tell of: give them some --patience, for they wait for each other.

    \b
      kwire trace --bytes > trace.jsonl
      kwire trace replay trace.jsonl -b localhost:9093
      kwire trace replay trace.jsonl -b kafka:9092 --patience 30 --json

    Exits with 0 where all answers are the same, with 1 where some differ, and with 2 where the
    trace is damaged or no broker answers.
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
    """Those of brokers by their ids, of which 1 is the first, as `kwire serve --brokers` has it;
    of one that is alone its own."""
    return lambda broker_id: Clock(first.at_port(first.port + (broker_id or 1) - 1))


class Followed:
    """A trace at one broker, looked at until the block ends, or the broker does."""

    def __init__(self, control: ControlClient, asked: Mapping[str, Any]) -> None:
        """Raises ControlError."""
        self._control = control
        self._number = control.post("/traces", asked)["trace"]
        self._last = 0
        self.lost: ControlError | None = None
        """Why it cannot be looked at any more."""

    def new(self) -> list[Mapping[str, Any]]:
        """The events since it was last asked."""
        try:
            seen = self._control.get(f"/traces/{self._number}?after={self._last}")
        except ControlError as problem:
            self.lost = problem
            return []
        if seen["dropped"]:
            click.echo(f"kwire: {seen['dropped']} requests came too fast to be shown", err=True)
        events: list[Mapping[str, Any]] = seen["events"]
        if events:
            self._last = events[-1]["number"]
        return events

    def __enter__(self) -> Followed:
        return self

    def __exit__(self, *_: object) -> None:
        """Where the broker is gone, so is the trace."""
        if self.lost is not None:
            return
        try:
            self._control.delete(f"/traces/{self._number}")
        except ControlError as problem:
            click.echo(f"kwire: {printable(str(problem))}", err=True)


def all_events(followed: list[Followed], *, only_errors: bool) -> Iterator[Mapping[str, Any]]:
    """What is seen from now on, at all of them.  Raises ControlError once none is there."""
    while True:
        events = joined(each.new() for each in followed)
        for event in events:
            if not only_errors or event["errors"] or "ending" in event:
                yield event
        for each in [each for each in followed if each.lost is not None]:
            assert each.lost is not None
            if len(followed) == 1:
                raise each.lost
            click.echo(f"kwire: {printable(str(each.lost))}", err=True)
            followed.remove(each)
        if not events:
            time.sleep(LOOK_AGAIN_S)


def line_of(event: Mapping[str, Any], of_several: bool = False) -> str:
    """An event for people: time, client, request, partitions, what came of it, ms.

    Of one of several brokers, behind the time: of which.
    """
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
