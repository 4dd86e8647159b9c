"""`kwire export`: what a cluster has, as `kwire apply` takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.text.output import counted, printable, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.fetcher import ConsumedRecord


@click.command("export")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Where to; standard output if not given.",
)  # fmt: skip
@click.option(
    "--records", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Write each topic's records into a file there, too, which the export names.",
)  # fmt: skip
@connected
def command(cluster: Cluster, output: Path | None, records: Path | None) -> None:
    """Write what a cluster has as a file for `kwire apply`: topics, users, rules, quotas, settings
    of groups and client metrics.

    Applied to a broker that has nothing it makes the same.  No password is in it, for brokers keep
    none: it names a variable of the environment for each user, that `kwire apply` reads it from.

    \b
      kwire export -o cluster.yaml
      kwire export -o cluster.yaml --records records
      kwire export | kwire apply /dev/stdin --bootstrap-server other:9092 --yes
    """
    from kwire.cli.declared_state.found import look
    from kwire.cli.declared_state.reading import SECTIONS
    from kwire.cli.declared_state.state import is_kafkas_own
    from kwire.cli.declared_state.writing import text_of

    found = look(cluster, SECTIONS)
    files: dict[str, str] = {}
    if records is not None:
        records.mkdir(parents=True, exist_ok=True)
        topics = [name for name, each in found.topics.items() if not is_kafkas_own(name, each)]
        files = dict(written(cluster, topics, records, output))
    text = text_of(found, files)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
    for section, why in found.untold.items():
        say(printable(f"{section} are not told: {why}"))


def written(
    cluster: Cluster, topics: Iterable[str], folder: Path, output: Path | None
) -> Iterator[tuple[str, str]]:
    """Topic and its file, as the export beside it names that, of all that have records."""
    from kwire.cli.text.records import to_json

    beside = (Path() if output is None else output.parent).absolute()
    for topic in topics:
        path = folder / f"{topic}.jsonl"
        count = 0
        with path.open("w", encoding="utf-8") as file:
            for record in committed(cluster, topic):
                file.write(f"{to_json(record)}\n")
                count += 1
        if not count:
            path.unlink()
            continue
        say(printable(f"{counted(count, 'record')} of {topic}"))
        absolute = path.absolute()
        near = absolute.is_relative_to(beside)
        yield topic, str(absolute.relative_to(beside) if near else absolute)


def committed(cluster: Cluster, topic: str) -> Iterator[ConsumedRecord]:
    """The records that are there now, without those of transactions that came to nothing."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.consumer import Consumer, Reset
    from kwire.client.offsets import Isolation, end_offsets, start_offsets

    count = len(cluster.topic(topic).partitions)
    partitions = [TopicPartition(topic, index) for index in range(count)]
    ends = end_offsets(cluster, partitions, Isolation.READ_COMMITTED)
    consumer = Consumer(cluster, isolation=Isolation.READ_COMMITTED, reset=Reset.EARLIEST)
    consumer.assign(start_offsets(cluster, partitions))
    try:
        while any(consumer.positions[each] < ends[each] for each in partitions):
            for record in consumer.poll():
                if record.offset < ends[TopicPartition(topic, record.partition)]:
                    yield record
    finally:
        consumer.close()
