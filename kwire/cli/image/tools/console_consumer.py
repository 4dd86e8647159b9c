"""`kafka-console-consumer`: prints the records of a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    from kwire.client.consumer import Consumer
    from kwire.client.fetcher import ConsumedRecord

PRINTED: Final = ("print.timestamp", "print.partition", "print.offset", "print.key", "print.value")
SEPARATORS: Final = ("key.separator", "line.separator")
POLL_S: Final = 0.5
EXIT_TIMEOUT: Final = 1
"""The status of Kafka's tool after --timeout-ms."""


@click.command("kafka-console-consumer", cls=Tool)
@click.option("--topic", required=True, metavar="NAME")
@click.option("--from-beginning", is_flag=True, help="Start at the first record.")
@click.option("--max-messages", type=click.IntRange(1), metavar="N", help="Exit after N records.")
@click.option(
    "--timeout-ms", type=click.IntRange(1), metavar="N", help="Exit if no record comes for N ms."
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Read this partition only.")
@click.option("--group", metavar="NAME", help="Read as a member of this group, and commit.")
@click.option(
    "--property", "--formatter-property", "properties", multiple=True, metavar="NAME=VALUE",
    help=f"{', '.join((*PRINTED, *SEPARATORS))}",
)  # fmt: skip
@cluster_options
@file_option("--consumer.config", "--command-config")
def command(
    topic: str,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    partition: int | None,
    group: str | None,
    properties: tuple[str, ...],
    bootstrap_server: str | None,
    zookeeper: str | None,
    command_config: Path | None,
) -> None:
    """Print the records of a topic, with the options of Kafka's kafka-console-consumer."""
    bootstrap = bootstrap_of(bootstrap_server, zookeeper)
    given = dict(pair(each) for each in properties)
    for name in given:
        if name not in (*PRINTED, *SEPARATORS):
            raise click.UsageError(
                f"--property {name}: it can be {', '.join((*PRINTED, *SEPARATORS))}"
            )
    if group is not None and partition is not None:
        raise click.UsageError("a group assigns partitions: leave out --group or --partition")

    def work() -> bool:
        from kwire.client.consumer import Consumer, Reset

        with cluster_of(bootstrap, command_config) as cluster:
            reset = Reset.EARLIEST if from_beginning else Reset.LATEST
            consumer = Consumer(cluster, reset=reset)
            try:
                if group is None:
                    _assign(cluster, consumer, topic, partition, from_beginning=from_beginning)
                else:
                    consumer.subscribe(group, [topic])
                return _print_all(consumer, given, max_messages, timeout_ms)
            finally:
                consumer.close()

    if not carried_out(work):
        click.echo(f"no record for {timeout_ms} ms", err=True)
        raise SystemExit(EXIT_TIMEOUT)


def _assign(
    cluster: Cluster, consumer: Consumer, topic: str, only: int | None, *, from_beginning: bool
) -> None:
    """Read one or all partitions, from their first or from their next record on."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.offsets import end_offsets, start_offsets

    found = cluster.topic(topic, create=True)
    partitions = [
        TopicPartition(topic, each.partition_index)
        for each in found.partitions
        if only in (None, each.partition_index)
    ]
    if not partitions:
        raise click.ClickException(f"topic {topic} has no partition {only}")
    offsets = start_offsets if from_beginning else end_offsets
    consumer.assign(offsets(cluster, partitions))


def _print_all(
    consumer: Consumer,
    properties: Mapping[str, str],
    max_messages: int | None,
    timeout_ms: int | None,
) -> bool:
    """Print records until there are enough (True), or none comes for a time (False)."""
    count, last_s = 0, time.monotonic()
    while max_messages is None or count < max_messages:
        left = None if max_messages is None else max_messages - count
        records = consumer.poll(POLL_S, left)
        for record in records:
            sys.stdout.buffer.write(_line(record, properties))
        sys.stdout.buffer.flush()
        now_s = time.monotonic()
        if records:
            count, last_s = count + len(records), now_s
            if consumer.has_joined:
                consumer.commit()
        elif timeout_ms is not None and (now_s - last_s) * 1000 >= timeout_ms:
            return False
    return True


def _line(record: ConsumedRecord, properties: Mapping[str, str]) -> bytes:
    """A record as Kafka's formatter prints it."""
    shown = {
        "print.timestamp": f"{record.timestamp_type}:{record.timestamp_ms}".encode(),
        "print.partition": f"Partition:{record.partition}".encode(),
        "print.offset": f"Offset:{record.offset}".encode(),
        "print.key": b"null" if record.key is None else record.key,
        "print.value": b"null" if record.value is None else record.value,
    }
    fields = [
        text
        for name, text in shown.items()
        if properties.get(name, str(name == "print.value")).lower() == "true"
    ]
    separator = properties.get("key.separator", "\t").encode()
    return separator.join(fields) + properties.get("line.separator", "\n").encode()
