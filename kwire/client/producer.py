"""A producer that collects records in one batch per partition and sends batches to the leaders."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kwire.client.cluster import BACKOFF_S, Cluster, TopicPartition
from kwire.client.connection import BrokerConnection
from kwire.client.errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    Misuse,
    RequestTimedOut,
    check,
)
from kwire.client.partitioner import partition_for
from kwire.codecs.batch_layout import SEQUENCE_RANGE
from kwire.codecs.batches import Compression, Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

BATCH_SIZE_BYTES: Final = 256 * 1024
"""A batch of this size is sent.  It is well below Kafka's default max.message.bytes of 1 MB."""
RECORD_OVERHEAD_BYTES: Final = 24
"""About the size of a record without its key, value and headers."""


class Delivered(NamedTuple):
    """A batch that the broker acknowledged.  With acks=0 the offset is -1."""

    partition: TopicPartition
    base_offset: int
    records: int


@dataclass(slots=True)
class Batch:
    """The unsent records of one partition."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


class Producer:
    """Sends records: `send` adds one to its batch; `flush` sends all and awaits acknowledgements.

    With acks=-1 the producer is idempotent (KIP-98): a batch that is sent twice is stored once.
    Each partition has one batch in flight, so the order of its records is kept.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        compression: Compression = Compression.NONE,
        create_topics: bool = True,
    ) -> None:
        """`acks`: 0 sends without a response, 1 waits for the leader, -1 for all in-sync replicas.
        `create_topics`: missing topics are created.  Raises Misuse for another value of `acks`."""
        if acks not in (-1, 0, 1):
            raise Misuse("acks must be 0, 1 or -1 (all)")
        self._cluster = cluster
        self._acks = acks
        self._compression = compression
        self._create_topics = create_topics
        self._gathered: dict[TopicPartition, Batch] = {}
        self._counts: dict[str, int] = {}
        self._rotation: dict[str, int] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self.records_delivered = 0

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Delivered]:
        """Add a record to its batch.  A full batch is sent; then the result has its delivery."""
        target = self._partition(topic, key, partition)
        batch = self._gathered.setdefault(target, Batch())
        now_ms = time.time_ns() // 1_000_000
        timestamp = now_ms if timestamp_ms is None else timestamp_ms
        batch.records.append(Record(0, timestamp, key, value, list(headers)))
        batch.size_bytes += len(key or b"") + len(value or b"") + RECORD_OVERHEAD_BYTES
        if batch.size_bytes < BATCH_SIZE_BYTES:
            return []
        self._rotation[topic] = self._rotation.get(topic, 0) + 1
        return self._deliver({target: self._gathered.pop(target)})

    def flush(self) -> list[Delivered]:
        """Send all batches and wait until they are acknowledged."""
        gathered, self._gathered = self._gathered, {}
        for topic in {partition.topic for partition in gathered}:
            self._rotation[topic] = self._rotation.get(topic, 0) + 1
        return self._deliver(gathered)

    def _partition(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition:
        """The given partition, or that of the key.

        Without either, partitions take turns, each for the time of one batch (KIP-480).
        """
        count = self._counts.get(topic)
        if count is None:
            metadata = self._cluster.topic(topic, create=self._create_topics)
            count = self._counts[topic] = len(metadata.partitions)
        if partition is not None:
            if not 0 <= partition < count:
                raise Misuse(f"topic {topic} has no partition {partition}: it has {count}")
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, partition_for(key, count))
        return TopicPartition(topic, self._rotation.get(topic, 0) % count)

    def _deliver(self, batches: dict[TopicPartition, Batch]) -> list[Delivered]:
        """Send and retry until every batch is acknowledged.

        Raises the error of a batch if it is not retriable, or after the cluster's timeout.
        """
        if not batches:
            return []
        if self._acks == -1 and self._producer_id < 0:
            self._init_producer_id()
        encoded = {
            partition: self._encode(partition, batch) for partition, batch in batches.items()
        }
        delivered: list[Delivered] = []
        deadline = time.monotonic() + self._cluster.timeout_s
        while encoded:
            failure = self._round(encoded, batches, delivered)
            if failure is None:
                continue
            if not failure.retriable or time.monotonic() > deadline:
                raise failure
            self._cluster.tell_of_trouble(failure)
            time.sleep(BACKOFF_S)
        return delivered

    def _round(
        self,
        encoded: dict[TopicPartition, bytearray],
        batches: dict[TopicPartition, Batch],
        delivered: list[Delivered],
    ) -> ClientError | None:
        """Send one request to each leader.  Returns the last failure, or None.

        Acknowledged batches are removed from `encoded` and added to `delivered`.
        """
        failure: ClientError | None = None
        try:
            leaders = self._cluster.by_leader(encoded)
        except ClientError as error:
            return error
        # Take the topic ids first: a leader that fails makes the cluster forget its topics.
        ids = {
            topic: self._cluster.topics[topic].topic_id
            for topics in leaders.values()
            for topic in topics
        }
        for leader, topics in leaders.items():
            try:
                results = self._produce(self._cluster.node(leader), topics, encoded, ids)
            except (BrokerUnreachable, RequestTimedOut) as error:
                for topic in topics:
                    self._cluster.forget_leader(topic)
                failure = error
                continue
            for partition, base_offset, refusal in results:
                if refusal is None:
                    del encoded[partition]
                    count = len(batches[partition].records)
                    self._advance(partition, count)
                    self.records_delivered += count
                    delivered.append(Delivered(partition, base_offset, count))
                else:
                    self._cluster.forget_leader(partition.topic)
                    failure = refusal
        return failure

    def _produce(
        self,
        connection: BrokerConnection,
        topics: dict[str, list[TopicPartition]],
        encoded: dict[TopicPartition, bytearray],
        ids: dict[str, bytes],
    ) -> list[tuple[TopicPartition, int, ClientError | None]]:
        """Send the batches of one leader.  Returns base offset and error of each partition."""
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=ids[topic],
                    partition_data=[
                        PartitionProduceData(index=p.partition, records=encoded[p])
                        for p in partitions
                    ],
                )
                for topic, partitions in topics.items()
            ],
        )
        if self._acks == 0:
            connection.send(request, replied=False)
            return [(p, -1, None) for partitions in topics.values() for p in partitions]
        results = []
        names = {topic_id: topic for topic, topic_id in ids.items()}
        for topic_response in connection.call(request).responses:
            name = topic_response.name or names.get(topic_response.topic_id, "")
            for response in topic_response.partition_responses:
                partition = TopicPartition(name, response.index)
                results.append((partition, response.base_offset, failure_in(partition, response)))
        return results

    def _init_producer_id(self) -> None:
        """Requests a producer id for idempotent writes; any broker assigns one without a
        transactional id."""

        def attempt() -> None:
            """Sends the request once, and stores the producer id and epoch."""
            # Brokers ignore the timeout if there is no transactional id.
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            reply = self._cluster.any().call(request)
            check(reply.error_code, "producer id")
            self._producer_id = reply.producer_id
            self._producer_epoch = reply.producer_epoch

        self._cluster.retrying(attempt)

    def _encode(self, partition: TopicPartition, batch: Batch) -> bytearray:
        """Return the bytes of a batch.  Its base sequence is -1, as Kafka defines it, if the
        producer has no producer id."""
        return build(
            batch.records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences.get(partition, 0) if self._producer_id >= 0 else -1,
        )

    def _advance(self, partition: TopicPartition, count: int) -> None:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + count) % SEQUENCE_RANGE


def failure_in(partition: TopicPartition, response: PartitionProduceResponse) -> ClientError | None:
    """The error of a partition's response, or None.

    DUPLICATE_SEQUENCE_NUMBER is no error: the broker has stored the batch before.
    """
    code = response.error_code
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return None
    reasons = [response.error_message] if response.error_message else []
    reasons += [
        f"record {error.batch_index}: {error.batch_index_error_message}"
        for error in response.record_errors
        if error.batch_index_error_message
    ]
    return BrokerRefused(code, f"produce to {partition}", "; ".join(reasons) or None)
