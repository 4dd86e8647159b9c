"""`kwire produce`: lines become records."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from kwire.cli.app import EXIT_FAILURE, connected
from kwire.cli.output import counted, say
from kwire.cli.records import BadLine, NewRecord, from_json, from_text
from kwire.cli.values import separator, setting

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.producer import Delivered, Producer

READ_SIZE_BYTES = 64 * 1024
LINGER_S = 0.005
"""When no more input comes within this time, what was gathered is sent: whoever types at a
terminal sees each line go, and a file goes in large batches."""


@click.command("produce")
@click.argument("topic")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path(True, dir_okay=False))
@click.option(
    "-k", "--key-separator", type=separator, metavar="TEXT",
    help=r"What divides key and value in a line, e.g. ':' or '\t'.",
)  # fmt: skip
@click.option("--key", metavar="TEXT", help="The key of all records.")
@click.option(
    "-H", "--header", "headers", type=setting, metavar="NAME=VALUE", multiple=True,
    help="A header of all records.",
)  # fmt: skip
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), metavar="N", help="Write to this one."
)
@click.option(
    "-f", "--format", "form", type=click.Choice(["text", "json"]), default="text",
    show_default=True, help="A line is a value, or a record as `kwire consume -f json` has it.",
)  # fmt: skip
@click.option(
    "-z", "--compression", default="none", show_default=True,
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
)  # fmt: skip
@click.option(
    "-a", "--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True,
    help="Whose word counts: all in-sync replicas', the leader's, nobody's.",
)  # fmt: skip
@click.option("--null", "null_value", metavar="TEXT", help="A value that stands for null (delete).")
@click.option("--keep-partitions", is_flag=True, help="Write where JSON records say they were.")
@click.option("--no-create", is_flag=True, help="Do not let the broker create the topic.")
@click.option("-v", "--verbose", is_flag=True, help="Tell where each batch went.")
@connected
def command(
    cluster: Cluster,
    topic: str,
    files: tuple[str, ...],
    key_separator: str | None,
    key: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    form: str,
    compression: str,
    acks: str,
    null_value: str | None,
    keep_partitions: bool,
    no_create: bool,
    verbose: bool,
) -> None:
    """Write the lines of files, or of standard input, to a topic: a record a line.

    \b
      echo "hello" | kwire produce greetings
      kwire produce orders orders.txt --key-separator : --compression zstd
      kwire consume orders -f json --from-beginning -e | kwire produce copy -f json
      kwire produce greetings            (then type; Ctrl-D ends)

    Records with the same key go to the same partition, the one that Java's producer takes.
    """
    from kwire.client.producer import Producer
    from kwire.codecs.batches import Compression

    parse = _parser(form, key_separator, null_value, keep_partitions)
    producer = Producer(
        cluster,
        acks=-1 if acks == "all" else int(acks),
        compression=Compression[compression.upper()],
        create_topics=not no_create,
    )
    shared = NewRecord(
        None,
        None if key is None else key.encode(),
        [(name, value.encode()) for name, value in headers],
        partition,
    )
    tell = _tell if verbose else _say_nothing
    try:
        for number, line in enumerate(_lines(files, lambda: tell(producer.flush())), 1):
            tell(_send(producer, topic, _parsed(parse, line, number), shared))
        tell(producer.flush())
    finally:
        say(f"{counted(producer.records_delivered, 'record')} written to {topic}")


def _parser(
    form: str, key_separator: str | None, null_value: str | None, keep_partitions: bool
) -> Callable[[bytes], NewRecord]:
    if form == "json":
        return lambda line: from_json(line, keep_partitions)
    divider = None if key_separator is None else key_separator.encode()
    null = None if null_value is None else null_value.encode()

    def parse(line: bytes) -> NewRecord:
        record = from_text(line, divider)
        if null is not None and record.value == null:
            record.value = None
        return record

    return parse


def _parsed(parse: Callable[[bytes], NewRecord], line: bytes, number: int) -> NewRecord:
    try:
        return parse(line)
    except BadLine as error:
        say(f"kwire: line {number} is no record: {error}")
        raise SystemExit(EXIT_FAILURE) from error


def _send(producer: Producer, topic: str, record: NewRecord, shared: NewRecord) -> list[Delivered]:
    """Send a record; what it says itself goes before what the options say of all."""
    return producer.send(
        topic,
        record.value,
        record.key if record.key is not None else shared.key,
        headers=[*record.headers, *shared.headers],
        partition=record.partition if record.partition is not None else shared.partition,
        timestamp_ms=record.timestamp_ms,
    )


def _tell(delivered: list[Delivered]) -> None:
    for batch in delivered:
        say(f"{batch.partition} @ {batch.base_offset}: {counted(batch.records, 'record')}")


def _say_nothing(_: list[Delivered]) -> None:
    """Not verbose."""


def _lines(files: tuple[str, ...], on_pause: Callable[[], None]) -> Iterator[bytes]:
    """The lines of the files one after the other, or of standard input, which may pause."""
    for path in files:
        with open(path, "rb") as file:
            for line in file:
                yield line.removesuffix(b"\n").removesuffix(b"\r")
    if not files:
        yield from _lines_of_input(sys.stdin.fileno(), on_pause)


def _lines_of_input(descriptor: int, on_pause: Callable[[], None]) -> Iterator[bytes]:
    rest = b""
    while chunk := os.read(descriptor, READ_SIZE_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
        if not select.select([descriptor], [], [], LINGER_S)[0]:
            on_pause()
    if rest:
        yield rest
