"""`kwire produce`: writes lines to a topic as records."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from kwire.cli.app import connected
from kwire.cli.grammar.bounds import PARTITION
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.schemas.options import FORMATS
from kwire.cli.schemas.produced import SchemaOptions, schema_options, schema_parser
from kwire.cli.text.output import counted, on_terminal, say
from kwire.cli.text.records import BadLine, NewRecord, from_json, text_parser
from kwire.cli.text.suggestions import of_topic
from kwire.cli.values import separator, setting

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.producer import Delivered, Producer

LISTING = Listing(
    30,
    "Write records to a topic.",
    "write each line of files or of standard input as a record",
)

READ_SIZE_BYTES = 64 * 1024
LINE_SIZE_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default of socket.request.max.bytes: no broker accepts a larger record."""
LINGER_S = 0.005
"""When no more input comes within this time, the gathered records are sent.  So each line typed at
a terminal is sent at once, and a file is sent in large batches."""


@click.command("produce")
@click.argument("topic")
@click.argument("files", metavar="[FILE...]", nargs=-1, type=click.Path(True, dir_okay=False))
@click.option(
    "-k", "--key-separator", type=separator, metavar="TEXT",
    help=r"Text between key and value in a line, e.g. ':' or '\t'.",
)  # fmt: skip
@click.option("--key", metavar="TEXT", help="The key of all records.")
@click.option(
    "-H", "--header", "headers", type=setting, metavar="NAME=VALUE", multiple=True,
    help="A header of all records.",
)  # fmt: skip
@click.option("-p", "--partition", type=PARTITION, metavar="N", help="Write to this partition.")
@click.option(
    "-f", "--format", "form", type=click.Choice(["text", "json", *FORMATS]), default="text",
    show_default=True,
    help="Each line is a value (text), a record as `kwire consume -f json` prints it (json), or a"
    " value as JSON that a schema of the registry encodes.",
)  # fmt: skip
@click.option(
    "-z", "--compression", default="none", show_default=True,
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
)  # fmt: skip
@click.option(
    "-a", "--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True,
    help="Who has to store the records: all in-sync replicas, the leader (1), or nobody (0).",
)  # fmt: skip
@click.option(
    "--null", "null_value", metavar="TEXT", help="Write null in place of this value (a tombstone)."
)
@click.option(
    "--keep-partitions", is_flag=True, help="Write each JSON record to the partition it names."
)
@click.option("--no-create", is_flag=True, help="Do not let the broker create the topic.")
@click.option("-v", "--verbose", is_flag=True, help="Print partition and offset of each batch.")
@schema_options
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
    schemas: SchemaOptions,
) -> None:
    """Write the lines of files or of standard input to a topic, one record a line.

    \b
      echo "hello" | kwire produce greetings
      kwire produce orders orders.txt --key-separator : --compression zstd
      kwire consume orders -f json --from-beginning -e | kwire produce copy -f json
      echo '{"key": "k", "value": {"a": 1}}' | kwire produce orders -f json
      echo '{"id": 7}' | kwire produce orders -f avro --schema order.avsc
      kwire produce greetings            (then type; Ctrl-D ends)

    Records with the same key go to the same partition, the one that Kafka's Java producer chooses.

    A line ends with LF or CRLF; neither is part of the record.  An empty line is a record with an
    empty value, as for Kafka's console producer.  With --key-separator or as JSON it is an error.

    A JSON record must have a value: a string is written as it is, an object, list or number as
    JSON, and null as null, which deletes the key in a compacted topic.  It may have key, headers
    ({"name": "value"}), timestamp (ms), and all other fields that `kwire consume -f json` prints.
    Any other field is an error.  The command stops at the first line that is not a record; the
    lines before are written.

    With --format avro, protobuf or json-schema a line is the JSON of a value, as `kwire consume`
    prints it with the same format, and null is a tombstone.  The schema of a file is registered in
    the registry first, with the files that a Protobuf schema imports from its folder.  Without a
    file, it is the latest version of the subject.
    """
    from kwire.client.producer import Producer
    from kwire.codecs.batches import Compression

    schemas.check(form)
    shared_key = None if key is None else os.fsencode(key)  # the bytes of the shell, UTF-8 or not
    if form in FORMATS:
        _check_options(key, key_separator, keep_partitions)
        parse, shared_key = schema_parser(
            cluster, topic, form, schemas, key, key_separator, null_value
        )
    else:
        parse = _parser(form, key_separator, key, null_value, keep_partitions)
    producer = Producer(
        cluster,
        acks=-1 if acks == "all" else int(acks),
        compression=Compression[compression.upper()],
        create_topics=not no_create,
    )
    shared = NewRecord(
        None,
        shared_key,
        [(name, os.fsencode(value)) for name, value in headers],
        partition,
    )
    _produce(cluster, producer, topic, files, parse, shared, _tell if verbose else _say_nothing)


