"""`kwire groups`: lists, describes, resets and deletes groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kwire.cli.app import connected
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.bounds import OFFSET, OFFSET_SHIFT
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.text.suggestions import did_you_mean
from kwire.cli.values import instant, topic_partitions
from kwire.client.ranges import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.groups import GroupDescription, Tasks

LISTING = Listing(
    50,
    "List, describe, reset and delete consumer groups.",
    "list groups, describe them with their lag, reset and delete them",
)

Choice = tuple[str, list[int] | None]

STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning",
    "Reconciling", "NotReady",
)  # fmt: skip
TYPES = ("classic", "consumer", "share", "streams")
CONSUMER, SHARE = "consumer", "share"
"""The types of groups that a reset can create."""


@click.group("groups", cls=Commands)
def command() -> None:
    """List, describe, reset and delete groups: consumer groups, share groups, streams groups.

    \b
      kwire groups list
      kwire groups describe audit
      kwire groups reset audit --topic orders --to-earliest --dry-run
      kwire groups reset audit --topic orders --to-earliest
      kwire groups delete audit
    """


@command.command("list")
@click.option(
    "--state", "states", type=click.Choice(STATES, case_sensitive=False), multiple=True,
    metavar="STATE", help=f"Only groups in this state: {', '.join(STATES)}.",
)  # fmt: skip
@click.option(
    "--type", "types", type=click.Choice(TYPES, case_sensitive=False), multiple=True,
    help="Only groups of this type.",
)  # fmt: skip
@json_option
@connected
def list_command(
    cluster: Cluster, states: tuple[str, ...], types: tuple[str, ...], as_json: bool
) -> None:
    """List all groups with their types and states."""
    from kwire.client.groups import list_groups

    groups = list_groups(cluster, states, types)
    if as_json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "type": group.group_type,
                    "state": group.group_state,
                    "protocol": group.protocol_type,
                }
                for group in groups
            ]
        )
        return
    rows = [(g.group_id, g.group_type, g.group_state, g.protocol_type) for g in groups]
    print_table(["group", "type", "state", "protocol"], rows)


@command.command("describe")
@click.argument("group_id", metavar="GROUP")
@click.option("-m", "--members", is_flag=True, help="Show the members instead of the offsets.")
@json_option
@connected
def describe_command(cluster: Cluster, group_id: str, members: bool, as_json: bool) -> None:
    """Describe the progress of a group: committed offset, end offset, lag and member by partition.

    For a share group: the start offset, the number of records left, and the members that read them.
    With --members, the members of a streams group are shown with their tasks.
    """
    from kwire.client.groups import STREAMS, describe_group

    group = describe_group(cluster, group_id)
    lags = _shares(cluster, group) if group.type == SHARE else _lags(cluster, group)
    if as_json:
        print_json({**_summary(group), "members": _members(group), "partitions": lags})
        return
    title = f"{group_id}: {group.state}, coordinator {group.coordinator_id}"
    if group.epoch is not None:
        title += f", epoch {group.epoch}, assignment of epoch {group.assignment_epoch}"
    if members:
        shown = ["member", "client", "host", "instance", "assignment"]
        if group.epoch is not None:
            shown[1:1] = ["protocol", "epoch"]
        if group.type == "consumer":
            shown.append("target")
        if group.type == STREAMS:
            shown = ["member", "epoch", "client", "host", "process", "active", "standby"]
        rows = [tuple(member[column] for column in shown) for member in _members(group)]
        print_table(shown, rows, title=title)
        return
    columns = ["topic", "partition", "committed", "end", "lag", "member"]
    if group.type == SHARE:
        columns = ["topic", "partition", "start", "lag", "members"]
    print_table(columns, [tuple(lag.values()) for lag in lags], title=title)


def _summary(group: GroupDescription) -> dict[str, Any]:
    """Return the fields of a group, without its members, as a JSON object."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
    }


