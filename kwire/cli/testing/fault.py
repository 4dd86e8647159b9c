"""`kwire fault`: injects faults into requests of a broker started with `--control`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from kwire.cli.grammar.bounds import (
    BROKER,
    COUNT,
    MESSAGE_BYTES,
    MILLISECONDS,
    PARTITION,
    POSITIVE_COUNT,
    SHARE,
)
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.testing.control import asked_for, controlling, which_requests
from kwire.cli.text.output import json_option, print_json, print_table
from kwire.testing.control import ControlClient, ControlUnanswered

LISTING = Listing(
    140,
    "Inject faults into requests, for a test.",
    "inject errors, delays, lost answers and more; fill or slow down the disk; move leaders",
)

FIRST: Final = ("rule", "matched", "happened", "used_up")
"""The fields of a rule that have columns of their own.  The others are its options."""


@click.group(cls=Commands)
def command() -> None:
    """Inject faults into requests: errors, delays, lost responses and more.

    The broker must run with --control: kwire serve --control 9644

    \b
      kwire fault add --api Produce --topic orders --error NOT_LEADER_OR_FOLLOWER --times 2
      kwire fault add leader-moved --topic orders --partition 0 --times 1
      kwire fault happened
      kwire fault clear
    """


@command.command()
@click.argument("preset", required=False)
@which_requests
@click.option("--skip", type=COUNT, metavar="N", help="Skip the first N matching requests.")
@click.option("--times", type=COUNT, metavar="N", help="Inject N times. [no limit]")
@click.option("--probability", type=SHARE, metavar="P", help="Inject with this probability.")
@click.option("--seed", type=COUNT, metavar="N", help="Seed of --probability.")
@click.option("--error", metavar="NAME", help="Answer with this error; do not process the request.")
@click.option("--delay-ms", type=MILLISECONDS, metavar="N", help="Process the request N ms later.")
@click.option(
    "--throttle-ms",
    type=MILLISECONDS,
    metavar="N",
    help="Respond with this throttle time (KIP-219).",
)
@click.option("--disconnect", is_flag=True, help="Close the connection.")
@click.option("--truncate", type=MESSAGE_BYTES, metavar="BYTES", help="Send only so many bytes.")
@click.option("--silence", is_flag=True, help="Never respond.")
@click.option("--disk", metavar="HOW", help="Let the broker's disk be full, failed or slow.")
@click.option(
    "--on", multiple=True, metavar="CALL",
    help="With --disk: at this call (append, fsync, roll ...); may be given several times.",
)  # fmt: skip
@click.option("--die", is_flag=True, help="Kill the broker.")
@click.option(
    "--carried-out", is_flag=True,
    help="Process the request first, so that the fault affects only the response.",
)  # fmt: skip
@controlling
def add(
    control: ControlClient,
    preset: str | None,
    apis: tuple[str, ...],
    on: tuple[str, ...],
    **given: Any,  # noqa: ANN401 - the options
) -> None:
    """Add a rule, which applies until it is removed or used up.

    PRESET is a common fault of clusters: leader-moved, coordinator-moved, coordinator-loading,
    full-disk, failed-disk, slow-disk, stale-metadata, lost-reply, death.

    \b
      kwire fault add full-disk --topic orders
      kwire fault add --client 'billing-*' --delay-ms 500 --probability 0.1 --seed 7
      kwire fault add --api Produce --disconnect --carried-out --times 1     lose the response
      kwire fault add --disk full --on append --on roll --times 3
    """
    said = {**asked_for(apis, given), **({"on": list(on)} if on else {})}
    if preset is not None:
        said["preset"] = preset
    _tell_added(control.post("/faults", said))


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@controlling
def load(control: ControlClient, file: Path) -> None:
    """Add all rules of a file, which holds a JSON list; none of them if one is invalid.

    \b
      kwire fault load outage.json
    """
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise click.ClickException(f"{file} is not JSON: {problem}") from problem
    _tell_added(control.post("/faults", said))


def _tell_added(answer: dict[str, list[int]]) -> None:
    for number in answer["rules"]:
        click.echo(f"rule {number}")


@command.command("list")
@json_option
@controlling
def list_(control: ControlClient, as_json: bool) -> None:
    """List the rules, and how often each has injected its fault.

    \b
      kwire fault list --json
    """
    faults = control.get("/faults")["faults"]
    if as_json:
        print_json(faults)
        return
    rows = [
        [
            each["rule"],
            _said(each),
            each["matched"],
            each["happened"],
            "yes" if each["used_up"] else "no",
        ]
        for each in faults
    ]
    print_table(["rule", "what", "matched", "happened", "used up"], rows)


def _said(fault: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in fault.items() if name not in FIRST})


@command.command()
@click.option("--rule", type=POSITIVE_COUNT, metavar="N", help="Only faults of this rule.")
@json_option
@controlling
def happened(control: ControlClient, rule: int | None, as_json: bool) -> None:
    """List the injected faults: the last 10,000 requests and disk calls.

    \b
      kwire fault happened --rule 1
    """
    found = control.get("/faults/happened" if rule is None else f"/faults/happened?rule={rule}")[
        "happened"
    ]
    if as_json:
        print_json(found)
        return
    rows = [
        [
            each["rule"],
            _what(each),
            each.get("client"),
            _parts(each),
            _done(each),
        ]
        for each in found
    ]
    print_table(["rule", "what", "client", "partitions", "what was done"], rows)


def _what(each: dict[str, Any]) -> str:
    """The request, the disk call, or the move that the fault was injected into."""
    if "moved" in each:
        return f"{each['moved']} moved"
    return f"{each['on']} {each['file']}" if "disk" in each else f"{each['api']} v{each['version']}"


def _parts(each: dict[str, Any]) -> str:
    return ", ".join(
        part["topic"] if part["partition"] is None else f"{part['topic']}-{part['partition']}"
        for part in each["partitions"]
    )


def _done(each: dict[str, Any]) -> str:
    """Return what an injection did to the request, or a move to the leader."""
    if "moved" in each:
        return f"from {each['from']} to {each['to']}, leader epoch {each['leader_epoch']}"
    told = [str(each[name]) for name in ("error", "ending", "disk") if name in each]
    told += [f"{name} {each[name]}" for name in ("delay_ms", "throttle_ms") if name in each]
    return ", ".join([*told, *(["carried out"] if "carried_out" in each else [])])


@command.command()
@click.argument("rule", type=POSITIVE_COUNT)
@controlling
def remove(control: ControlClient, rule: int) -> None:
    """Remove a rule.

    \b
      kwire fault remove 1
    """
    control.delete(f"/faults/{rule}")


@command.command()
@controlling
def clear(control: ControlClient) -> None:
    """Remove all rules, and clear the list of injected faults.

    \b
      kwire fault clear
    """
    control.delete("/faults")


@command.command("move-leader")
@click.option("--topic", required=True, metavar="NAME", help="Topic of the partition.")
@click.option(
    "--partition", type=PARTITION, default=0, metavar="N", show_default=True,
    help="Number of the partition.",
)  # fmt: skip
@click.option("--to", type=BROKER, metavar="BROKER", help="New leader. [the next in-sync replica]")
@controlling
def move_leader(control: ControlClient, topic: str, partition: int, to: int | None) -> None:
    """Move the leadership of a partition now, with `serve --brokers N --control PORT`.

    \b
      kwire fault move-leader --topic orders --partition 0 --to 2
    """
    _tell_moved(control, "/leaders", {"topic": topic, "partition": partition, "to": to})


@command.command("move-coordinator")
@click.option("--group", metavar="ID", help="Move the coordinator of this group.")
@click.option(
    "--transactional-id", metavar="ID", help="Move the coordinator of this transactional id."
)
@click.option(
    "--to", type=BROKER, metavar="BROKER", help="New coordinator. [the next in-sync replica]"
)
@controlling
def move_coordinator(
    control: ControlClient, group: str | None, transactional_id: str | None, to: int | None
) -> None:
    """Move a coordinator to another broker now.  A single broker loads its coordinator again.

    \b
      kwire fault move-coordinator --group billing
    """
    asked = {"group": group, "transactional_id": transactional_id, "to": to}
    _tell_moved(control, "/coordinators", asked)


def _tell_moved(control: ControlClient, path: str, asked: dict[str, Any]) -> None:
    said = {name: value for name, value in asked.items() if value is not None}
    moved = control.post(path, said)
    click.echo(f"{_parts(moved)}: {_done(moved)}")


@command.command()
@controlling
def die(control: ControlClient) -> None:
    """Kill the broker now.

    \b
      kwire fault die
    """
    try:
        control.post("/death")
    except ControlUnanswered:
        click.echo("the broker is dead")
