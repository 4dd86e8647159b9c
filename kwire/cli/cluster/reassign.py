"""`kwire cluster reassign`: moves replicas to other brokers."""

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
    from kwire.client.spreading import ReplicaMove
    from kwire.codecs.messages.metadata import MetadataResponsePartition

    Moves = dict[TopicPartition, ReplicaMove]
    States = dict[TopicPartition, MetadataResponsePartition]


def broker_ids(text: str) -> list[int]:
    """The broker ids in a text like `1,2,3`."""
    ids = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,10}", each) for each in ids) or len(set(ids)) < len(ids):
        raise click.BadParameter(f"{text!r} is not like 1,2,3")
    numbers = [int(each) for each in ids]
    if max(numbers) > INT32_MAX:
        raise click.BadParameter(f"the ids of brokers end at {INT32_MAX}")
    return numbers


@click.command("reassign")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1)
@click.option(
    "--to", type=broker_ids, metavar="ID,...", help="Spread replicas evenly over these brokers."
)
@click.option(
    "--off", type=broker_ids, metavar="ID,...", help="Move all replicas off these brokers."
)
@click.option(
    "-r", "--replication-factor", "factor", type=REPLICA_COUNT, metavar="N",
    help="Give each partition N replicas; also with --to or --off.",
)  # fmt: skip
@click.option(
    "--plan", "plan_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="Carry out the plan in FILE, in the format of kafka-reassign-partitions.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show the reassignments in progress.")
@click.option("--cancel", is_flag=True, help="Cancel the reassignments in progress.")
@click.option("--finish", is_flag=True, help="Remove the throttles of ended reassignments.")
@click.option(
    "--throttle", type=size_bytes, metavar="SIZE",
    help="Copy at most SIZE bytes per second from and to each broker, as in 20MB.",
)  # fmt: skip
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until all moves are done."
)
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
    """Move replicas of TOPICs, or of all topics, to other brokers.

    \b
      kwire cluster reassign --to 1,2,3,4               use the new broker 4
      kwire cluster reassign --off 2 --throttle 20MB    before broker 2 is removed
      kwire cluster reassign orders -r 3                change the number of replicas
      kwire cluster reassign --to 1,2,3 --dry-run --json > plan.json
      kwire cluster reassign --plan plan.json
      kwire cluster reassign --list

    The plan moves as little as possible, and puts the replicas of a partition into different racks.
    --to spreads the replicas and leaders of each topic evenly; --off and --replication-factor move
    only what they have to.  The command shows the plan and the bytes to copy, and asks before it
    starts.

    --throttle sets a throttle on the brokers and topics that take part, and removes it at the end,
    also when Ctrl-C ends the wait; the moves then continue without it.  After --no-wait, or if the
    command was killed, --finish removes the throttle.
    """
    from kwire.client.errors import Misuse

    asked = [to is not None or off is not None or factor is not None, bool(plan_file)]
    if sum([*asked, listed, cancel, finish]) != 1 or (to is not None and off is not None):
        raise click.UsageError(
            "give --to, --off or --replication-factor, or one of --plan, --list, --cancel and "
            "--finish; --replication-factor also goes with --to and --off"
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
    """The partitions of these topics, or of all.  Raises BrokerRefused for an unknown topic."""
    from kwire.client.inspection.survey import all_topics, partitions_of

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
    """The moves that the options ask for.  Raises ValueError or Misuse."""
    from kwire.client.reassignments import read_plan
    from kwire.client.spreading import planned, spread

    current = {place: tuple(state.replica_nodes) for place, state in states.items()}
    if plan_file is not None:
        wanted = read_plan(Path(plan_file).read_text())
        missing = [place for place in wanted if place not in current]
        if missing:
            raise ValueError(f"partition {missing[0]} does not exist")
        moves = planned(current, wanted)
        _check_brokers_exist(cluster, {each for move in moves.values() for each in move.after})
        return moves
    members = {node_id: node.rack for node_id, node in cluster.nodes.items()}
    _check_brokers_exist(cluster, set(to or ()))
    if to is None:
        _check_absent_brokers(cluster, current, set(off or ()))
    kept = [each for each in members if each not in (off or ()) and (to is None or each in to)]
    racks = {each: members[each] for each in kept}
    return spread(current, racks, replication_factor=factor, balanced=to is not None)


def _check_brokers_exist(cluster: Cluster, brokers: set[int]) -> None:
    """Raise ValueError if one of the brokers is not in the cluster now."""
    missing = sorted(brokers - cluster.nodes.keys())
    if missing:
        known = ", ".join(map(str, sorted(cluster.nodes)))
        raise ValueError(f"broker {missing[0]} is not in the cluster now; brokers are: {known}")


def _check_absent_brokers(
    cluster: Cluster, current: Mapping[TopicPartition, tuple[int, ...]], off: set[int]
) -> None:
    """Raise ValueError if a replica is on an absent broker that --off does not name.

    Such a broker may come back, so its replicas are moved only if the user names it.
    """
    for place, replicas in current.items():
        if away := set(replicas) - cluster.nodes.keys() - off:
            broker = min(away)
            raise ValueError(
                f"broker {broker}, which has a replica of {place}, is not in the cluster now: "
                "start it, or name it in --off"
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
    """Shows the planned moves, asks for agreement unless `yes`, and starts them.  `throttle`
    limits the copying in bytes/s; None is unlimited.  `wait`: shows the progress until all are
    complete."""
    from kwire.client.moving import bytes_to_copy, sizes_by_broker
    from kwire.client.reassignments import plan_object

    copied = bytes_to_copy(moves, sizes_by_broker(cluster))
    if as_json:
        print_json(plan_object({place: move.after for place, move in moves.items()}))
    else:
        show_plan(moves, copied)
    if not moves:
        say("nothing to move: all replicas are where they should be")
        return
    total = bytes_text(sum(copied.values()))
    say(f"{counted(len(moves), 'partition')} to move, {total} to copy")
    if dry_run:
        return
    if throttle is not None:
        _check_unthrottled(cluster, moves)
    must_agree("Move them?", yes=yes)
    if throttle is None:
        ask_for(cluster, moves)
        if wait:
            watched(cluster, moves)
        return
    _throttled(cluster, moves, throttle, wait=wait)


def _check_free(cluster: Cluster, states: States) -> None:
    """Raise Misuse if a partition is being moved, since it has extra replicas meanwhile."""
    from kwire.client.errors import Misuse
    from kwire.client.reassignments import list_reassignments

    busy = [each.partition for each in list_reassignments(cluster) if each.partition in states]
    if busy:
        raise Misuse(
            f"{counted(len(busy), 'partition')} still being moved, such as {busy[0]}: wait, or "
            "cancel that first by --cancel"
        )


def _check_unthrottled(cluster: Cluster, moves: Moves) -> None:
    """Raise Misuse if a throttle is set, which this command would replace and then remove."""
    from kwire.client.errors import Misuse
    from kwire.client.throttles import find_throttles

    found = find_throttles(cluster, {place.topic for place in moves})
    if found.brokers or found.topics:
        named = [f"broker {each}" for each in found.brokers] + found.topics
        raise Misuse(f"a throttle is set on {', '.join(named)}: --finish removes it")


def _throttled(cluster: Cluster, moves: Moves, bytes_per_s: int, *, wait: bool) -> None:
    """Move with a throttle, and remove it at the end.  Without `wait` it stays until --finish."""
    from kwire.client.throttles import set_throttles, take_off, to_be_throttled

    # Remember what is throttled: brokers on ZooKeeper report a new setting only after a moment.
    throttled = to_be_throttled(cluster, moves)
    is_to_stay = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Remove the throttle, as at Ctrl-C.
    try:
        set_throttles(cluster, moves, bytes_per_s)
        ask_for(cluster, moves)
        if wait:
            watched(cluster, moves)
        is_to_stay = not wait
    finally:
        if is_to_stay:
            say(
                f"throttled to {bytes_text(bytes_per_s)} per second until `kwire cluster reassign"
                " --finish`"
            )
        else:
            take_off(cluster, throttled)
            say("throttle removed")


def _cancel(cluster: Cluster, topics: tuple[str, ...], *, dry_run: bool, yes: bool) -> None:
    """Cancels the reassignments of the topics, or all without topics, after agreement unless
    `yes`."""
    from kwire.client.reassignments import list_reassignments

    under_way = [
        each for each in list_reassignments(cluster) if not topics or each.partition.topic in topics
    ]
    if not under_way:
        say("no reassignment is in progress")
        return
    moving = counted(len(under_way), "partition")
    if dry_run:
        say(f"{NOT_CHANGED}: the reassignment of {moving} would be cancelled")
        return
    must_agree(f"Cancel the reassignment of {moving}?", yes=yes)
    _cancel_all(cluster, {each.partition: None for each in under_way})
    say(f"reassignment of {moving} cancelled")


def _cancel_all(cluster: Cluster, wanted: dict[TopicPartition, None]) -> None:
    """Cancel reassignments.  One that has ended meanwhile is no error."""
    from kwire.client.errors import BrokerRefused
    from kwire.client.reassignments import alter_reassignments
    from kwire.codecs.errors import ErrorCode

    for place, (code, message) in alter_reassignments(cluster, wanted).items():
        if code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            raise BrokerRefused(code, f"cancel the reassignment of {place}", message)


def _finish(cluster: Cluster) -> None:
    """Removes the replication throttles that a move left behind.  Exits with a failure as long as
    reassignments are in progress, since these need the throttles."""
    from kwire.client.inspection.survey import all_topics
    from kwire.client.reassignments import list_reassignments
    from kwire.client.throttles import find_throttles, take_off

    if under_way := list_reassignments(cluster):
        say(
            f"kwire: {counted(len(under_way), 'partition')} still being moved: wait, or cancel "
            "that by --cancel"
        )
        raise SystemExit(EXIT_FAILURE)
    found = find_throttles(cluster, [topic.name or "" for topic in all_topics(cluster)])
    take_off(cluster, found)
    brokers, names = counted(len(found.brokers), "broker"), counted(len(found.topics), "topic")
    say(f"throttles removed from {brokers} and {names}")
