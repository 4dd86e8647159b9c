"""`kwire topics`: lists, creates, describes, alters and deletes topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kwire.cli.app import connected
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.bounds import PARTITION_COUNT, REPLICA_COUNT
from kwire.cli.grammar.commands import Commands, renamed_option
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.text.suggestions import suggesting_settings
from kwire.cli.values import settings_option
from kwire.client.ranges import ranges

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.codecs.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

LISTING = Listing(20, "List, create, describe, alter and delete topics.")


@click.group("topics", cls=Commands)
def command() -> None:
    """List, create, describe, alter and delete topics.

    \b
      kwire topics list
      kwire topics create orders --partitions 6 --set retention.ms=86400000
      kwire topics describe orders
      kwire topics alter orders --set retention.ms=3600000 --partitions 12
      kwire topics delete orders
    """


@command.command("list")
@click.option("--internal", is_flag=True, help="List also Kafka's internal topics.")
@json_option
@connected
def list_command(cluster: Cluster, internal: bool, as_json: bool) -> None:
    """List the names of all topics, with their partitions and replicas."""
    from kwire.client.topics import list_topics

    topics = list_topics(cluster, internal=internal)
    if as_json:
        print_json([{"topic": t.name, **_counts(t), "internal": t.is_internal} for t in topics])
        return
    rows = [(t.name, *_counts(t).values()) for t in topics]
    print_table(["topic", "partitions", "replicas"], rows)


def _counts(topic: MetadataResponseTopic) -> dict[str, int]:
    replicas = max((len(p.replica_nodes) for p in topic.partitions), default=0)
    return {"partitions": len(topic.partitions), "replication_factor": replicas}


@command.command("create")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=PARTITION_COUNT, metavar="N",
    help="Number of partitions. Default: num.partitions of the broker.",
)  # fmt: skip
@click.option(
    "-r", "--replication-factor", type=REPLICA_COUNT, metavar="N",
    help="Replicas of each partition. Default: default.replication.factor of the broker.",
)  # fmt: skip
@settings_option(
    "-s", "--set", "configs", old=["-c", "--config"],
    help="Set a config of the topic; may be given several times.",
)  # fmt: skip
@click.option("--if-not-exists", is_flag=True, help="It is no error if a topic exists already.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the topics; create nothing.")
@connected
def create_command(
    cluster: Cluster,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics.

    \b
      kwire topics create orders --partitions 6
      kwire topics create state --set cleanup.policy=compact --if-not-exists
    """
    from kwire.client.errors import BrokerRefused
    from kwire.client.topics import BROKER_DEFAULT, create_topic
    from kwire.codecs.errors import ErrorCode

    for name in names:
        try:
            with suggesting_settings("topic", dict(configs)):
                created = create_topic(
                    cluster,
                    name,
                    partitions=partitions or BROKER_DEFAULT,
                    replication_factor=replication_factor or BROKER_DEFAULT,
                    configs=dict(configs),
                    validate_only=dry_run,
                )
        except BrokerRefused as error:
            if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
                raise
            say(f"topic {name} exists already")
            continue
        done = "can be created" if dry_run else "created"
        count = created.num_partitions
        say(f"topic {name} {done}" + (f" with {counted(count, 'partition')}" if count > 0 else ""))


