"""`kwire consume`: prints the records of topics as lines."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from kwire.cli.app import connected
from kwire.cli.grammar.bounds import POSITIVE_COUNT
from kwire.cli.grammar.listing import Listing
from kwire.cli.schemas.consumed import schema_printer
from kwire.cli.schemas.options import FORMATS, registry_option
from kwire.cli.streams import OutputFailed, ReaderGone, reader_is_gone
from kwire.cli.text.output import UNPRINTABLE, counted, on_terminal, printable, say
from kwire.cli.text.records import text_of, to_json
from kwire.cli.values import (
    EARLIEST,
    LATEST,
    instant,
    iso_time,
    partitions,
    position,
    separator,
)
from kwire.client.ranges import ranges

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.consumer import Consumer
    from kwire.client.fetcher import ConsumedRecord
    from kwire.client.membership.share_consumer import ShareConsumer

LISTING = Listing(
    40,
    "Read records of topics.",
    "print records from the beginning, an offset or a time, as a group member, or of a share "
    "group (`--share`)",
)

POLL_S = 0.5
SHARE_SETTINGS = (
    "the configs of a share group decide where it starts and which records it reads: kwire configs "
    "alter group {} --set share.auto.offset.reset=earliest"
)
AUTO_COMMIT_INTERVAL_S = 5.0
"""Kafka's default of auto.commit.interval.ms."""


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--from-beginning", is_flag=True, help="Start at the first record: same as -o earliest."
)
@click.option(
    "-o", "--offset", type=position, metavar="N",
    help="Start at this offset, at -N for N records before the end of each partition, at earliest,"
    " or at latest: only new records. [default: latest]",
)  # fmt: skip
@click.option(
    "-t", "--since", type=instant, metavar="TIME",
    help="Start at the first record at or after a time: 2026-03-01T12:00 (UTC), milliseconds, -2h.",
)  # fmt: skip
@click.option(
    "-p", "--partitions", "wanted", type=partitions, metavar="LIST",
    help="Read only these partitions, as in 0,4-7.",
)  # fmt: skip
@click.option(
    "-g", "--group", metavar="GROUP", help="Read as a member of this group, and commit offsets."
)
@click.option(
    "--group-protocol", default="classic", show_default=True,
    type=click.Choice(["classic", "consumer"]),
    help="Who assigns the partitions. classic: a member of the group; consumer (KIP-848): the"
    " broker, and members keep reading while others change.",
)  # fmt: skip
@click.option(
    "--share", "share_group", metavar="GROUP",
    help="Read as a member of this share group: each record goes to one member, and is"
    " acknowledged once it is printed.",
)  # fmt: skip
@click.option(
    "--reject", "said", flag_value="REJECT",
    help="With --share: reject the records, so that they are not delivered again.",
)  # fmt: skip
@click.option(
    "--release", "said", flag_value="RELEASE",
    help="With --share: release the records at the end. This counts as a delivery.",
)  # fmt: skip
@click.option(
    "-n", "--max-messages", type=POSITIVE_COUNT, metavar="N", help="Exit after N records."
)
@click.option(
    "-e", "--exit", "exit_at_end", is_flag=True,
    help="Exit at the end of the partitions instead of waiting for new records.",
)  # fmt: skip
@click.option(
    "-f", "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "full", "json", *FORMATS]),
    help="text: values (on a terminal without control characters); full: time, partition, offset,"
    " key and value; json: all fields, one JSON object a line; avro, protobuf, json-schema: values"
    " as JSON, decoded by the schemas of the registry.",
)  # fmt: skip
@registry_option
@click.option(
    "--skip-bad", is_flag=True, help="Skip records that cannot be decoded; report each of them."
)
@click.option(
    "-k", "--key-separator", type=separator, metavar="TEXT", help="Print keys before the values."
)
@click.option(
    "--read-committed", is_flag=True, help="Skip records of open and aborted transactions."
)
@connected
def command(
    cluster: Cluster,
    topics: tuple[str, ...],
    from_beginning: bool,
    offset: int | str | None,
    since: int | None,
    wanted: list[int] | None,
    group: str | None,
    group_protocol: str,
    share_group: str | None,
    said: str | None,
    max_messages: int | None,
    exit_at_end: bool,
    form: str,
    registry: str | None,
    skip_bad: bool,
    key_separator: str | None,
    read_committed: bool,
) -> None:
    """Print the records of topics as they arrive, one a line, until Ctrl-C.

    \b
      kwire consume orders                          only new records
      kwire consume orders -o earliest -e           all records, then exit
      kwire consume orders -o -10 -e                the last 10 of each partition
      kwire consume orders --since -1h -e -f full   the last hour, with time, offset and key
      kwire consume orders -g audit -o earliest     from the committed offsets, or the beginning
      kwire consume orders --share pickers -n 10    ten records that no other member gets
      kwire consume orders -f avro -o earliest      decoded by the schemas of the registry

    Without --exit the command waits for new records. As JSON each record has topic, partition,
    offset, timestamp (ms), key, key_encoding, value, value_encoding and headers. An encoding is
    utf-8, or base64 if the bytes are not valid UTF-8.
    """
    if sum([from_beginning, offset is not None, since is not None]) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --since")
    if group is not None and (isinstance(offset, int) or since is not None or wanted is not None):
        raise click.UsageError("a group has its own offsets and partitions: see kwire groups reset")
    if group is None and group_protocol != "classic":
        raise click.UsageError("--group-protocol needs --group")
    if said is not None and share_group is None:
        raise click.UsageError("--release and --reject need --share")
    printer = _chosen_printer(cluster, form, registry, key_separator, skip_bad=skip_bad)
    if share_group is not None:
        begins = from_beginning or offset is not None or since is not None
        if begins or read_committed or wanted is not None or group is not None:
            raise click.UsageError(SHARE_SETTINGS.format(share_group))
        member = _share_member(cluster, share_group, topics, said)
        _read_shared(member, printer, max_messages, exit_at_end=exit_at_end)
        return
    start = EARLIEST if from_beginning else LATEST if offset is None else offset
    consumer = _consumer(cluster, start, read_committed)
    chosen = _partitions(cluster, topics, wanted)
    if group is not None:
        by_broker = group_protocol == "consumer"
        consumer.subscribe(group, topics, consumer_protocol=by_broker, on_assigned=_tell_assigned)
        if on_terminal():
            say(f"joining group {group} ...")
    else:
        consumer.assign(_positions(cluster, chosen, start, since))
    # `timeout` and service managers send SIGTERM.  A member then leaves its group, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    only_new = start == LATEST and since is None and group is None
    hint = "; -o earliest prints the existing ones" if only_new else ""
    printing = RecordPrinting(consumer, printer, max_messages, exit_at_end, group is not None, hint)
    try:
        printing.run()
    finally:
        consumer.close()
    say(counted(printing.count, "record"))