def _members(group: GroupDescription) -> list[dict[str, Any]]:
    """The members as JSON.  Only the consumer protocol has epochs and a target assignment."""
    return [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.client_host,
            "instance": member.instance_id,
            "assignment": _placed(member.assignment),
            "protocol": member.protocol,
            "epoch": member.epoch,
            "target": None if member.target is None else _placed(member.target),
            **_tasks(member.tasks),
        }
        for member in group.members
    ]


def _tasks(tasks: Tasks | None) -> dict[str, str]:
    """Return the tasks of a member of a streams group as table cells; none for other groups."""
    if tasks is None:
        return {}
    return {
        "process": tasks.process_id,
        "active": " ".join(tasks.active),
        "standby": " ".join(tasks.standby),
        "target_active": " ".join(tasks.target_active),
        "target_standby": " ".join(tasks.target_standby),
    }


def _placed(partitions: list[TopicPartition]) -> str:
    """Return partitions as text, such as `orders:0-2 payments:1`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{topic}:{ranges(by_topic[topic])}" for topic in sorted(by_topic))


def _lags(cluster: Cluster, group: GroupDescription) -> list[dict[str, Any]]:
    """Offsets and lag of each partition that is committed or assigned, also of deleted topics."""
    from kwire.client.groups import fetch_offsets

    committed = fetch_offsets(cluster, group.group_id)
    readers = {p: member.member_id for member in group.members for p in member.assignment}
    readers = {p: readers[p] for p in _existing(cluster, readers)}
    ends = _ends(cluster, sorted({*committed, *readers}))
    found = []
    for partition in sorted({*committed, *readers}):
        at = committed[partition].offset if partition in committed else None
        end = ends.get(partition)
        found.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": at,
                "end": end,
                "lag": None if at is None or end is None else max(end - at, 0),
                "member": readers.get(partition),
            }
        )
    return found


def _existing(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
    """The partitions that exist, and those of deleted topics.

    A task of a streams group may name partitions that one of its topics does not have.
    """
    from kwire.client.errors import BrokerRefused

    counts: dict[str, int] = {}
    for partition in partitions:
        if partition.topic not in counts:
            try:
                counts[partition.topic] = len(cluster.topic(partition.topic).partitions)
            except BrokerRefused:
                counts[partition.topic] = 0  # The topic is deleted.
        if partition.partition < counts[partition.topic] or not counts[partition.topic]:
            yield partition


def _shares(cluster: Cluster, group: GroupDescription) -> list[dict[str, Any]]:
    """Start offset, lag and members of each partition that the share group reads or has read."""
    from kwire.client.share_groups import ShareOffset, share_offsets

    offsets = share_offsets(cluster, group.group_id)
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for partition in member.assignment:
            readers.setdefault(partition, []).append(member.member_id)
    found = []
    for partition in sorted({*offsets, *readers}):
        at = offsets.get(partition, ShareOffset(None, None))
        found.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start": at.start_offset,
                "lag": at.lag,
                "members": " ".join(sorted(readers.get(partition, ()))),
            }
        )
    return found


def _ends(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offsets of the partitions.  Topics whose end offsets cannot be fetched are
    left out, so that the other offsets are still shown."""
    from kwire.client.errors import BrokerRefused, Misuse
    from kwire.client.offsets import end_offsets

    ends: dict[TopicPartition, int] = {}
    for topic in sorted({partition.topic for partition in partitions}):
        of_topic = [partition for partition in partitions if partition.topic == topic]
        try:
            ends |= end_offsets(cluster, of_topic)
        except (BrokerRefused, Misuse):
            continue  # The topic is deleted, or has no leader now.
    return ends


