"""Fetches records from the leaders of partitions, with one request in flight to each leader."""

from __future__ import annotations

import selectors
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
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
    """A record with its topic, partition and offset."""

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
    """The records of one partition in a response, and the offset at which to continue."""

    partition: TopicPartition
    records: list[ConsumedRecord]
    next_offset: int
    end_offset: int
    """The partition's end by the isolation level: its high watermark or last stable offset."""


class OffsetOutOfRange(BrokerRefused):
    """The partition does not have the requested offset."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        """`offset` is the requested offset, which the log of `partition` does not have."""
        self.partition = partition
        self.offset = offset
        code = ErrorCode.OFFSET_OUT_OF_RANGE
        super().__init__(code, f"fetch of {partition} at {offset}")


class Fetcher:
    """Reads partitions from given offsets.  The caller keeps its positions."""

    def __init__(self, cluster: Cluster, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        """With READ_COMMITTED, records of open and aborted transactions are not returned."""
        self._cluster = cluster
        self._isolation = isolation
        self._in_flight: dict[BrokerConnection, dict[TopicPartition, int]] = {}
        """The requested offsets of each connection that waits for a response."""

    def poll(
        self, positions: Mapping[TopicPartition, int], timeout_s: float, *, park: bool = True
    ) -> list[Fetched]:
        """The records that the leaders of these partitions return within `timeout_s`.

        Each leader responds at most once.  Without `park` it responds at once even if it has no
        records; then the caller learns where the partitions end.  A response is dropped if the
        position of its partition has changed meanwhile.  Raises OffsetOutOfRange, and errors that
        are not retriable; after a retriable error it returns what it has.
        """
        deadline = time.monotonic() + timeout_s
        fetched: list[Fetched] = []
        try:
            self._send(positions, MAX_WAIT_MS if park else 0)
            for connection in self._readable(max(deadline - time.monotonic(), 0)):
                requested = self._in_flight.pop(connection)
                reply: FetchResponse = connection.receive()
                check(reply.error_code, f"fetch from {connection.address}")
                fetched += self._take(reply, requested, positions)
        except (BrokerUnreachable, RequestTimedOut, BrokerRefused) as error:
            if not error.retriable or isinstance(error, OffsetOutOfRange):
                raise
            self._cluster.tell_of_trouble(error)
            self._forget(positions)
            time.sleep(min(BACKOFF_S, timeout_s))
        return fetched

    def close(self) -> None:
        """Close the connections that wait for a response."""
        for connection in self._in_flight:
            connection.close()
        self._in_flight.clear()

    def _forget(self, positions: Mapping[TopicPartition, int]) -> None:
        """Forget the leaders of the partitions, and the requests of closed connections."""
        for partition in positions:
            self._cluster.forget_leader(partition.topic)
        for connection in [c for c in self._in_flight if c.closed]:
            del self._in_flight[connection]

    def _send(self, positions: Mapping[TopicPartition, int], max_wait_ms: int) -> None:
        """Send a request to each leader that has none in flight."""
        busy = {p for requested in self._in_flight.values() for p in requested}
        for leader, topics in self._cluster.by_leader(
            p for p in positions if p not in busy
        ).items():
            connection = self._cluster.node(leader, ROLE)
            if connection in self._in_flight:
                continue
            requested = {p: positions[p] for partitions in topics.values() for p in partitions}
            connection.send(
                fetch_request(self._cluster, requested, self._isolation, max_wait_ms=max_wait_ms)
            )
            self._in_flight[connection] = requested

    def _readable(self, timeout_s: float) -> list[BrokerConnection]:
        """The connections that have a response, after at most `timeout_s`."""
        if not self._in_flight:
            time.sleep(min(timeout_s, MAX_WAIT_MS / 1000))
            return []
        with selectors.DefaultSelector() as selector:
            for connection in self._in_flight:
                selector.register(connection, selectors.EVENT_READ, connection)
            return [key.data for key, _ in selector.select(timeout_s)]

    def _take(
        self,
        reply: FetchResponse,
        requested: Mapping[TopicPartition, int],
        positions: Mapping[TopicPartition, int],
    ) -> Iterator[Fetched]:
        """The partitions of a response that were requested at their present positions."""
        for topic in reply.responses:
            name = topic.topic or self._cluster.topic_name(topic.topic_id) or ""
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                offset = positions.get(partition)
                if offset is None or requested.get(partition) != offset:
                    continue
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise OffsetOutOfRange(partition, offset)
                check(data.error_code, f"fetch of {partition}")
                yield self._read(partition, offset, data)

    def _read(self, partition: TopicPartition, offset: int, data: PartitionData) -> Fetched:
        """Return the records of one partition from `offset` on, and where the next fetch begins.
        Markers are never returned; records of aborted transactions are left out with
        read_committed."""
        committed = self._isolation == Isolation.READ_COMMITTED
        end = data.last_stable_offset if committed else data.high_watermark
        view = received(data)
        aborted = Aborted(data) if committed else None
        consumed: list[ConsumedRecord] = []
        next_offset = offset
        for position, header in iter_batches(view):
            check_crc(view, position, header)
            next_offset = max(next_offset, header.last_offset + 1)
            if header.is_control:
                if aborted is not None:
                    aborted.see_marker(header, view[position:])
                continue
            if aborted is not None and aborted.hides(header):
                continue
            consumed += records_of(partition, offset, view, position, header)
        return Fetched(partition, consumed, next_offset, end)


def fetch_request(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    isolation: Isolation,
    *,
    max_wait_ms: int,
    size_bytes_max: int = FETCH_SIZE_BYTES_MAX,
    partition_size_bytes_max: int = PARTITION_SIZE_BYTES_MAX,
) -> FetchRequest:
    """A Fetch for partitions of one leader, from these offsets on.

    `cluster` must have the topics in its cache.
    """
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
    """The batches in a response for one partition."""
    batches = data.records or b""
    assert isinstance(batches, bytes | memoryview), "decoding makes slices of the frame"
    return memoryview(batches)


class Aborted:
    """The aborted transactions of a response, to skip their batches (KIP-98).

    The broker lists each aborted transaction with its first offset.  It ends at its abort marker.
    Batches must be passed in the order of their offsets.
    """

    def __init__(self, data: PartitionData) -> None:
        listed = data.aborted_transactions or []
        self._coming = sorted((t.first_offset, t.producer_id) for t in listed)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """Whether this batch belongs to an aborted transaction."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(self._coming.pop(0)[1])
        return header.is_transactional and header.producer_id in self._open

    def see_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """End the transaction of the marker's producer if this is an abort marker."""
        self.hides(header)
        for record in records(batch):
            marker = read_marker(record)
            if marker is not None and marker.kind == ControlType.ABORT:
                self._open.discard(header.producer_id)


def records_of(
    partition: TopicPartition, offset: int, view: memoryview, position: int, header: BatchHeader
) -> list[ConsumedRecord]:
    """The records of a batch from `offset` on.  The batch may begin before that offset."""
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
