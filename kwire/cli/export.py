"""`kwire export`: writes the state of a cluster to a file for `kwire apply`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, printable, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.fetcher import ConsumedRecord

LISTING = Listing(
    120,
    "Write the state of a cluster to such a file.",
    "write the state of a cluster as such a file, on request with its records",
)


@click.command("export")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File to write. Default: standard output.",
)  # fmt: skip
@click.option(
    "--records", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Write also the records of each topic, to a file in FOLDER that the export refers to.",
)  # fmt: skip
@connected
def command(cluster: Cluster, output: Path | None, records: Path | None) -> None:
    """Write the state of a cluster to a file for `kwire apply`: topics, users, ACLs, quotas, and
    configs of groups and client metrics.

    Applied to an empty broker, the file creates the same state.  It holds no passwords, since
    brokers do not store them: for each user it names an environment variable, from which
    `kwire apply` reads the password.

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
        say(printable(f"{section} are not exported: {why}"))


def written(
    cluster: Cluster, topics: Iterable[str], folder: Path, output: Path | None
) -> Iterator[tuple[str, str]]:
    """(topic, file) for each topic that has records; the file as the export refers to it."""
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
    """The records that a topic holds now, without those of open and aborted transactions."""
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
