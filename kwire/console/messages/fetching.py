"""Batches of records from the leaders of a topic's partitions, as few of them decoded as possible.

`kwire.client.fetcher` decodes each record.  A search through millions of records would take
minutes so; here, a batch that lacks a text that each wanted record has is skipped as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import check
from kwire.client.fetcher import (
    Aborted,
    ConsumedRecord,
    OffsetOutOfRange,
    fetch_request,
    received,
    records_of,
)
from kwire.client.offsets import Isolation
from kwire.codecs.batches import CorruptBatch, inner_bytes, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchResponse, PartitionData
from kwire.console.filtering.parsing import Needle
from kwire.console.messages.query import Positions

FETCH_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
PARTITION_SIZE_BYTES_MAX: Final = 1024 * 1024
ROLE: Final = "console"


class RawNeedle(NamedTuple):
    """A needle of a filter expression, as bytes."""

    data: bytes
    may_be: tuple[re.Pattern[bytes], ...]


class FetchedPart(NamedTuple):
    """What a leader returned of one partition."""

    partition: int
    records: list[ConsumedRecord]
    """Those from the requested offset on, but for skipped batches."""
    next_offset: int
    """Where the next fetch begins; the requested offset if nothing was returned."""
    scanned: int
    """The records that were looked at, those of skipped batches among them."""
    is_at_end: bool = False
    """Whether the leader has nothing from the requested offset on, in any of its partitions.

    A response is limited in size, so a partition may be empty because another one filled it."""


def fetched(
    cluster: Cluster,
    topic: str,
    positions: Positions,
    *,
    isolation: Isolation,
    needles: Sequence[RawNeedle] = (),
    partition_size_bytes_max: int = PARTITION_SIZE_BYTES_MAX,
) -> Iterator[FetchedPart]:
    """The records from these positions on: one request to each leader, without waiting for new
    records.

    Batches without one of the `needles` are skipped.  Raises OffsetOutOfRange.
    """
    places = {TopicPartition(topic, index): offset for index, offset in positions.items()}
    for leader, topics in cluster.by_leader(places).items():
        own = {place: places[place] for of_topic in topics.values() for place in of_topic}
        request = fetch_request(
            cluster,
            own,
            isolation,
            max_wait_ms=0,
            size_bytes_max=FETCH_SIZE_BYTES_MAX,
            partition_size_bytes_max=partition_size_bytes_max,
        )
        reply: FetchResponse = cluster.node(leader, ROLE).call(request)
        check(reply.error_code, f"fetch of {topic}")
        answers = [data for response in reply.responses for data in response.partitions]
        is_at_end = not any(data.records for data in answers)
        for data in answers:
            place = TopicPartition(topic, data.partition_index)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise OffsetOutOfRange(place, own[place])
            if data.error_code:
                cluster.forget_leader(topic)
            check(data.error_code, f"fetch of {place}", topic=topic)
            part = _read(place, own[place], data, isolation, needles)
            yield part._replace(is_at_end=is_at_end)


def _read(
    place: TopicPartition,
    offset: int,
    data: PartitionData,
    isolation: Isolation,
    needles: Sequence[RawNeedle],
) -> FetchedPart:
    """The records of one partition in a response."""
    view = received(data)
    aborted = Aborted(data) if isolation == Isolation.READ_COMMITTED else None
    found: list[ConsumedRecord] = []
    next_offset, scanned = offset, 0
    for position, header in iter_batches(view):
        next_offset = max(next_offset, header.last_offset + 1)
        if header.is_control:
            if aborted is not None:
                aborted.see_marker(header, view[position:])
            continue
        if aborted is not None and aborted.hides(header):
            continue
        scanned += max(0, header.last_offset + 1 - max(offset, header.base_offset))
        if (
            needles
            and header.magic >= 2
            and _lacks_one(inner_bytes(view, position, header), needles)
        ):
            continue
        try:
            found += records_of(place, offset, view, position, header)
        except CorruptBatch as problem:
            found.append(unreadable(place, max(offset, header.base_offset), problem))
    return FetchedPart(place.partition, found, next_offset, scanned)


def _lacks_one(inner: bytes | bytearray | memoryview, needles: Sequence[RawNeedle]) -> bool:
    """Whether the bytes of a batch lack one of the needles."""
    content = bytes(inner) if isinstance(inner, memoryview) else inner
    return any(
        needle.data not in content
        and not any(expression.search(content) for expression in needle.may_be)
        for needle in needles
    )


def unreadable(place: TopicPartition, offset: int, problem: Exception) -> ConsumedRecord:
    """A record in place of a batch that cannot be read, so that the page says so."""
    text = f"the batch from offset {offset} on cannot be read: {problem}".encode()
    return ConsumedRecord(place.topic, place.partition, offset, -1, "CreateTime", None, text, [])


def raw_needles(needles: Sequence[Needle]) -> list[RawNeedle]:
    """The needles as bytes."""
    return [
        RawNeedle(
            each.text.encode("utf-8", "replace"),
            tuple(re.compile(expression.encode()) for expression in each.may_be),
        )
        for each in needles
    ]
