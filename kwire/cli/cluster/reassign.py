"""`kwire cluster reassign`: other brokers for replicas."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.cluster.moves import ask_for, show_plan, show_under_way, watched
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.bounds import INT32_MAX, REPLICA_COUNT
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import bytes_text, counted, json_option, print_json, say
from kwire.cli.values import size_bytes

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.spreading import Move
    from kwire.codecs.messages.metadata import MetadataResponsePartition

    Moves = dict[TopicPartition, Move]
    States = dict[TopicPartition, MetadataResponsePartition]


def broker_ids(text: str) -> list[int]:
    """`1,2,3`."""
    ids = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,10}", each) for each in ids) or len(set(ids)) < len(ids):
        raise click.BadParameter(f"{text!r} is not like 1,2,3")
    numbers = [int(each) for each in ids]
    if max(numbers) > INT32_MAX:
        raise click.BadParameter(f"the ids of brokers end at {INT32_MAX}")
    return numbers


@click.command("reassign")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@click.option("--to", type=broker_ids, metavar="ID,...", help="Spread evenly over these brokers.")
@click.option("--off", type=broker_ids, metavar="ID,...", help="Take all off these brokers.")
@click.option(
    "-r", "--replication-factor", "factor", type=REPLICA_COUNT, metavar="N",
    help="Give each partition N replicas; also with --to or --off.",
)  # fmt: skip
@click.option(
    "--plan", "plan_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Do what a file says, in the format of kafka-reassign-partitions.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show what is under way.")
@click.option("--cancel", is_flag=True, help="Take back what is under way.")
@click.option("--finish", is_flag=True, help="Take off throttles that were left behind.")
@click.option(
    "--throttle", type=size_bytes, metavar="SIZE",
    help="Copy at most so much a second, from and to each broker: 20MB, say.",
)  # fmt: skip
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it is done.")
@asking_options()
@json_option
@connected
def command(
    cluster: Cluster,
    topics: tuple[str, ...],
    to: list[int] | None,
    off: list[int] | None,
    factor: int | None,
    plan_file: str | None,
    listed: bool,
    cancel: bool,
    finish: bool,
    throttle: int | None,
    wait: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move replicas of TOPICs, of all if none is named, to other brokers.

    \b
      kwire cluster reassign --to 1,2,3,4               broker 4 is new
      kwire cluster reassign --off 2 --throttle 20MB    broker 2 is to go
      kwire cluster reassign orders -r 3                more replicas, or fewer
      kwire cluster reassign --to 1,2,3 --dry-run --json > plan.json
      kwire cluster reassign --plan plan.json
      kwire cluster reassign --list

    The plan moves as little as it can, and puts the replicas of a partition into different racks.
    --to spreads replicas and leaders of each topic evenly; --off and --replication-factor move
    nothing else than they must.  It is shown, with the bytes to be copied, and somebody is asked.

    A throttle is set on the brokers and topics that take part, and taken off at the end, also when
    Ctrl-C ends the wait: what is left then goes on without one.  After --no-wait, or if this
    command was killed, --finish takes it off.
    """
    from kwire.client.errors import Misuse

    asked = [to is not None or off is not None or factor is not None, bool(plan_file)]
    if sum([*asked, listed, cancel, finish]) != 1 or (to is not None and off is not None):
        raise click.UsageError(
            "give --to or --off, with or without --replication-factor, or that alone;"
            " or one of --plan, --list, --cancel and --finish"
        )
    if listed:
        show_under_way(cluster, topics, as_json)
    elif cancel:
        _cancel(cluster, topics, dry_run=dry_run, yes=yes)
    elif finish:
        _finish(cluster)
    else:
        states = _states(cluster, topics)
        _check_free(cluster, states)
        try:
            moves = _plan(cluster, states, to, off, factor, plan_file)
        except ValueError as problem:
            raise Misuse(str(problem)) from problem
        _carry_out(cluster, moves, throttle, wait=wait, dry_run=dry_run, yes=yes, as_json=as_json)


def _states(cluster: Cluster, topics: tuple[str, ...]) -> States:
    """The partitions that are meant.  Raises BrokerRefused where a topic does not exist."""
    from kwire.client.survey import all_topics, partitions_of

    if topics:
        return partitions_of([cluster.topic(name) for name in topics])
    return partitions_of(all_topics(cluster))


def _plan(
    cluster: Cluster,
    states: States,
    to: list[int] | None,
    off: list[int] | None,
    factor: int | None,
    plan_file: str | None,
) -> Moves:
    """What is to change.  Raises ValueError, Misuse."""
    from kwire.client.reassignments import read_plan
    from kwire.client.spreading import planned, spread

    current = {place: tuple(state.replica_nodes) for place, state in states.items()}
    if plan_file is not None:
        wanted = read_plan(Path(plan_file).read_text())
        missing = [place for place in wanted if place not in current]
        if missing:
            raise ValueError(f"there is no partition {missing[0]}")
        moves = planned(current, wanted)
        _must_be_there(cluster, {each for move in moves.values() for each in move.after})
        return moves
    members = {node_id: node.rack for node_id, node in cluster.nodes.items()}
    _must_be_there(cluster, set(to or ()))
    if to is None:
        _must_be_meant(cluster, current, set(off or ()))
    kept = [each for each in members if each not in (off or ()) and (to is None or each in to)]
    racks = {each: members[each] for each in kept}
    return spread(current, racks, replication_factor=factor, balanced=to is not None)


