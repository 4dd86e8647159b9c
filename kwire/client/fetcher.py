"""Fetches records from the leaders of partitions, one request on its way to each."""

from __future__ import annotations

import selectors
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.connection import Connection
from kwire.client.errors import BrokerRefused, BrokerUnreachable, RequestTimedOut, check
from kwire.client.offsets import Isolation
from kwire.codecs.batches import (
    BatchHeader,
    ControlType,
    check_crc,
    iter_batches,
    read_marker,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

FETCH_SIZE_BYTES_MAX: Final = 50 * 1024 * 1024
PARTITION_SIZE_BYTES_MAX: Final = 1024 * 1024
MAX_WAIT_MS: Final = 500
"""Kafka's defaults of fetch.max.bytes, max.partition.fetch.bytes and fetch.max.wait.ms."""
ROLE: Final = "fetch"


class ConsumedRecord(NamedTuple):
    """A record with where it stands."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    """`CreateTime` or `LogAppendTime`."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Fetched(NamedTuple):
    """What one partition gave: its records, and from where to read on."""

    partition: TopicPartition
    records: list[ConsumedRecord]
    next_offset: int
    end_offset: int
    """The partition's end for the isolation level: high watermark or last stable offset."""


class OffsetOutOfRange(BrokerRefused):
    """The partition does not hold the offset asked for."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        code = ErrorCode.OFFSET_OUT_OF_RANGE
        super().__init__(code, f"fetch of {partition} at {offset}")


class Fetcher:
    """Reads partitions from given positions; the caller keeps the positions."""

    def __init__(self, cluster: Cluster, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._under_way: dict[Connection, dict[TopicPartition, int]] = {}

    def poll(
        self, positions: Mapping[TopicPartition, int], timeout_s: float, *, park: bool = True
    ) -> list[Fetched]:
        """What the leaders of these partitions reply within the time, each at most once.

        Without `park` they reply at once even where there is nothing, which tells where the
        partitions end.  A reply for a position that is no longer asked for is dropped.
        """
        deadline = time.monotonic() + timeout_s
        fetched: list[Fetched] = []
        try:
            self._send(positions, MAX_WAIT_MS if park else 0)
            for connection in self._readable(max(deadline - time.monotonic(), 0)):
                asked = self._under_way.pop(connection)
                reply: FetchResponse = connection.receive()
                check(reply.error_code, f"fetch from {connection.address}")
                fetched += self._take(reply, asked, positions)
        except (BrokerUnreachable, RequestTimedOut, BrokerRefused) as error:
            if not error.retriable or isinstance(error, OffsetOutOfRange):
                raise
            self._cluster.tell_of_trouble(error)
            self._forget(positions)
            time.sleep(min(BACKOFF_S, timeout_s))
        return fetched

    def close(self) -> None:
        """Give up the requests on their way."""
        for connection in self._under_way:
            connection.close()
        self._under_way.clear()

    def _forget(self, positions: Mapping[TopicPartition, int]) -> None:
        """Ask again who leads; broken connections' requests are gone."""
        for partition in positions:
            self._cluster.forget_leader(partition.topic)
        for connection in [c for c in self._under_way if c.closed]:
            del self._under_way[connection]

    def _send(self, positions: Mapping[TopicPartition, int], max_wait_ms: int) -> None:
        busy = {p for asked in self._under_way.values() for p in asked}
        for leader, topics in self._cluster.by_leader(
            p for p in positions if p not in busy
        ).items():
            connection = self._cluster.node(leader, ROLE)
            if connection in self._under_way:
                continue
            asked = {p: positions[p] for partitions in topics.values() for p in partitions}
            connection.send(
                fetch_request(self._cluster, asked, self._isolation, max_wait_ms=max_wait_ms)
            )
            self._under_way[connection] = asked

    def _readable(self, timeout_s: float) -> list[Connection]:
        if not self._under_way:
            time.sleep(min(timeout_s, MAX_WAIT_MS / 1000))
            return []
        with selectors.DefaultSelector() as selector:
            for connection in self._under_way:
                selector.register(connection, selectors.EVENT_READ, connection)
            return [key.data for key, _ in selector.select(timeout_s)]

    def _take(
        self,
        reply: FetchResponse,
        asked: Mapping[TopicPartition, int],
        positions: Mapping[TopicPartition, int],
    ) -> Iterator[Fetched]:
        for topic in reply.responses:
            name = topic.topic or self._cluster.topic_name(topic.topic_id) or ""
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                offset = positions.get(partition)
                if offset is None or asked.get(partition) != offset:
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(partition, offset)
                check(data.error_code, f"fetch of {partition}")
                yield self._read(partition, offset, data)

    def _read(self, partition: TopicPartition, offset: int, data: PartitionData) -> Fetched:
        committed = self._isolation == Isolation.READ_COMMITTED
        end = data.last_stable_offset if committed else data.high_watermark
        view = received(data)
        filtered = Aborted(data) if committed else None
        found: list[ConsumedRecord] = []
        next_offset = offset
        for position, header in iter_batches(view):
            check_crc(view, position, header)
            next_offset = max(next_offset, header.last_offset + 1)
            if header.is_control:
                if filtered is not None:
                    filtered.see_marker(header, view[position:])
                continue
            if filtered is not None and filtered.hides(header):
                continue
            found += records_of(partition, offset, view, position, header)
        return Fetched(partition, found, next_offset, end)


def fetch_request(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    isolation: Isolation,
    *,
    max_wait_ms: int,
    size_bytes_max: int = FETCH_SIZE_BYTES_MAX,
    partition_size_bytes_max: int = PARTITION_SIZE_BYTES_MAX,
) -> FetchRequest:
    """For partitions that one broker leads, from these offsets on; the cluster knows the topics."""
    topics: dict[str, list[FetchPartition]] = defaultdict(list)
    for partition, offset in positions.items():
        topics[partition.topic].append(
            FetchPartition(
                partition=partition.partition,
                fetch_offset=offset,
                partition_max_bytes=partition_size_bytes_max,
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=size_bytes_max,
        isolation_level=isolation,
        topics=[
            FetchTopic(topic=topic, topic_id=cluster.topics[topic].topic_id, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def received(data: PartitionData) -> memoryview:
    """The batches of one partition's reply."""
    found = data.records or b""
    assert isinstance(found, bytes | memoryview), "decoding makes slices of the frame"
    return memoryview(found)


class Aborted:
    """Which batches of a reply belong to transactions that were aborted (KIP-98).

    The broker lists the aborted transactions with the offset each begins at; one ends at its abort
    marker.
    """

    def __init__(self, data: PartitionData) -> None:
        listed = data.aborted_transactions or []
        self._coming = sorted((t.first_offset, t.producer_id) for t in listed)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Whether readers of committed records do not see this batch."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(self._coming.pop(0)[1])
        return header.is_transactional and header.producer_id in self._open

    def see_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """An abort marker ends the transaction of its producer."""
        self.hides(header)
        for record in records(batch):
            marker = read_marker(record)
            if marker is not None and marker.kind == ControlType.ABORT:
                self._open.discard(header.producer_id)


def records_of(
    partition: TopicPartition, offset: int, view: memoryview, position: int, header: BatchHeader
) -> list[ConsumedRecord]:
    """The records of a batch from `offset` on: the batch that holds it may begin before it."""
    append_time = header.timestamp_type.value == 1
    kind = "LogAppendTime" if append_time else "CreateTime"
    return [
        ConsumedRecord(
            partition.topic,
            partition.partition,
            record.offset,
            header.max_timestamp if append_time else record.timestamp,
            kind,
            record.key,
            record.value,
            record.headers,
        )
        for record in records(view, position)
        if record.offset >= offset
    ]
