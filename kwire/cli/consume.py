"""`kwire consume`: records become lines."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.output import counted, say
from kwire.cli.records import text_of, to_json
from kwire.cli.values import instant, iso_time, partitions, ranges, separator

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.consumer import Consumer
    from kwire.client.fetcher import ConsumedRecord

POLL_S = 0.5
AUTO_COMMIT_INTERVAL_S = 5.0
"""Kafka's default of auto.commit.interval.ms."""


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--from-beginning", is_flag=True, help="From the first record that is there.")
@click.option(
    "-o", "--offset", type=int, metavar="N",
    help="From this offset on; below zero: so many before the end of each partition.",
)  # fmt: skip
@click.option(
    "-t", "--since", type=instant, metavar="TIME",
    help="From the first record at or after a time: 2026-03-01T12:00 (UTC), milliseconds, -2h.",
)  # fmt: skip
@click.option("-p", "--partitions", "wanted", type=partitions, metavar="LIST", help="E.g. 0,4-7.")
@click.option(
    "-g", "--group", metavar="GROUP", help="As a member of this group, committing offsets."
)
@click.option("-n", "--max-messages", type=click.IntRange(min=1), metavar="N", help="Then exit.")
@click.option(
    "-e", "--exit", "exit_at_end", is_flag=True, help="Exit at the end of the partitions."
)
@click.option(
    "-f", "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "full", "json"]),
    help="text: values; full: time, partition, offset, key and value; json: all, a line each.",
)  # fmt: skip
@click.option(
    "-k", "--key-separator", type=separator, metavar="TEXT", help="Print keys before the values."
)
@click.option("--read-committed", is_flag=True, help="Hide records of open, aborted transactions.")
@connected
def command(
    cluster: Cluster,
    topics: tuple[str, ...],
    from_beginning: bool,
    offset: int | None,
    since: int | None,
    wanted: list[int] | None,
    group: str | None,
    max_messages: int | None,
    exit_at_end: bool,
    form: str,
    key_separator: str | None,
    read_committed: bool,
) -> None:
    """Print the records of topics as they come, one a line, until Ctrl-C.

    \b
      kwire consume orders                          what comes from now on
      kwire consume orders --from-beginning -e      all there is, then exit
      kwire consume orders -o -10 -e                the last 10 of each partition
      kwire consume orders --since -1h -f full      the last hour, with time, offset and key
      kwire consume orders -g audit --from-beginning
                                                    where the group left off; else the beginning
    """
    from kwire.client.consumer import Consumer, Reset
    from kwire.client.offsets import Isolation

    if sum([from_beginning, offset is not None, since is not None]) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --since")
    if group is not None and (offset is not None or since is not None or wanted is not None):
        raise click.UsageError("a group has its own offsets and partitions: see kwire groups reset")
    consumer = Consumer(
        cluster,
        isolation=Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED,
        reset=Reset.EARLIEST if from_beginning else Reset.LATEST,
    )
    if group is not None:
        consumer.subscribe(group, topics, on_assigned=_tell_assigned)
    else:
        chosen = _partitions(cluster, topics, wanted)
        consumer.assign(_positions(cluster, chosen, from_beginning, offset, since))
    printer = _printer(form, key_separator)
    # `timeout` and service managers send SIGTERM: a member then leaves its group, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        count = _print_all(consumer, printer, max_messages, exit_at_end, group is not None)
    finally:
        consumer.close()
    say(counted(count, "record"))


def _partitions(
    cluster: Cluster, topics: tuple[str, ...], wanted: list[int] | None
) -> list[TopicPartition]:
    from kwire.client.cluster import TopicPartition
    from kwire.client.errors import Misuse

    found = []
    for name in topics:
        there = sorted(p.partition_index for p in cluster.topic(name).partitions)
        missing = sorted(set(wanted or ()) - set(there))
        if missing:
            raise Misuse(f"topic {name} has partitions {ranges(there)}, not {ranges(missing)}")
        found += [TopicPartition(name, index) for index in there if not wanted or index in wanted]
    return found


def _positions(
    cluster: Cluster,
    chosen: list[TopicPartition],
    from_beginning: bool,
    offset: int | None,
    since: int | None,
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
    from kwire.client.offsets import end_offsets, offsets_at, start_offsets

    if since is not None:
        return offsets_at(cluster, chosen, since)
    if from_beginning:
        return start_offsets(cluster, chosen)
    ends = end_offsets(cluster, chosen)
    if offset is None:
        return ends
    starts = start_offsets(cluster, chosen)
    return {
        partition: min(max(starts[partition], end + offset if offset < 0 else offset), end)
        for partition, end in ends.items()
    }


def _tell_assigned(assigned: list[TopicPartition]) -> None:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in assigned:
        by_topic.setdefault(topic, []).append(partition)
    names = [f"{topic}:{ranges(indexes)}" for topic, indexes in sorted(by_topic.items())]
    say(f"the group gives this member {', '.join(names) or 'no partition'}")


def _printer(form: str, key_separator: str | None) -> Callable[[ConsumedRecord], None]:
    """Writes one record in the form asked for; text is the records' own bytes."""
    out = sys.stdout.buffer
    between = None if key_separator is None else key_separator.encode()

    def text(record: ConsumedRecord) -> None:
        if between is not None:
            out.write(b"null" if record.key is None else record.key)
            out.write(between)
        out.write(b"null" if record.value is None else record.value)
        out.write(b"\n")

    def full(record: ConsumedRecord) -> None:
        where = f"{record.topic}-{record.partition} @ {record.offset}"
        key = text_of(record.key)
        line = f"{iso_time(record.timestamp_ms)}  {where}  {key}  {text_of(record.value)}"
        headers = "".join(f"  {name}={text_of(value)}" for name, value in record.headers)
        out.write(f"{line}{headers}\n".encode())

    def json(record: ConsumedRecord) -> None:
        out.write(f"{to_json(record)}\n".encode())

    return {"text": text, "full": full, "json": json}[form]


def _print_all(
    consumer: Consumer,
    printer: Callable[[ConsumedRecord], None],
    max_messages: int | None,
    exit_at_end: bool,
    commits: bool,
) -> int:
    """Print until there is enough, the end is reached, or Ctrl-C; returns how many.

    A group's offsets are committed from time to time and at the end, for what was printed.
    """
    import time

    count = 0
    commit_due = time.monotonic() + AUTO_COMMIT_INTERVAL_S
    try:
        while not (exit_at_end and consumer.has_joined == commits and consumer.is_at_end):
            records_max = None if max_messages is None else max_messages - count
            for record in consumer.poll(POLL_S, records_max):
                printer(record)
                count += 1
            if count == max_messages:
                break
            sys.stdout.buffer.flush()
            if commits and time.monotonic() > commit_due:
                consumer.commit()
                commit_due = time.monotonic() + AUTO_COMMIT_INTERVAL_S
    except KeyboardInterrupt:
        pass  # how a person ends it: what was printed still counts
    finally:
        sys.stdout.buffer.flush()
        if commits and consumer.has_joined:
            consumer.commit()
    return count
