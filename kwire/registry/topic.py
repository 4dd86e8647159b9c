"""The topic of the registry: a thread reads it into the state, and writers wait for their records.

The topic has one partition, and is compacted.  The registry is what its log says: a writer has
registered a schema when its record was read back and applied.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import topic_settings
from kwire.client.errors import (
    BrokerRefused,
    ClientError,
    Misuse,
    RequestTimedOut,
    UnsupportedRequest,
)
from kwire.client.fetcher import ConsumedRecord, Fetched, Fetcher, OffsetOutOfRange
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.codecs.errors import ErrorCode
from kwire.registry.subjects.errors import schema_too_large, store_failed, timed_out
from kwire.registry.subjects.records import InvalidRecordError, Write
from kwire.registry.subjects.state import RecordOutcome, RegistryState

TOPIC_DEFAULT: Final = "_schemas"
REPLICAS_MAX: Final = 3
"""Replicas of a new topic, if there are as many brokers."""
POLL_S: Final = 0.5
WRITE_TIMEOUT_S: Final = 30.0
"""How long a writer waits until its records are read back."""
LOAD_TIMEOUT_S: Final = 60.0
"""How long the topic may return nothing while it is loaded."""
PAUSE_S: Final = 1.0
"""The pause after an error of the cluster."""

log = logging.getLogger("kwire.registry")


class Contradicted(Exception):
    """A record was rejected, since another instance wrote before; nothing has changed."""


class RegistryTopic:
    """The log of a registry, and the state that it amounts to."""

    def __init__(self, connect: Callable[[], Cluster], name: str = TOPIC_DEFAULT) -> None:
        """`connect` makes a Cluster; it need not be connected.  Nothing is sent yet."""
        self.registry = RegistryState()
        self.lock = threading.RLock()
        """Held while records are applied.  Who decides by the state holds it, too."""
        self.name = name
        self._partition = TopicPartition(name, 0)
        self._connect = connect
        self._applied = threading.Condition(self.lock)
        self._loading: RegistryState | None = self.registry
        """The state that is read from the beginning, until it is complete."""
        self._position = 0
        """The offset of the next record to apply."""
        self._rejected: set[int] = set()
        """The offsets of rejected records that a writer may wait for."""
        self._waits_from = 0
        """The lowest offset for which a writer waits; lower ones need not be kept."""
        self._topic_id = b""
        self._is_missing = False
        """Whether a broker said that the topic does not exist."""
        self._writing: Cluster | None = None
        self._producer: Producer | None = None
        self._stopped = threading.Event()

    # -- reading

    def load(self) -> None:
        """Create the topic if it is missing, and read it to its end.

        Raises ClientError if the cluster cannot be reached, or if the topic is not fit.
        """
        with self._connect() as cluster:
            self._prepare(cluster)
            fetcher = Fetcher(cluster)
            read_at, position = time.monotonic(), -1
            while self._loading is not None:
                self._read(fetcher, park=False)
                if self._position != position:
                    read_at, position = time.monotonic(), self._position
                elif time.monotonic() - read_at > LOAD_TIMEOUT_S:
                    raise RequestTimedOut(f"topic {self.name} cannot be read beyond {position}")
            fetcher.close()

    def follow(self) -> None:
        """Read on until `stop`."""
        while not self._stopped.is_set():
            try:
                with self._connect() as cluster:
                    cluster.on_trouble = self._on_trouble
                    self._follow(cluster)
            except (ClientError, OSError) as error:
                log.warning("cannot read topic %s: %s; trying again", self.name, error)
                self._stopped.wait(PAUSE_S)

    def stop(self) -> None:
        """End `follow`, and close the connection for writes."""
        self._stopped.set()
        if self._writing is not None:
            self._writing.close()

    def _prepare(self, cluster: Cluster) -> bool:
        """Create the topic unless it exists.  Returns whether it is another one than before.

        Raises Misuse if it is not fit for a registry.
        """
        is_new = False
        try:
            topic = cluster.topic(self.name)
        except BrokerRefused as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            is_new = self._create(cluster)
            topic = cluster.topic(self.name, create=True)
        if len(topic.partitions) != 1:
            raise Misuse(
                f"topic {self.name} has {len(topic.partitions)} partitions: a registry's has one"
            )
        policy = self._policy(cluster)
        if policy is not None and policy != "compact":
            raise Misuse(
                f"topic {self.name} has cleanup.policy={policy}, by which schemas would be lost: "
                "set it to compact"
            )
        is_new |= topic.topic_id != self._topic_id
        self._topic_id = topic.topic_id
        return is_new

    def _policy(self, cluster: Cluster) -> str | None:
        """The topic's cleanup.policy, or None if the cluster does not tell it."""
        try:
            settings = topic_settings(cluster, [self.name], ["cleanup.policy"])
        except (BrokerRefused, UnsupportedRequest) as error:
            log.warning("cannot see that topic %s is compacted: %s", self.name, error)
            return None
        return settings.get(self.name, {}).get("cleanup.policy")

    def _create(self, cluster: Cluster) -> bool:
        """Create the topic.  Returns False if it exists after all."""
        replicas = max(1, min(REPLICAS_MAX, len(cluster.nodes)))
        log.info("creating topic %s with %d replicas", self.name, replicas)
        try:
            create_topic(
                cluster,
                self.name,
                partitions=1,
                replication_factor=replicas,
                configs={"cleanup.policy": "compact"},
            )
        except BrokerRefused as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def _follow(self, cluster: Cluster) -> None:
        """Read on.  A topic that was deleted is created again, and read from its beginning."""
        fetcher = Fetcher(cluster)
        while not self._stopped.is_set():
            if self._is_missing:
                self._is_missing = False
                if self._prepare(cluster):
                    log.warning("topic %s was deleted, and all schemas with it", self.name)
                    self._start_again(fetcher)
            self._read(fetcher, park=self._loading is None)
            topic = cluster.topics.get(self.name)
            if topic is not None and topic.topic_id != self._topic_id:
                log.warning("topic %s was created again: reading it anew", self.name)
                self._topic_id = topic.topic_id
                self._start_again(fetcher)
        fetcher.close()

    def _on_trouble(self, error: ClientError) -> None:
        """Note that the topic is gone."""
        if isinstance(error, BrokerRefused) and error.code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ):
            self._is_missing = True

    def _start_again(self, fetcher: Fetcher) -> None:
        """Read the log from its beginning into a new state, which then replaces the present one."""
        fetcher.close()
        with self.lock:
            self._loading = RegistryState()
            self._position = 0
            self._rejected.clear()

    def _read(self, fetcher: Fetcher, *, park: bool) -> None:
        """Apply what one request returns."""
        try:
            found = fetcher.poll({self._partition: self._position}, POLL_S, park=park)
        except OffsetOutOfRange:
            log.warning("topic %s was cut: reading it anew", self.name)
            self._start_again(fetcher)
            return
        for fetched in found:
            self._apply(fetched)

    def _apply(self, fetched: Fetched) -> None:
        """Apply the records of a response."""
        with self.lock:
            registry = self.registry if self._loading is None else self._loading
            for record in fetched.records:
                self._apply_record(registry, record)
            self._position = fetched.next_offset
            if self._loading is not None and self._position >= fetched.end_offset:
                self.registry.become(self._loading)
                self._loading = None
            self._applied.notify_all()

    def _apply_record(self, registry: RegistryState, record: ConsumedRecord) -> None:
        try:
            outcome = registry.apply(record.key, record.value)
        except InvalidRecordError as problem:
            log.warning("the record of %s at %d is none of a registry: %s",
                        self.name, record.offset, problem)  # fmt: skip
            return
        if outcome is RecordOutcome.REJECTED:
            log.warning("the record of %s at %d contradicts earlier ones: it does not count",
                        self.name, record.offset)  # fmt: skip
            if record.offset >= self._waits_from:
                self._rejected.add(record.offset)

    # -- writing; by one thread at a time

    def write(self, writes: Sequence[Write]) -> None:
        """Append records, and wait until they are applied.

        Raises Contradicted if one was rejected, and RegistryError if they could not be written; in
        the latter case they may be written later on.
        """
        with self.lock:
            self._waits_from = self._position
            self._rejected.clear()
        first, last = self._append(writes)
        self._wait(last)
        with self.lock:
            if any(first <= offset <= last for offset in self._rejected):
                raise Contradicted

    def catch_up(self) -> None:
        """Wait until all records are applied that are in the topic now.  Raises RegistryError."""
        try:
            end = end_offsets(self._writer(), [self._partition])[self._partition]
        except ClientError as error:
            self._forget_writer()
            raise store_failed(f"cannot read topic {self.name}: {error}") from error
        self._wait(end - 1)

    def _append(self, writes: Sequence[Write]) -> tuple[int, int]:
        """Send the records.  Returns the offsets of the first and the last of them."""
        try:
            cluster = self._writer()
            if self._producer is None:
                self._producer = Producer(cluster, create_topics=False)
            delivered = []
            for each in writes:
                delivered += self._producer.send(
                    self.name, each.encoded_value(), each.key.encoded(), partition=0
                )
            delivered += self._producer.flush()
        except ClientError as error:
            # Whether the records are in the log is not known.  A new producer id keeps the next
            # records from being taken for the same.
            self._forget_writer()
            if isinstance(error, BrokerRefused) and error.code in (
                ErrorCode.MESSAGE_TOO_LARGE,
                ErrorCode.RECORD_LIST_TOO_LARGE,
            ):
                raise schema_too_large(
                    "Register operation failed because schema is too large"
                ) from error
            if isinstance(error, RequestTimedOut):
                raise timed_out(f"writing to topic {self.name} timed out: {error}") from error
            raise store_failed(f"cannot write to topic {self.name}: {error}") from error
        first = min(each.base_offset for each in delivered)
        last = max(each.base_offset + each.records for each in delivered) - 1
        if first < 0:
            # The broker had the records already, and did not say where.
            end = end_offsets(cluster, [self._partition])[self._partition]
            return end - len(writes), end - 1
        return first, last

    def _wait(self, offset: int) -> None:
        """Wait until the record at an offset is applied.  Raises RegistryError."""
        with self._applied:
            is_applied = self._applied.wait_for(
                lambda: self._position > offset and self._loading is None, WRITE_TIMEOUT_S
            )
        if not is_applied:
            raise timed_out(f"topic {self.name} was not read up to offset {offset} in time")

    def wait_for(self, offset: int, timeout_s: float) -> None:
        """Wait until the record at an offset is applied, but no longer than the timeout."""
        with self._applied:
            self._applied.wait_for(lambda: self._position > offset, timeout_s)

    @property
    def position(self) -> int:
        """The offset of the next record to apply."""
        return self._position

    def _writer(self) -> Cluster:
        if self._writing is None:
            self._writing = self._connect()
        return self._writing

    def _forget_writer(self) -> None:
        """Close the connection for writes; the next write opens another."""
        if self._writing is not None:
            self._writing.close()
        self._writing = self._producer = None