def _chosen_printer(
    cluster: Cluster, form: str, registry: str | None, key_separator: str | None, *, skip_bad: bool
) -> Callable[[ConsumedRecord], None]:
    """The function that prints a record.  Raises UsageError for options without effect, and Misuse
    for a registry that is none."""
    if key_separator is not None and form in ("full", "json"):
        raise click.UsageError(
            "--key-separator is for --format text and those of schemas: the others print the key"
        )
    if form in FORMATS:
        return schema_printer(cluster, form, registry, key_separator, skip_bad=skip_bad)
    if skip_bad:
        raise click.UsageError("--skip-bad is for --format avro, protobuf and json-schema")
    return _printer(form, key_separator)


def _share_member(
    cluster: Cluster, group: str, topics: tuple[str, ...], said: str | None
) -> ShareConsumer:
    """Return a consumer of the share group.  `said` is the acknowledgement that --acknowledge
    chose; without it, records are accepted."""
    from kwire.client.membership.share_consumer import Acknowledgement, ShareConsumer

    _partitions(cluster, topics, None)  # Raises if a topic does not exist.
    if on_terminal():
        say(f"joining share group {group} ...")
    return ShareConsumer(cluster, group, topics, Acknowledgement[said or "ACCEPT"])


def _read_shared(
    member: ShareConsumer,
    printer: Callable[[ConsumedRecord], None],
    max_messages: int | None,
    *,
    exit_at_end: bool,
) -> None:
    """Print the records that the member of a share group gets, and acknowledge those printed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    commits = not member.gives_back
    printing = RecordPrinting(member, printer, max_messages, exit_at_end, commits, "", joins=True)
    try:
        printing.run()
    finally:
        member.close()
    say(counted(printing.count, "record"))


def _consumer(cluster: Cluster, start: int | str, read_committed: bool) -> Consumer:
    """Return a consumer that begins at `start` where no offset is given."""
    from kwire.client.consumer import Consumer, Reset
    from kwire.client.offsets import Isolation

    return Consumer(
        cluster,
        isolation=Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED,
        reset=Reset.EARLIEST if start == EARLIEST else Reset.LATEST,
    )


def _partitions(
    cluster: Cluster, topics: tuple[str, ...], wanted: list[int] | None
) -> list[TopicPartition]:
    """Return the `wanted` partitions of each topic, or all if None.  Raises Misuse if a topic does
    not have a wanted partition."""
    from kwire.client.cluster import TopicPartition
    from kwire.client.errors import Misuse

    chosen = []
    for name in topics:
        existing = sorted(p.partition_index for p in cluster.topic(name).partitions)
        missing = sorted(set(wanted or ()) - set(existing))
        if missing:
            raise Misuse(f"topic {name} has partitions {ranges(existing)}, not {ranges(missing)}")
        chosen += [
            TopicPartition(name, index) for index in existing if not wanted or index in wanted
        ]
    return chosen


def _positions(
    cluster: Cluster, chosen: list[TopicPartition], start: int | str, since: int | None
) -> dict[TopicPartition, int]:
    """The offset at which to start in each partition."""
    from kwire.client.offsets import end_offsets, offsets_at, start_offsets

    if since is not None:
        return offsets_at(cluster, chosen, since)
    if start == EARLIEST:
        return start_offsets(cluster, chosen)
    ends = end_offsets(cluster, chosen)
    if isinstance(start, str):
        return ends
    starts = start_offsets(cluster, chosen)
    return {
        partition: min(max(starts[partition], end + start if start < 0 else start), end)
        for partition, end in ends.items()
    }


def _tell_assigned(assigned: list[TopicPartition]) -> None:
    """Says which partitions the group assigns to this consumer."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in assigned:
        by_topic.setdefault(topic, []).append(partition)
    names = [f"{topic}:{ranges(indexes)}" for topic, indexes in sorted(by_topic.items())]
    say(f"the group assigns {', '.join(names) or 'no partition'} to this member")