def _produce(
    cluster: Cluster,
    producer: Producer,
    topic: str,
    files: tuple[str, ...],
    parse: Callable[[bytes], NewRecord],
    shared: NewRecord,
    tell: Callable[[list[Delivered]], None],
) -> None:
    """Send all records up to the first bad line.  Prints how many were written."""
    new = _message_if_new(cluster, topic)
    bad: BadLine | None = None
    try:
        try:
            for record in _records(parse, _lines(files, lambda: tell(producer.flush()))):
                tell(_send(producer, topic, record, shared))
        except BadLine as error:
            bad = error
        tell(producer.flush())
    finally:
        if new and producer.records_delivered:
            say(new)
        say(f"{counted(producer.records_delivered, 'record')} written to {topic}")
    if bad is not None:
        say(f"kwire: {bad}")
        raise SystemExit(EXIT_FAILURE) from bad


def _parser(
    form: str,
    key_separator: str | None,
    key: str | None,
    null_value: str | None,
    keep_partitions: bool,
) -> Callable[[bytes], NewRecord]:
    """The function that parses a line.  Raises UsageError for options that would have no effect."""
    _check_options(key, key_separator, keep_partitions and form != "json")
    if form == "json":
        if key_separator is not None or null_value is not None:
            raise click.UsageError("--key-separator and --null are for --format text")
        return lambda line: from_json(line, keep_partitions)
    return text_parser(key_separator, null_value)


def _check_options(key: str | None, key_separator: str | None, keeps_in_vain: bool) -> None:
    """Raise UsageError for options that would have no effect."""
    if key is not None and key_separator is not None:
        raise click.UsageError("give one of --key and --key-separator")
    if keeps_in_vain:
        raise click.UsageError("--keep-partitions is for --format json")


def _message_if_new(cluster: Cluster, topic: str) -> str | None:
    """A message for a topic that the broker will create, since its name may be misspelt."""
    from kwire.codecs.errors import ErrorCode

    (metadata,) = cluster.retrying(lambda: cluster.refresh([topic])).topics
    if metadata.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    return f"topic {topic} is new{of_topic(cluster, topic)}"


def _send(producer: Producer, topic: str, record: NewRecord, shared: NewRecord) -> list[Delivered]:
    """Send a record.  Its own key and partition win over those that options give all records."""
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
    """Print nothing, without --verbose."""


def _records(
    parse: Callable[[bytes], NewRecord], lines: Iterable[tuple[str, int, bytes]]
) -> Iterator[NewRecord]:
    """The record of each line.  Raises BadLine with the number of the first bad line."""
    for path, number, line in lines:
        try:
            yield parse(line)
        except BadLine as error:
            place = f"line {number} of {path}" if path else f"line {number}"
            raise BadLine(f"{place} is not a record: {error}") from error


def _lines(
    files: tuple[str, ...], on_pause: Callable[[], None]
) -> Iterator[tuple[str, int, bytes]]:
    """(file, number, line) of each line of the files, or of standard input.

    `on_pause` is called when no more standard input is available at the moment.
    """
    for path in files:
        with open(path, "rb") as file:
            for number, line in enumerate(_whole_lines(file), 1):
                yield path, number, _without_end(line)
    if not files:
        if sys.stdin.isatty() and on_terminal():
            say("type one record a line; Ctrl-D ends")
        for number, line in enumerate(_lines_of_input(sys.stdin.fileno(), on_pause), 1):
            yield "", number, _without_end(line)


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file.  Raises BadLine for a line that is too long; it is not read to
    its end."""
    while line := file.readline(LINE_SIZE_BYTES_MAX + 1):
        if len(line) > LINE_SIZE_BYTES_MAX:
            raise BadLine(f"a line of {file.name} is longer than {LINE_SIZE_BYTES_MAX:,} bytes")
        yield line


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _lines_of_input(descriptor: int, on_pause: Callable[[], None]) -> Iterator[bytes]:
    """Yield the lines of the input without their ends.  Calls `on_pause` if no more input
    comes within LINGER_S seconds, so that records are sent.  Raises BadLine for a line that is
    too long."""
    begun: list[bytes] = []
    size_bytes = 0
    while chunk := _read(descriptor):
        first, *more = chunk.split(b"\n")
        begun.append(first)
        size_bytes += len(first)
        if size_bytes > LINE_SIZE_BYTES_MAX:
            raise BadLine(f"a line is longer than {LINE_SIZE_BYTES_MAX:,} bytes")
        if more:
            yield b"".join(begun)
            *whole, rest = more
            yield from whole
            begun, size_bytes = [rest], len(rest)
        if not select.select([descriptor], [], [], LINGER_S)[0]:
            on_pause()
    if size_bytes:
        yield b"".join(begun)


def _read(descriptor: int) -> bytes:
    """Reads from standard input.  An OSError gets its name, so that the message can say what
    failed."""
    try:
        return os.read(descriptor, READ_SIZE_BYTES)
    except OSError as error:
        error.filename = "standard input"
        raise
