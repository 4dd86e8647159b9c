"""One record: all of it, a copy of it, and a new one."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.fetcher import ConsumedRecord
from kwire.client.offsets import Isolation, end_offsets, start_offsets
from kwire.client.producer import Producer
from kwire.codecs.errors import ErrorCode
from kwire.console.messages.fetching import fetched

INPUT_FORMS: Final = ("text", "hex", "base64", "null")
"""How a key or value may be typed."""
SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
HEADERS_MAX: Final = 200
NO_TIMESTAMP: Final = -1

RecordHeaders = Sequence[tuple[str, bytes | None]]


class BadInput(ValueError):
    """A field of the form that cannot be used; `name` is the field."""

    def __init__(self, name: str, message: str) -> None:
        """`message` is a sentence for the visitor."""
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class RecordInput:
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = field(default_factory=tuple)
    partition: int | None = None
    """None leaves the choice to the key."""
    timestamp_ms: int | None = None
    """None means the time at which the record is sent."""


@dataclass(frozen=True)
class Neighbours:
    """The record at an offset, and the offsets between which it is."""

    record: ConsumedRecord | None
    """None if no record has the offset."""
    start: int
    end: int
    next_offset: int | None
    """The offset of the first record from the asked one on, if the asked one has none."""


def record_at(cluster: Cluster, topic: str, partition: int, offset: int) -> Neighbours:
    """The record at an offset.

    Offsets without a record are those of markers, of aborted batches and of compacted records.
    """
    place = TopicPartition(topic, partition)
    start = start_offsets(cluster, [place])[place]
    end = end_offsets(cluster, [place])[place]
    if not start <= offset < end:
        return Neighbours(None, start, end, None)
    # One batch is returned at least, however large it is.
    parts = cluster.retrying(
        lambda: list(
            fetched(
                cluster, topic, {partition: offset}, isolation=Isolation.READ_UNCOMMITTED,
                partition_size_bytes_max=1,
            )
        )
    )  # fmt: skip
    records = [record for part in parts for record in part.records]
    found = next((record for record in records if record.offset == offset), None)
    following = next((record.offset for record in records if record.offset > offset), None)
    return Neighbours(found, start, end, following)


def must_have(cluster: Cluster, topic: str, partition: int, offset: int) -> ConsumedRecord:
    """The record at an offset.  Raises BrokerRefused if there is none."""
    record = record_at(cluster, topic, partition, offset).record
    if record is None:
        what = f"record {offset} of {topic}-{partition}"
        raise BrokerRefused(ErrorCode.OFFSET_OUT_OF_RANGE, what)
    return record


def produce(cluster: Cluster, topic: str, new: RecordInput) -> tuple[int, int]:
    """Write a record, and return its partition and offset.

    Raises BrokerRefused if the topic does not exist; it is not created.
    """
    producer = Producer(cluster, create_topics=False)
    delivered = producer.send(
        topic, new.value, new.key, headers=new.headers, partition=new.partition,
        timestamp_ms=new.timestamp_ms,
    )  # fmt: skip
    delivered = delivered or producer.flush()
    return delivered[0].partition.partition, delivered[0].base_offset


def copied(
    cluster: Cluster, topic: str, partition: int, offset: int, to: str, to_partition: int | None
) -> tuple[int, int]:
    """Write a record again: its key, value and headers byte for byte, with the time of now.

    Returns the partition and offset of the copy.
    """
    record = must_have(cluster, topic, partition, offset)
    new = RecordInput(record.key, record.value, record.headers, to_partition)
    return produce(cluster, to, new)


def record_input(form: Mapping[str, str]) -> RecordInput:
    """The record that a form has.  Raises BadInput."""
    return RecordInput(
        data_of(form, "key"),
        data_of(form, "value"),
        headers_of(form.get("headers", "")),
        _number(form, "partition"),
        _number(form, "timestamp"),
    )


def data_of(form: Mapping[str, str], name: str) -> bytes | None:
    """The bytes of a key or value in the form that `NAME_form` says."""
    text, kind = form.get(name, ""), form.get(f"{name}_form", "text")
    if kind == "null":
        return None
    if kind == "text":
        # A browser sends each line end of a text as CR and LF.
        return text.replace("\r\n", "\n").encode("utf-8", "replace")
    try:
        if kind == "hex":
            return bytes.fromhex(re.sub(r"^\s*0x", "", text))
        if kind == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        raise BadInput(name, f"The {name} is not {kind}.") from None
    raise BadInput(name, f"A {name} is typed as {', '.join(INPUT_FORMS)}.")


def headers_of(text: str) -> list[tuple[str, bytes | None]]:
    """The headers of lines like `name: value`; a name alone has the value null."""
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not name.strip():
            raise BadInput("headers", "A header is a line like name: value.")
        data = value.strip().encode("utf-8", "replace") if colon else None
        found.append((name.strip(), data))
    if len(found) > HEADERS_MAX:
        raise BadInput("headers", f"A record of this page has at most {HEADERS_MAX} headers.")
    return found


def _number(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadInput(name, f"The {name} is a whole number, or empty.")
    return int(text)


def checked_partition(cluster: Cluster, topic: str, partition: int) -> None:
    """Raise Misuse if a topic has no such partition."""
    count = len(cluster.topic(topic).partitions)
    if not 0 <= partition < count:
        raise Misuse(f"topic {topic} has no partition {partition}: it has {count}")
