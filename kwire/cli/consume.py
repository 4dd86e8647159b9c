"""`kwire consume`: records become lines."""

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
    ranges,
    separator,
)

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster, TopicPartition
    from kwire.client.consumer import Consumer
    from kwire.client.fetcher import ConsumedRecord
    from kwire.client.membership.share_consumer import ShareConsumer

POLL_S = 0.5
SHARE_SETTINGS = (
    "where a share group begins, and what it sees, its settings say: kwire configs "
    "alter group {} --set share.auto.offset.reset=earliest"
)
AUTO_COMMIT_INTERVAL_S = 5.0
"""Kafka's default of auto.commit.interval.ms."""


@click.command("consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--from-beginning", is_flag=True, help="From the first record that is there: -o earliest."
)
@click.option(
    "-o", "--offset", type=position, metavar="N",
    help="From this offset on; below zero: so many before the end of each partition; earliest,"
    " or latest: only what comes from now on. [default: latest]",
)  # fmt: skip
@click.option(
    "-t", "--since", type=instant, metavar="TIME",
    help="From the first record at or after a time: 2026-03-01T12:00 (UTC), milliseconds, -2h.",
)  # fmt: skip
@click.option("-p", "--partitions", "wanted", type=partitions, metavar="LIST", help="E.g. 0,4-7.")
@click.option(
    "-g", "--group", metavar="GROUP", help="As a member of this group, committing offsets."
)
@click.option(
    "--group-protocol", default="classic", show_default=True,
    type=click.Choice(["classic", "consumer"]),
    help="classic: members share partitions out among themselves; consumer (KIP-848): the broker"
    " does, and only who gives one up or gets one stops for it.",
)  # fmt: skip
@click.option(
    "--share", "share_group", metavar="GROUP",
    help="As a member of this share group: each record goes to one member, and is done with once"
    " it is printed.",
)  # fmt: skip
@click.option(
    "--reject", "said", flag_value="REJECT", help="With --share: nobody is to have them again."
)
@click.option(
    "--release", "said", flag_value="RELEASE",
    help="With --share: give them back at the end, which counts as a delivery.",
)  # fmt: skip
@click.option("-n", "--max-messages", type=POSITIVE_COUNT, metavar="N", help="Then exit.")
@click.option(
    "-e", "--exit", "exit_at_end", is_flag=True,
    help="Exit at the end of the partitions, instead of waiting for more.",
)  # fmt: skip
@click.option(
    "-f", "--format", "form", default="text", show_default=True,
    type=click.Choice(["text", "full", "json"]),
    help="text: values as they are, on a terminal without control characters; full: time,"
    " partition, offset, key and value; json: all, a line each.",
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
    key_separator: str | None,
    read_committed: bool,
) -> None:
    """Print the records of topics as they come, one a line, until Ctrl-C.

    \b
      kwire consume orders                          what comes from now on
      kwire consume orders -o earliest -e           all there is, then exit
      kwire consume orders -o -10 -e                the last 10 of each partition
      kwire consume orders --since -1h -e -f full   the last hour, with time, offset and key
      kwire consume orders -g audit -o earliest     where the group left off; else the beginning
      kwire consume orders --share pickers -n 10    ten records that no other member gets

    Without --exit it goes on with what comes. As JSON each record has topic, partition, offset,
    timestamp (ms), key, key_encoding, value, value_encoding and headers; an encoding is utf-8, or
    base64 where the bytes are no UTF-8.
    """
    if sum([from_beginning, offset is not None, since is not None]) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --since")
    if group is not None and (isinstance(offset, int) or since is not None or wanted is not None):
        raise click.UsageError("a group has its own offsets and partitions: see kwire groups reset")
    if group is None and group_protocol != "classic":
        raise click.UsageError("--group-protocol is for members of a --group")
    if key_separator is not None and form != "text":
        raise click.UsageError("--key-separator is for --format text: the others have the keys")
    if said is not None and share_group is None:
        raise click.UsageError("--release and --reject are for members of a --share group")
    if share_group is not None:
        begins = from_beginning or offset is not None or since is not None
        if begins or read_committed or wanted is not None or group is not None:
            raise click.UsageError(SHARE_SETTINGS.format(share_group))
        member = _share_member(cluster, share_group, topics, said)
        _read_shared(member, _printer(form, key_separator), max_messages, exit_at_end=exit_at_end)
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
    # `timeout` and service managers send SIGTERM: a member then leaves its group, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    only_new = start == LATEST and since is None and group is None
    hint = "; -o earliest shows what is there" if only_new else ""
    printer = _printer(form, key_separator)
    reading = Reading(consumer, printer, max_messages, exit_at_end, group is not None, hint)
    try:
        reading.run()
    finally:
        consumer.close()
    say(counted(reading.count, "record"))