def _must_be_there(cluster: Cluster, brokers: set[int]) -> None:
    missing = sorted(brokers - cluster.nodes.keys())
    if missing:
        known = ", ".join(map(str, sorted(cluster.nodes)))
        raise ValueError(f"there is no broker {missing[0]} in the cluster now: it has {known}")


def _must_be_meant(
    cluster: Cluster, current: Mapping[TopicPartition, tuple[int, ...]], off: set[int]
) -> None:
    """A broker that is away may come back: nobody has said that it is to lose its replicas."""
    for place, replicas in current.items():
        if away := set(replicas) - cluster.nodes.keys() - off:
            broker = min(away)
            raise ValueError(
                f"broker {broker}, which has a replica of {place}, is away: wait for it, or name it"
                " in --off too"
            )


def _carry_out(
    cluster: Cluster,
    moves: Moves,
    throttle: int | None,
    *,
    wait: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    from kwire.client.moving import bytes_to_copy, sizes_by_broker
    from kwire.client.reassignments import plan_object

    copied = bytes_to_copy(moves, sizes_by_broker(cluster))
    if as_json:
        print_json(plan_object({place: move.after for place, move in moves.items()}))
    else:
        show_plan(moves, copied)
    if not moves:
        say("all is as it should be: nothing moves")
        return
    total = bytes_text(sum(copied.values()))
    say(f"{counted(len(moves), 'partition')} to be changed, {total} to be copied")
    if dry_run:
        return
    if throttle is not None:
        _check_unthrottled(cluster, moves)
    must_agree("Do it?", yes=yes)
    if throttle is None:
        ask_for(cluster, moves)
        if wait:
            watched(cluster, moves)
        return
    _throttled(cluster, moves, throttle, wait=wait)


def _check_free(cluster: Cluster, states: States) -> None:
    """What is being moved has more replicas than it is to have: no plan can be made of that."""
    from kwire.client.errors import Misuse
    from kwire.client.reassignments import list_reassignments

    busy = [each.partition for each in list_reassignments(cluster) if each.partition in states]
    if busy:
        raise Misuse(
            f"{busy[0]} is being moved already, one of {len(busy)}: wait, or --cancel that first"
        )


def _check_unthrottled(cluster: Cluster, moves: Moves) -> None:
    """Somebody's throttle is not to be changed, and taken off, without his knowing."""
    from kwire.client.errors import Misuse
    from kwire.client.throttles import find_throttles

    found = find_throttles(cluster, {place.topic for place in moves})
    if found.brokers or found.topics:
        named = [f"broker {each}" for each in found.brokers] + found.topics
        raise Misuse(f"a throttle is set on {', '.join(named)}: --finish takes it off")


def _throttled(cluster: Cluster, moves: Moves, bytes_per_s: int, *, wait: bool) -> None:
    """With a throttle; without waiting it stays until --finish."""
    from kwire.client.throttles import set_throttles, take_off, to_be_throttled

    # Not what is found at the end: brokers on ZooKeeper tell of a setting a little after it is set.
    throttled = to_be_throttled(cluster, moves)
    is_to_stay = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    try:
        set_throttles(cluster, moves, bytes_per_s)
        ask_for(cluster, moves)
        if wait:
            watched(cluster, moves)
        is_to_stay = not wait
    finally:
        if is_to_stay:
            say(
                f"throttled to {bytes_text(bytes_per_s)} a second, until: cluster reassign --finish"
            )
        else:
            take_off(cluster, throttled)
            say("the throttle is taken off")


def _cancel(cluster: Cluster, topics: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    from kwire.client.reassignments import list_reassignments

    under_way = [
        each for each in list_reassignments(cluster) if not topics or each.partition.topic in topics
    ]
    if not under_way:
        say("nothing is being moved")
        return
    moving = counted(len(under_way), "partition")
    if dry_run:
        say(f"{NOT_CHANGED}: {moving} would be taken back")
        return
    must_agree(f"Take back what is done to {moving}?", yes=yes)
    _refuse_failures(cluster, {each.partition: None for each in under_way})
    say(f"{counted(len(under_way), 'partition')} taken back")


def _refuse_failures(cluster: Cluster, wanted: dict[TopicPartition, None]) -> None:
    """A reassignment that has ended meanwhile needs not be taken back."""
    from kwire.client.errors import BrokerRefused
    from kwire.client.reassignments import alter_reassignments
    from kwire.codecs.errors import ErrorCode

    for place, (code, message) in alter_reassignments(cluster, wanted).items():
        if code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            raise BrokerRefused(code, f"take back what is done to {place}", message)


def _finish(cluster: Cluster) -> None:
    from kwire.client.reassignments import list_reassignments
    from kwire.client.survey import all_topics
    from kwire.client.throttles import find_throttles, take_off

    if under_way := list_reassignments(cluster):
        say(f"kwire: {counted(len(under_way), 'partition')} still being moved: wait, or --cancel")
        raise SystemExit(EXIT_FAILURE)
    found = find_throttles(cluster, [topic.name or "" for topic in all_topics(cluster)])
    take_off(cluster, found)
    brokers, names = counted(len(found.brokers), "broker"), counted(len(found.topics), "topic")
    say(f"throttles taken off {brokers} and {names}")
