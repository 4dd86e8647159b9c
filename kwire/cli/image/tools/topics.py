"""`kafka-topics`: creates, lists, describes, alters and deletes topics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.image.tools.options import (
    Tool,
    bootstrap_of,
    carried_out,
    cluster_of,
    cluster_options,
    file_option,
    pair,
)

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.codecs.messages.metadata import MetadataResponseTopic

ACTIONS = ("create", "list", "describe", "alter", "delete")


@click.command("kafka-topics", cls=Tool)
@click.option("--create", "action", flag_value="create", help="Create a topic.")
@click.option("--list", "action", flag_value="list", help="List the names of topics.")
@click.option("--describe", "action", flag_value="describe", help="Describe topics.")
@click.option("--alter", "action", flag_value="alter", help="Raise the number of partitions.")
@click.option("--delete", "action", flag_value="delete", help="Delete topics.")
@click.option("--topic", metavar="NAME", help="The topic; but for --create a regular expression.")
@click.option("--partitions", type=click.IntRange(1), metavar="N")
@click.option("--replication-factor", type=click.IntRange(1), metavar="N")
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE")
@click.option("--if-not-exists", is_flag=True, help="With --create: an existing topic is no error.")
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
@click.option("--exclude-internal", is_flag=True, help="Leave out Kafka's internal topics.")
@cluster_options
@file_option("--command-config")
def command(
    action: str | None,
    topic: str | None,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    if_exists: bool,
    exclude_internal: bool,
    bootstrap_server: str | None,
    zookeeper: str | None,
    command_config: Path | None,
) -> None:
    """Create, list, describe, alter or delete topics, with the options of Kafka's kafka-topics."""
    bootstrap = bootstrap_of(bootstrap_server, zookeeper)
    if action is None:
        raise click.UsageError(f"write one of --{', --'.join(ACTIONS)}")
    if action in ("create", "alter", "delete") and not topic:
        raise click.UsageError(f"--{action} needs --topic NAME")
    if action == "alter" and partitions is None:
        raise click.UsageError("--alter needs --partitions N; for configs see kwire configs")
    settings = dict(pair(each) for each in configs)

    def work() -> None:
        with cluster_of(bootstrap, command_config) as cluster:
            if action == "create":
                _create(
                    cluster, topic or "", partitions, replication_factor, settings, if_not_exists
                )
                return
            found = _matching(cluster, topic, internal=not exclude_internal)
            if topic and not found and not if_exists and action != "list":
                raise click.ClickException(f"Topic '{topic}' does not exist as expected")
            for each in found:
                _carry_out(cluster, action or "", each, partitions)

    carried_out(work)


def _create(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
) -> None:
    """Create a topic, or leave it as it is if it may exist."""
    from kwire.client.errors import BrokerRefused
    from kwire.client.topics import BROKER_DEFAULT, create_topic
    from kwire.codecs.errors import ErrorCode

    try:
        create_topic(
            cluster,
            name,
            partitions=partitions or BROKER_DEFAULT,
            replication_factor=replicas or BROKER_DEFAULT,
            configs=configs,
        )
    except BrokerRefused as problem:
        if if_not_exists and problem.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        raise
    click.echo(f"Created topic {name}.")


def _matching(
    cluster: Cluster, pattern: str | None, *, internal: bool
) -> list[MetadataResponseTopic]:
    """The topics whose whole name a regular expression matches; all topics without one."""
    from kwire.client.topics import list_topics

    topics = list_topics(cluster, internal=internal)
    if pattern is None:
        return topics
    try:
        expression = re.compile(pattern)
    except re.error as problem:
        raise click.UsageError(f"--topic {pattern}: no regular expression: {problem}") from None
    return [each for each in topics if expression.fullmatch(each.name or "")]


def _carry_out(
    cluster: Cluster, action: str, topic: MetadataResponseTopic, partitions: int | None
) -> None:
    """List, describe, alter or delete one topic."""
    from kwire.client.topics import add_partitions, delete_topic

    name = topic.name or ""
    if action == "list":
        click.echo(name)
    elif action == "describe":
        _describe(cluster, topic)
    elif action == "alter":
        add_partitions(cluster, name, partitions or 0)
    else:
        delete_topic(cluster, name)


def _describe(cluster: Cluster, topic: MetadataResponseTopic) -> None:
    """Print a topic as Kafka's tool does: a line for it, and one for each partition."""
    from kwire.client.configs import ConfigResource, ConfigResourceKind, Source, describe_configs
    from kwire.codecs.uuids import uuid_text

    name = topic.name or ""
    own = describe_configs(cluster, ConfigResource(ConfigResourceKind.TOPIC, name))
    configs = ",".join(f"{c.name}={c.value}" for c in own if c.config_source == Source.TOPIC)
    replicas = max((len(each.replica_nodes) for each in topic.partitions), default=0)
    click.echo(
        f"Topic: {name}\tTopicId: {uuid_text(topic.topic_id)}\t"
        f"PartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}\t"
        f"Configs: {configs}"
    )
    for each in sorted(topic.partitions, key=lambda partition: partition.partition_index):
        leader = str(each.leader_id) if each.leader_id >= 0 else "none"
        click.echo(
            f"\tTopic: {name}\tPartition: {each.partition_index}\tLeader: {leader}\t"
            f"Replicas: {','.join(map(str, each.replica_nodes))}\t"
            f"Isr: {','.join(map(str, each.isr_nodes))}"
        )