def _share_member(
    cluster: Cluster, group: str, topics: tuple[str, ...], said: str | None
) -> ShareConsumer:
    from kwire.client.membership.share_consumer import Said, ShareConsumer

    _partitions(cluster, topics, None)  # they are there
    if on_terminal():
        say(f"joining share group {group} ...")
    return ShareConsumer(cluster, group, topics, Said[said or "ACCEPT"])


def _read_shared(
    member: ShareConsumer,
    printer: Callable[[ConsumedRecord], None],
    max_messages: int | None,
    *,
    exit_at_end: bool,
) -> None:
    """Print what a share group gives its member; what is said of it is said once it is printed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    commits = not member.gives_back
    reading = Reading(member, printer, max_messages, exit_at_end, commits, "", joins=True)
    try:
        reading.run()
    finally:
        member.close()
    say(counted(reading.count, "record"))


def _consumer(cluster: Cluster, start: int | str, read_committed: bool) -> Consumer:
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
    cluster: Cluster, chosen: list[TopicPartition], start: int | str, since: int | None
) -> dict[TopicPartition, int]:
    """Where to begin in each partition."""
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
    by_topic: dict[str, list[int]] = {}
    for topic, partition in assigned:
        by_topic.setdefault(topic, []).append(partition)
    names = [f"{topic}:{ranges(indexes)}" for topic, indexes in sorted(by_topic.items())]
    say(f"the group gives this member {', '.join(names) or 'no partition'}")


def _printer(form: str, key_separator: str | None) -> Callable[[ConsumedRecord], None]:
    """Writes one record in the form asked for."""
    out = sys.stdout.buffer
    between = None if key_separator is None else os.fsencode(key_separator)
    shown = _safe_on_terminal if sys.stdout.isatty() else _as_it_is

    def text(record: ConsumedRecord) -> None:
        if between is not None:
            out.write(shown(record.key))
            out.write(between)
        out.write(shown(record.value))
        out.write(b"\n")

    def full(record: ConsumedRecord) -> None:
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
    """Lines and tabs may do as they do; nothing else of a record tells a terminal what to do."""
    return UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in "\n\t" else printable(found[0]), text_of(data)
    ).encode()


class Source(Protocol):
    """Where records come from, as part of a group or not."""

    @property
    def has_joined(self) -> bool: ...
    @property
    def is_at_end(self) -> bool: ...
    def poll(self, timeout_s: float, at_most: int | None = None, /) -> list[ConsumedRecord]: ...
    def commit(self) -> object: ...


@dataclass
class Reading:
    """Prints until there is enough, the end is reached, Ctrl-C, or nobody reads it any more.

    `commits` says that the offsets of a group are committed, from time to time and at the end, for
    what was printed.  `hint` goes with what is said when it waits for the first record.
    """

    consumer: Source
    printer: Callable[[ConsumedRecord], None]
    max_messages: int | None
    exit_at_end: bool
    commits: bool
    hint: str
    joins: bool = False
    """Whether it is a member of a group, whatever it commits."""
    count: int = 0
    _told: bool = False
    _commit_due: float = 0.0

    def run(self) -> None:
        """Raises ReaderGone and OutputFailed; what nobody may have read is not committed then."""
        self._commit_due = time.monotonic() + AUTO_COMMIT_INTERVAL_S
        try:
            while not (self.exit_at_end and self._is_at_end) and self.count != self.max_messages:
                self._step()
        except KeyboardInterrupt:
            pass  # how a person ends it: what was printed still counts
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
        """Nothing came: see whether anybody still waits for it, and tell who does that it waits."""
        if reader_is_gone():
            raise ReaderGone
        if not self._told and not self.exit_at_end and on_terminal() and self._is_at_end:
            self._told = True
            if self.count:
                say(f"{counted(self.count, 'record')} so far; waiting for more: Ctrl-C ends")
            else:
                say(f"waiting for records: Ctrl-C ends{self.hint}")