def _printer(form: str, key_separator: str | None) -> Callable[[ConsumedRecord], None]:
    """A function that prints one record in a format."""
    out = sys.stdout.buffer
    between = None if key_separator is None else os.fsencode(key_separator)
    shown = _safe_on_terminal if sys.stdout.isatty() else _as_it_is

    def text(record: ConsumedRecord) -> None:
        """Prints the value of a record, after its key and the separator if that is set."""
        if between is not None:
            out.write(shown(record.key))
            out.write(between)
        out.write(shown(record.value))
        out.write(b"\n")

    def full(record: ConsumedRecord) -> None:
        """Prints the time, position, key, value and headers of a record as one line."""
        headers = "".join(f"  {name}={text_of(value)}" for name, value in record.headers)
        line = (
            f"{iso_time(record.timestamp_ms)}  {record.topic}-{record.partition} @ {record.offset}"
            f"  {text_of(record.key)}  {text_of(record.value)}{headers}"
        )
        out.write(f"{printable(line)}\n".encode())

    def json(record: ConsumedRecord) -> None:
        out.write(f"{to_json(record)}\n".encode())

    return {"text": text, "full": full, "json": json}[form]


def _as_it_is(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _safe_on_terminal(data: bytes | None) -> bytes:
    """The data, with all control characters but newlines and tabs escaped."""
    return UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in "\n\t" else printable(found[0]), text_of(data)
    ).encode()


class RecordSource(Protocol):
    """What Consumer and ShareConsumer have in common."""

    @property
    def has_joined(self) -> bool: ...
    @property
    def is_at_end(self) -> bool: ...
    def poll(self, timeout_s: float, at_most: int | None = None, /) -> list[ConsumedRecord]: ...
    def commit(self) -> object: ...


@dataclass
class RecordPrinting:
    """Prints records until max_messages, the end, Ctrl-C, or until the output has no reader.

    With `commits`, offsets or acknowledgements of printed records are committed from time to time
    and at the end.  `hint` is added to the message that it waits for the first record.
    """

    consumer: RecordSource
    printer: Callable[[ConsumedRecord], None]
    max_messages: int | None
    exit_at_end: bool
    commits: bool
    hint: str
    joins: bool = False
    """Whether the consumer is a member of a group, also if it commits nothing."""
    count: int = 0
    _told: bool = False
    _commit_due: float = 0.0

    def run(self) -> None:
        """Prints records until Ctrl-C, `max_messages`, or the end of the partitions; then commits.

        Raises ReaderGone or OutputFailed.  Then nothing is committed, since the last records may
        not have been printed.
        """
        self._commit_due = time.monotonic() + AUTO_COMMIT_INTERVAL_S
        try:
            while not (self.exit_at_end and self._is_at_end) and self.count != self.max_messages:
                self._step()
        except KeyboardInterrupt:
            pass  # Ctrl-C is the normal end.  The printed records are committed.
        except (ReaderGone, OutputFailed):
            self.commits = False
            raise
        finally:
            if self.commits and self.consumer.has_joined:
                sys.stdout.buffer.flush()
                self.consumer.commit()
        sys.stdout.buffer.flush()

    @property
    def _is_at_end(self) -> bool:
        joins = self.joins or self.commits
        return self.consumer.has_joined == joins and self.consumer.is_at_end

    def _step(self) -> None:
        """Polls once and prints the records.  For a group, commits the positions at intervals."""
        left = None if self.max_messages is None else self.max_messages - self.count
        records = self.consumer.poll(POLL_S, left)
        for record in records:
            self.printer(record)
            self.count += 1
        sys.stdout.buffer.flush()
        if not records:
            self._idle()
        if self.commits and time.monotonic() > self._commit_due:
            self.consumer.commit()
            self._commit_due = time.monotonic() + AUTO_COMMIT_INTERVAL_S

    def _idle(self) -> None:
        """No record arrived: raise ReaderGone if the output has no reader, or say that it waits."""
        if reader_is_gone():
            raise ReaderGone
        if not self._told and not self.exit_at_end and on_terminal() and self._is_at_end:
            self._told = True
            if self.count:
                say(f"{counted(self.count, 'record')} so far; waiting for more (Ctrl-C ends)")
            else:
                say(f"waiting for new records (Ctrl-C ends){self.hint}")
