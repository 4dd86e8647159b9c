"""A transactional producer for one partition, and the position that is committed with its records.

This module is sent to Spark's executors by value: it imports only modules of kwire that are sent
as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

    from kwire.pipeline.rows import Columns, Report

R = TypeVar("R")

CALL_S = 5.0
"""Timeout of one call into librdkafka, after which the call is repeated."""
FLUSH_S = 2.0
BACKOFF_S = 0.2
RECORDS_QUEUED_MAX = 1_000_000
LOG_LEVEL = 3
"""Errors only: on lower levels, librdkafka logs the end of each connection."""

AGAIN = (
    "_TIMED_OUT",
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_WAIT_COORD",
    "_IN_PROGRESS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "REQUEST_TIMED_OUT",
    "CONCURRENT_TRANSACTIONS",
    "UNSTABLE_OFFSET_COMMIT",
    "NETWORK_EXCEPTION",
)
"""Retriable errors; for transactional calls, librdkafka also marks errors as retriable itself."""


class TransactionalClient:
    """Writes one partition, and reads and commits the position in its source."""

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        group: str,
        topic: str,
        partition: int,
        patience_s: float,
    ) -> None:
        """`settings` are librdkafka's.  `group` and the partition make the transactional id, so
        that a second task for the same partition fences the first.  `patience_s` limits waits for
        the cluster."""
        self.topic = topic
        self.partition = partition
        self.transactional_id = f"{group}-{topic}-{partition}"
        self._settings: dict[str, Any] = {"log_level": LOG_LEVEL} | dict(settings)
        self._group = group
        self._patience_s = patience_s
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    @property
    def where(self) -> str:
        """The partition in words, for messages."""
        return f"partition {self.partition} of {self.topic}"

    @property
    def is_open(self) -> bool:
        """Whether there is a producer."""
        return self._producer is not None

    @property
    def producer(self) -> Producer:
        """The producer; `open` makes it."""
        assert self._producer is not None, "not open"
        return self._producer

    @property
    def _positions(self) -> Consumer:
        """The consumer that reads the position and identifies the group; it never subscribes."""
        from confluent_kafka import Consumer

        if self._consumer is None:
            self._consumer = Consumer(
                self._settings
                | {
                    "group.id": self._group,
                    "isolation.level": "read_committed",  # asks for stable offsets, KIP-447
                    "enable.auto.commit": False,
                }
            )
        return self._consumer

    def open(self, settings: Mapping[str, str | int]) -> TopicPartition:
        """Fence the last writer of the partition; returns the committed position.

        An earlier producer of this object is dropped.
        """
        from confluent_kafka import Producer, TopicPartition

        own = {
            "transactional.id": self.transactional_id,
            "linger.ms": 50,  # keeps the first batches from being tiny; flush() does not wait
            "message.max.bytes": 1_000_000_000,  # the broker decides which record is too large
            "queue.buffering.max.messages": RECORDS_QUEUED_MAX,
            "error_cb": lambda error: None,  # without one a fatal error is raised by any call
        }
        self._producer = None
        self._producer = Producer(self._settings | own | dict(settings))
        self.insist(self._producer.init_transactions)
        partitions = [TopicPartition(self.topic, self.partition)]
        return self.insist(lambda timeout_s: self._committed(partitions, timeout_s))

    def _committed(self, partitions: list[TopicPartition], timeout_s: float) -> TopicPartition:
        """Return the committed position of the first of `partitions`.  Raises KafkaException for
        an error in the response."""
        from confluent_kafka import KafkaException

        committed: TopicPartition = self._positions.committed(partitions, timeout_s)[0]
        if committed.error is not None:
            raise KafkaException(committed.error)
        return committed

    def close(self) -> None:
        """Close the consumer and drop the producer."""
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None

    def produce(self, columns: Columns, watched: Iterable[Report | None]) -> None:
        """Pass rows to the producer; waits while its queue is full."""
        produce, topic, partition = self.producer.produce, self.topic, self.partition
        rows = zip(
            columns.values,
            columns.keys,
            watched,
            columns.timestamps_ms,
            columns.headers,
            strict=False,  # where no row has headers these are without end
        )
        for value, key, report, timestamp_ms, headers in rows:
            while True:
                try:
                    produce(topic, value, key, partition, report, None, timestamp_ms, headers)
                except BufferError:
                    self._serve(self.producer.poll, BACKOFF_S)
                else:
                    break

    def flush(self, position: int, metadata: str) -> None:
        """Wait until all rows are written and the position was sent.

        In a failed transaction, rows may stay queued until they time out; sending the position
        reports the failure at once.
        """
        while True:
            left = self._serve(self.producer.flush, FLUSH_S)
            self._send(position, metadata)
            if not left:
                return

    @staticmethod
    def _serve(call: Callable[[float], int], timeout_s: float) -> int:
        """Run callbacks.  Ignores a fatal error, which the next call to the producer reports.

        confluent-kafka raises a fatal error from here.  If delivery reports follow in the same
        call, confluent-kafka loses the exception and raises SystemError instead.
        """
        from confluent_kafka import KafkaException

        try:
            return call(timeout_s)
        except SystemError:
            return 0
        except KafkaException as failed:
            if failed.args[0].fatal():
                return 0
            raise
        finally:
            del call  # as in `insist`

    def _send(self, position: int, metadata: str) -> None:
        """Adds the position to the transaction, so that it is committed together with the
        records."""
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(self.topic, self.partition, position, metadata)]
        group = self._positions.consumer_group_metadata()
        self.insist(lambda s: self.producer.send_offsets_to_transaction(offsets, group, s))

    def commit(self) -> None:
        """Commit the transaction."""
        self.insist(self.producer.commit_transaction)

    def abort(self) -> KafkaError | None:
        """Abort the transaction.  Returns an error that ended the producer, such as fencing."""
        from confluent_kafka import KafkaException

        try:
            self.insist(self.producer.abort_transaction)
        except KafkaException as error:
            fatal: KafkaError = error.args[0]
            if fatal.fatal():
                return fatal
            raise
        return None

    def record_size_max(self) -> int:
        """max.message.bytes of the topic."""
        from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

        topic = ConfigResource(ResourceType.TOPIC, self.topic)
        admin = AdminClient(self._settings)
        described = admin.describe_configs([topic], request_timeout=CALL_S)[topic].result()
        return int(described["max.message.bytes"].value)

    def insist(self, call: Callable[[float], R]) -> R:
        """Repeat a call that takes a timeout in seconds until it succeeds or fails for good.

        confluent-kafka 2.x keeps some exceptions until the process ends.  So this frame must not
        refer to the producer (`del call`), which would keep connecting to its cluster.
        """
        from confluent_kafka import KafkaError, KafkaException

        passing = {getattr(KafkaError, name) for name in AGAIN}
        deadline = time.monotonic() + self._patience_s
        try:
            while True:
                try:
                    return call(CALL_S)
                except KafkaException as failed:
                    error = failed.args[0]
                    passes = error.retriable() or error.code() in passing
                    final = error.fatal() or error.txn_requires_abort()
                    if final or not passes or time.monotonic() > deadline:
                        raise
                    time.sleep(BACKOFF_S)
        finally:
            del call
