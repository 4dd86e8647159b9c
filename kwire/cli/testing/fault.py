"""`kwire fault`: have requests befallen, at a broker that was started with `--control`."""

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
from kwire.cli.testing.control import asked_for, controlling, which_requests
from kwire.cli.text.output import json_option, print_json, print_table
from kwire.testing.control import ControlClient, ControlUnanswered

FIRST: Final = ("rule", "matched", "happened", "used_up")
"""Columns of their own; all else of a rule is what was asked for."""


@click.group(cls=Commands)
def command() -> None:
    """Have requests befallen by errors, delays, lost answers and more.

    The broker has to be started for it: kwire serve --control 9644

    \b
      kwire fault add --api Produce --topic orders --error NOT_LEADER_OR_FOLLOWER --times 2
      kwire fault add leader-moved --topic orders --partition 0 --times 1
      kwire fault happened
      kwire fault clear
    """


@command.command()
@click.argument("preset", required=False)
@which_requests
@click.option("--skip", type=COUNT, metavar="N", help="Leave the first ones out.")
@click.option("--times", type=COUNT, metavar="N", help="Befall so many. [all]")
@click.option("--probability", type=SHARE, metavar="P", help="Each with this chance.")
@click.option("--seed", type=COUNT, metavar="N", help="Of that chance.")
@click.option("--error", metavar="NAME", help="Not carried out, and told so.")
@click.option("--delay-ms", type=MILLISECONDS, metavar="N", help="Carried out later.")
@click.option("--throttle-ms", type=MILLISECONDS, metavar="N", help="Told to rest (KIP-219).")
@click.option("--disconnect", is_flag=True, help="The connection is closed.")
@click.option("--truncate", type=MESSAGE_BYTES, metavar="BYTES", help="The answer is cut off.")
@click.option("--silence", is_flag=True, help="There is never an answer.")
@click.option("--disk", metavar="HOW", help="The broker's disk is full, failed or slow.")
@click.option("--on", multiple=True, metavar="CALL", help="At append, fsync, roll ...; again.")
@click.option("--die", is_flag=True, help="The broker is killed.")
@click.option(
    "--carried-out", is_flag=True, help="Carried out first: the answer is late, lost, a lie."
)
@controlling
def add(
    control: ControlClient,
    preset: str | None,
    apis: tuple[str, ...],
    on: tuple[str, ...],
    **given: Any,  # noqa: ANN401 - the options
) -> None:
    """Add a rule; it holds until it is removed or used up.

    PRESET is what happened to a cluster: leader-moved, coordinator-moved, coordinator-loading,
    full-disk, failed-disk, slow-disk, stale-metadata, lost-reply, death.

    \b
      kwire fault add full-disk --topic orders
      kwire fault add --client 'billing-*' --delay-ms 500 --probability 0.1 --seed 7
      kwire fault add --api Produce --disconnect --carried-out --times 1     the reply is lost
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
    """Add the rules of a file: a JSON list of them, all or none.

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
    """List the rules, and how often each has happened.

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
@click.option("--rule", type=POSITIVE_COUNT, metavar="N", help="Of this rule alone.")
@json_option
@controlling
def happened(control: ControlClient, rule: int | None, as_json: bool) -> None:
    """Tell which requests were befallen, and calls of the disk, the last 10,000.

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
    """A request, a call of the log, or a move."""
    if "moved" in each:
        return f"{each['moved']} moved"
    return f"{each['on']} {each['file']}" if "disk" in each else f"{each['api']} v{each['version']}"


def _parts(each: dict[str, Any]) -> str:
    return ", ".join(
        part["topic"] if part["partition"] is None else f"{part['topic']}-{part['partition']}"
        for part in each["partitions"]
    )


def _done(each: dict[str, Any]) -> str:
    if "moved" in each:
        return f"from {each['from']} to {each['to']}, leader epoch {each['leader_epoch']}"
    told = [str(each[name]) for name in ("error", "ending", "disk") if name in each]
    told += [f"{name} {each[name]}" for name in ("delay_ms", "throttle_ms") if name in each]
    return ", ".join([*told, *(["carried out"] if "carried_out" in each else [])])


@command.command()
@click.argument("rule", type=POSITIVE_COUNT)
@controlling
def remove(control: ControlClient, rule: int) -> None:
    """Have a rule hold no longer.

    \b
      kwire fault remove 1
    """
    control.delete(f"/faults/{rule}")


@command.command()
@controlling
def clear(control: ControlClient) -> None:
    """Have no rules, and forget what happened.

    \b
      kwire fault clear
    """
    control.delete("/faults")


@command.command("move-leader")
@click.option("--topic", required=True, metavar="NAME", help="Whose partition is led.")
@click.option(
    "--partition", type=PARTITION, default=0, metavar="N", show_default=True,
    help="Which one of them.",
)  # fmt: skip
@click.option("--to", type=BROKER, metavar="BROKER", help="[the next one in sync]")
@controlling
def move_leader(control: ControlClient, topic: str, partition: int, to: int | None) -> None:
    """Have another broker lead a partition, now: of `serve --brokers N --control PORT`.

    \b
      kwire fault move-leader --topic orders --partition 0 --to 2
    """
    _tell_moved(control, "/leaders", {"topic": topic, "partition": partition, "to": to})


@command.command("move-coordinator")
@click.option("--group", metavar="ID", help="Of this group.")
@click.option("--transactional-id", metavar="ID", help="Of this transactional id.")
@click.option("--to", type=BROKER, metavar="BROKER", help="[the next one in sync]")
@controlling
def move_coordinator(
    control: ControlClient, group: str | None, transactional_id: str | None, to: int | None
) -> None:
    """Have another broker coordinate, now; a broker that is alone loads its coordinator anew.

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
    """Have the broker killed, now.

    \b
      kwire fault die
    """
    try:
        control.post("/death")
    except ControlUnanswered:
        click.echo("the broker is dead")