@command.command("delete")
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True)
@asking_options()
@connected
def delete_command(cluster: Cluster, group_ids: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete groups without members, and their committed offsets.  Asks before it deletes.

    \b
      kwire groups delete audit
      kwire groups delete audit billing --yes
    """
    from kwire.client.groups import delete_group, describe_group

    if dry_run or not yes:
        groups = [describe_group(cluster, group_id) for group_id in group_ids]
        rows = [(each.group_id, each.type, each.state, len(each.members)) for each in groups]
        print_table(["group", "type", "state", "members"], rows)
        what = counted(len(groups), "group")
        if dry_run:
            say(f"{NOT_CHANGED}: {what} would be deleted")
            return
        must_agree(f"Delete {what}, with the committed offsets?", yes=yes)
    for group_id in group_ids:
        delete_group(cluster, group_id)
        say(f"group {group_id} deleted")


@command.command("reset")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "-t", "--topic", "topics", type=topic_partitions, metavar="TOPIC[:LIST]", multiple=True,
    help="Reset a topic, or some of its partitions as in orders:0,2.",
)  # fmt: skip
@click.option("--all-topics", is_flag=True, help="Reset all partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the first record of each partition.")
@click.option("--to-latest", is_flag=True, help="To the end of each partition.")
@click.option("--to-offset", type=OFFSET, metavar="N", help="To this offset.")
@click.option(
    "--to-datetime", type=instant, metavar="TIME",
    help="To the first record at or after a time: 2026-03-01T12:00 (UTC), milliseconds, -2h.",
)  # fmt: skip
@click.option(
    "--shift-by", type=OFFSET_SHIFT, metavar="N", help="Forward by N records, or back by -N."
)
@click.option(
    "--type", "new_type", type=click.Choice([CONSUMER, SHARE]),
    help="Type of the group to create if it does not exist.",
)  # fmt: skip
@asking_options(old=["--execute"])
@json_option
@connected
def reset_command(
    cluster: Cluster,
    group_id: str,
    topics: tuple[Choice, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: int | None,
    shift_by: int | None,
    new_type: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Reset the offsets of a group without members.  Shows the plan and asks before it resets.

    A share group starts to read at the new offsets, and loses the state of its records.  With
    --type, a group that does not exist is created: consumer for a group of consume --group, share
    for a group of consume --share.

    \b
      kwire groups reset audit --topic orders --to-earliest
      kwire groups reset audit --topic orders:0,1 --to-datetime 2026-03-01T12:00 --dry-run
      kwire groups reset audit --all-topics --shift-by -100 --yes
      kwire groups reset fresh --topic orders --to-latest --type share --yes
    """
    from kwire.client.groups import commit_offsets
    from kwire.client.reset import Target, plan_reset
    from kwire.client.share_groups import alter_share_offsets

    given = {
        Target.EARLIEST: True if to_earliest else None,
        Target.LATEST: True if to_latest else None,
        Target.OFFSET: to_offset,
        Target.TIMESTAMP: to_datetime,
        Target.SHIFT: shift_by,
    }
    chosen = [(target, value) for target, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-offset, --to-datetime and --shift-by"
        )
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic, once or more, or --all-topics")
    group_type = _type_of(cluster, group_id)
    shares = _checked_type(cluster, group_id, group_type, new_type) == SHARE
    committed = {} if group_type is None else _committed(cluster, group_id, shares=shares)
    partitions = sorted(committed) if all_topics else _chosen(cluster, topics)
    target, value = chosen[0]
    plan = plan_reset(cluster, committed, partitions, target, int(value))
    rows = [(p.topic, p.partition, committed.get(p), offset) for p, offset in sorted(plan.items())]
    columns = ["topic", "partition", "committed", "new"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
    if dry_run:
        say(f"{NOT_CHANGED}: group {group_id} would be reset")
        return
    must_agree(f"Reset group {group_id} to these offsets?", yes=yes)
    (alter_share_offsets if shares else commit_offsets)(cluster, group_id, plan)
    say(f"group {group_id} reset")


def _type_of(cluster: Cluster, group_id: str) -> str | None:
    """The type of a group, one of TYPES, or None if the group does not exist."""
    from kwire.client.errors import BrokerRefused
    from kwire.client.groups import describe_group
    from kwire.codecs.errors import ErrorCode

    try:
        return describe_group(cluster, group_id).type
    except BrokerRefused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return None


def _checked_type(
    cluster: Cluster, group_id: str, group_type: str | None, new_type: str | None
) -> str:
    """The type of the group, or of the new group.  Raises Misuse if it is unknown or another one.

    A reset creates a group that does not exist.  Its consumers could not use a group of the wrong
    type.  In Apache Kafka the tool decides: kafka-consumer-groups or kafka-share-groups.
    """
    from kwire.client.errors import Misuse
    from kwire.client.groups import list_groups

    if group_type is None and new_type is None:
        hint = did_you_mean(group_id, [group.group_id for group in list_groups(cluster)])
        raise Misuse(
            f"group {group_id} does not exist{hint or ':'} give --type consumer or --type share"
            " to create it"
        )
    if (
        group_type is not None
        and new_type is not None
        and (group_type == SHARE) != (new_type == SHARE)
    ):
        raise Misuse(f"group {group_id} is a {group_type} group, not a {new_type} group")
    return group_type or new_type or CONSUMER


def _committed(cluster: Cluster, group_id: str, *, shares: bool) -> dict[TopicPartition, int]:
    """The committed offsets of a group, or the start offsets of a share group."""
    if shares:
        from kwire.client.share_groups import share_offsets

        offsets = share_offsets(cluster, group_id).items()
        return {p: at.start_offset for p, at in offsets if at.start_offset is not None}
    from kwire.client.groups import fetch_offsets

    return {p: committed.offset for p, committed in fetch_offsets(cluster, group_id).items()}


def _chosen(cluster: Cluster, topics: tuple[Choice, ...]) -> list[TopicPartition]:
    """Return the chosen partitions: those listed for each topic, or all if none are listed."""
    from kwire.client.cluster import TopicPartition

    partitions = []
    for topic, listed in topics:
        existing = [p.partition_index for p in cluster.topic(topic).partitions]
        partitions += [TopicPartition(topic, index) for index in (listed or sorted(existing))]
    return partitions


@command.command("delete-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "-t", "--topic", "topics", type=topic_partitions, metavar="TOPIC[:LIST]", multiple=True,
    required=True, help="A topic, or some of its partitions as in orders:0,2.",
)  # fmt: skip
@asking_options()
@connected
def delete_offsets_command(
    cluster: Cluster, group_id: str, topics: tuple[Choice, ...], dry_run: bool, yes: bool
) -> None:
    """Delete the committed offsets of topics that no member of the group reads.

    For a share group, only whole topics can be deleted, and only if the group has no members.  Asks
    before it deletes.

    \b
      kwire groups delete-offsets audit --topic orders:0,2
    """
    from kwire.client.groups import delete_offsets
    from kwire.client.share_groups import delete_share_offsets

    shares = _type_of(cluster, group_id) == SHARE
    if shares and any(listed for _, listed in topics):
        raise click.UsageError("for a share group, name whole topics without partitions")
    partitions = _chosen(cluster, topics)
    if dry_run or not yes:
        committed = _committed(cluster, group_id, shares=shares)
        rows = [(each.topic, each.partition, committed.get(each)) for each in partitions]
        print_table(["topic", "partition", "committed"], rows)
        if dry_run:
            say(f"{NOT_CHANGED}: these offsets of group {group_id} would be deleted")
            return
        must_agree(f"Delete these offsets of group {group_id}?", yes=yes)
    if shares:
        names = list(dict.fromkeys(name for name, _ in topics))
        delete_share_offsets(cluster, group_id, names)
        say(f"group {group_id}: offsets of {', '.join(names)} deleted")
        return
    delete_offsets(cluster, group_id, partitions)
    say(f"group {group_id}: offsets of {', '.join(map(str, partitions))} deleted")