@command.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="It is no error if a topic does not exist.")
@asking_options()
@connected
def delete_command(
    cluster: Cluster, names: tuple[str, ...], if_exists: bool, dry_run: bool, yes: bool
) -> None:
    """Delete topics and all their records.  Shows them and asks before it deletes.

    \b
      kwire topics delete orders
      kwire topics delete orders bills --if-exists --yes
    """
    from kwire.client.errors import BrokerRefused
    from kwire.client.topics import delete_topic
    from kwire.codecs.errors import ErrorCode

    if dry_run or not yes:
        counts = _records_of(cluster, names, if_exists=if_exists)
        print_table(["topic", "partitions", "records"], [(n, *c) for n, c in counts.items()])
        what = counted(len(counts), "topic")
        if dry_run or not counts:
            say(f"{NOT_CHANGED}: {what} would be deleted")
            return
        must_agree(f"Delete {what} with all records?", yes=yes)
        names = tuple(counts)
    for name in names:
        try:
            delete_topic(cluster, name)
        except BrokerRefused as error:
            if not (if_exists and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            say(f"topic {name} does not exist")
            continue
        say(f"topic {name} deleted")


def _records_of(
    cluster: Cluster, names: tuple[str, ...], *, if_exists: bool
) -> dict[str, tuple[int, int]]:
    """(partitions, records at most) of each topic.

    A topic that does not exist is left out with `if_exists`, and else raises BrokerRefused.
    """
    from kwire.client.errors import BrokerRefused
    from kwire.codecs.errors import ErrorCode

    counts: dict[str, tuple[int, int]] = {}
    for name in names:
        try:
            topic = cluster.topic(name)
        except BrokerRefused as error:
            if not (if_exists and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            say(f"topic {name} does not exist")
            continue
        ends = _ends(cluster, topic).values()
        records = sum((end or 0) - (start or 0) for start, end in ends)
        counts[name] = len(topic.partitions), records
    return counts


@command.command("describe")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@json_option
@connected
def describe_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Describe partitions (leader, replicas, offsets) and changed configs of topics."""
    described = [_described(cluster, name) for name in names]
    if as_json:
        print_json(described)
        return
    for topic in described:
        print_table(
            ["partition", "leader", "epoch", "replicas", "in sync", "first offset", "end offset"],
            [
                (
                    p["partition"],
                    p["leader"],
                    p["leader_epoch"],
                    ranges(p["replicas"]),
                    ranges(p["in_sync"]),
                    p["first_offset"],
                    p["end_offset"],
                )
                for p in topic["partitions"]
            ],
            title=f"{topic['topic']}  (id {topic['topic_id']})",
        )
        for name, value in topic["configs"].items():
            click.echo(f"  {name}={value}")


def _described(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return a topic as a JSON object, with the offsets of its partitions and its own configs."""
    from kwire.client.configs import ConfigResource, ConfigResourceKind, Source, describe_configs
    from kwire.codecs.uuids import uuid_text

    topic = cluster.topic(name)
    ends = _ends(cluster, topic)
    configs = describe_configs(cluster, ConfigResource(ConfigResourceKind.TOPIC, name))
    return {
        "topic": name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": [
            _partition(p, *ends.get(p.partition_index, (None, None)))
            for p in sorted(topic.partitions, key=lambda p: p.partition_index)
        ],
        "configs": {c.name: c.value for c in configs if c.config_source == Source.TOPIC},
    }


def _ends(
    cluster: Cluster, topic: MetadataResponseTopic
) -> dict[int, tuple[int | None, int | None]]:
    """(first offset, end offset) of each partition that has a leader."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.offsets import end_offsets, start_offsets

    led = [
        TopicPartition(topic.name or "", p.partition_index)
        for p in topic.partitions
        if p.leader_id >= 0
    ]
    starts, ends = start_offsets(cluster, led), end_offsets(cluster, led)
    return {p.partition: (starts.get(p), ends.get(p)) for p in led}


def _partition(
    partition: MetadataResponsePartition, first_offset: int | None, end_offset: int | None
) -> dict[str, Any]:
    """Return a partition as a JSON object.  Offsets are null if the partition has no leader."""
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "in_sync": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
        "first_offset": first_offset,
        "end_offset": end_offset,
    }


@command.command("alter")
@click.argument("name", metavar="TOPIC")
@settings_option("-s", "--set", "configs", old=["-c", "--config"], help="Set a config.")
@renamed_option(
    "-d", "--delete", "deleted", old=["--delete-config"], metavar="NAME", multiple=True,
    help="Remove a config, so that the broker's setting applies.",
)  # fmt: skip
@click.option(
    "-p", "--partitions", type=PARTITION_COUNT, metavar="N",
    help="Raise the number of partitions to N. Keys may then go to other partitions.",
)  # fmt: skip
@connected
def alter_command(
    cluster: Cluster,
    name: str,
    configs: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    partitions: int | None,
) -> None:
    """Change configs of a topic, or add partitions.

    \b
      kwire topics alter orders --set retention.ms=3600000 --delete max.message.bytes
      kwire topics alter orders --partitions 12
    """
    from kwire.client.configs import (
        ConfigAlteration,
        ConfigResource,
        ConfigResourceKind,
        alter_configs,
    )
    from kwire.client.topics import add_partitions

    if not configs and not deleted and partitions is None:
        raise click.UsageError("nothing to alter: give --set, --delete or --partitions")
    changes: dict[str, tuple[ConfigAlteration, str | None]] = {}
    changes |= {key: (ConfigAlteration.SET, value) for key, value in configs}
    changes |= {key: (ConfigAlteration.DELETE, None) for key in deleted}
    if changes:
        with suggesting_settings("topic", changes):
            alter_configs(cluster, ConfigResource(ConfigResourceKind.TOPIC, name), changes)
        say(f"topic {name}: {counted(len(changes), 'setting')} changed")
    if partitions is not None:
        add_partitions(cluster, name, partitions)
        say(f"topic {name} has {counted(partitions, 'partition')}")
