"""Tests kill -9 under load: acknowledged records occur once, in order; offsets never decrease.

There are 3 kills; KWIRE_CRASH_ROUNDS=20 is the long form.  The run's seed (`--seed`) determines
their times.  Producers and the consumer are librdkafka's, so that the test includes their retries
and sequence numbers; the final log is read with this project's own codecs.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial

import confluent_kafka
import pytest

from kwire.client.connection import BrokerConnection
from kwire.codecs.batches import check_crc, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.testing import BrokerProcess

ROUNDS = int(os.environ.get("KWIRE_CRASH_ROUNDS", "3"))
TOPIC = "crash"
GROUP = "crash-group"
PARTITIONS = 3
CODECS = ("none", "lz4", "zstd")
"""Codecs of the producers, one for each."""

SEGMENT_SIZE_BYTES = 1 << 20
"""The smallest value that Kafka allows, so that kills come before, during and after rolls."""

RECORDS_A_STEP = 20
STEP_S = 0.005
"""Three producers write 12,000 records a second; records not acknowledged yet stay few."""

RECOVERY_S_MAX = 240.0
"""Limit from a start to the next acknowledgement of every producer.

librdkafka waits up to 1 s between connections.
"""

LIFE_S = (0.3, 1.5)
"""Seconds that a broker runs under load before it is killed."""


class NumberedProducer:
    """An idempotent producer that writes 0, 1, 2... to each partition, with acknowledgements."""

    def __init__(self, bootstrap: str, name: str, codec: str) -> None:
        self.name = name
        self.sent = 0  # numbers given out, the same in every partition
        self.acked: dict[int, dict[int, int]] = {index: {} for index in range(PARTITIONS)}
        """Acknowledged numbers by partition and offset."""
        self.failures: list[str] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "message.timeout.ms": 600_000,
                "log_level": 0,
            }
        )

    @property
    def acked_count(self) -> int:
        return sum(len(offsets) for offsets in self.acked.values())

    def work(self, stop: threading.Event) -> None:
        """Write until told to stop, then wait for every acknowledgement."""
        while not stop.wait(STEP_S):
            for _ in range(RECORDS_A_STEP):
                for partition in range(PARTITIONS):
                    self._produce(partition)
                self.sent += 1
            self._producer.poll(0)
        left = self._producer.flush(RECOVERY_S_MAX)
        if left:
            self.failures.append(f"{left} records were never acknowledged")

    def _produce(self, partition: int) -> None:
        value = b"%s:%d:" % (self.name.encode(), self.sent) + b"x" * (self.sent % 300)
        while True:
            try:
                self._producer.produce(
                    TOPIC, value, partition=partition, on_delivery=self._delivered
                )
            except BufferError:  # the broker is away and the queue is full
                self._producer.poll(0.05)
            else:
                return

    def _delivered(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.acked[partition][offset] = int(value.split(b":")[1])


class Committer:
    """A group of one consumer that reads everything and commits what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: dict[int, int] = {}
        self.commits = 0
        self.failures: list[str] = []
        self._next: dict[int, int] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def work(self, stop: threading.Event) -> None:
        """Read and commit until told to stop."""
        self._consumer.subscribe([TOPIC])
        while not stop.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                self._read(message)
            self._commit()
        self._consumer.close()

    def _read(self, message: confluent_kafka.Message) -> None:
        if message.error() is not None:
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        expected = self._next.get(partition, 0)
        if offset > expected:
            self.failures.append(f"partition {partition}: read {offset} instead of {expected}")
        self._next[partition] = max(expected, offset + 1)

    def _commit(self) -> None:
        wanted = [
            confluent_kafka.TopicPartition(TOPIC, partition, offset)
            for partition, offset in self._next.items()
            if offset > self.committed.get(partition, 0)
        ]
        if not wanted:
            return
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # not acknowledged: it may be there or not
        for entry in done or []:
            if entry.error is None:
                self.committed[entry.partition] = entry.offset
                self.commits += 1


def connect(broker: BrokerProcess) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", broker.port, client_id="judge", timeout_s=RECOVERY_S_MAX)


def create_topic(broker: BrokerProcess) -> None:
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=PARTITIONS,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_SIZE_BYTES))],
    )
    with closing(connect(broker)) as link:
        reply = link.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.NONE], reply


def committed_offsets(broker: BrokerProcess) -> dict[int, int]:
    """The group's committed offsets, once its coordinator has loaded it."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(PARTITIONS)))
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic])
    deadline = time.monotonic() + RECOVERY_S_MAX
    with closing(connect(broker)) as link:
        while ErrorCode((reply := link.call(request, version_max=7)).error_code).retriable:
            assert time.monotonic() < deadline, reply
            time.sleep(0.05)
    assert reply.error_code == ErrorCode.NONE
    partitions = reply.topics[0].partitions
    return {p.partition_index: p.committed_offset for p in partitions if p.committed_offset >= 0}


def read_partition(link: BrokerConnection, partition: int) -> dict[int, bytes]:
    """All values of a partition by offset; CRCs are checked, and offsets must have no gap."""
    values: dict[int, bytes] = {}
    while True:
        wanted = FetchPartition(
            partition=partition, fetch_offset=len(values), partition_max_bytes=1 << 20
        )
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
        [result] = link.call(request, version_max=12).responses[0].partitions
        assert result.error_code == ErrorCode.NONE
        data = bytes(result.records or b"")
        for position, header in iter_batches(data):
            check_crc(data, position, header)
            for record in records(data, position):
                assert record.offset == len(values)
                assert record.value is not None
                values[record.offset] = record.value
        if len(values) == result.high_watermark:
            return values
        assert data, f"partition {partition} ends at {len(values)}, not {result.high_watermark}"


@contextmanager
def at_work(work: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=[stop], name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def wait_for_progress(producers: list[NumberedProducer], committer: Committer) -> None:
    """Wait until every producer gets a new acknowledgement, and the group commits a new offset."""
    counts: dict[str, Callable[[], int]] = {
        **{producer.name: partial(getattr, producer, "acked_count") for producer in producers},
        "the committer": lambda: committer.commits,
    }
    before = {name: count() for name, count in counts.items()}
    deadline = time.monotonic() + RECOVERY_S_MAX
    for name, count in counts.items():
        while count() == before[name]:
            assert not any(producer.failures for producer in producers)
            assert time.monotonic() < deadline, f"{name} gets no acknowledgement"
            time.sleep(0.01)


def kill_and_judge_offsets(
    broker: BrokerProcess, committer: Committer, floor: dict[int, int]
) -> dict[int, int]:
    """Kill the broker once; the committed offsets after it, which must not have decreased."""
    broker.kill()
    acknowledged = dict(committer.committed)
    broker.start()
    after = committed_offsets(broker)
    for partition, offset in (*floor.items(), *acknowledged.items()):
        assert after.get(partition, -1) >= offset, f"partition {partition} went back: {after}"
    return after


def check_logs(broker: BrokerProcess, producers: list[NumberedProducer]) -> int:
    """Check that every record occurs once, in order, at its acknowledged offset."""
    total = 0
    for partition in range(PARTITIONS):
        with closing(connect(broker)) as link:
            log = read_partition(link, partition)
        numbers: dict[str, list[int]] = defaultdict(list)
        for value in log.values():
            name, number, _ = value.split(b":")
            numbers[name.decode()].append(int(number))
        for producer in producers:
            assert numbers[producer.name] == list(range(producer.sent)), producer.name
            for offset, acked in producer.acked[partition].items():
                assert log[offset].startswith(b"%s:%d:" % (producer.name.encode(), acked))
            assert len(producer.acked[partition]) == producer.sent
        total += len(log)
    return total


@pytest.mark.slow
def test_kill_loses_no_acknowledged_record(broker: BrokerProcess, rng: random.Random) -> None:
    create_topic(broker)
    producers = [NumberedProducer(broker.bootstrap, f"producer-{codec}", codec) for codec in CODECS]
    committer = Committer(broker.bootstrap)
    offsets: dict[int, int] = {}
    with ExitStack() as workers:
        for producer in producers:
            workers.enter_context(at_work(producer.work, producer.name))
        with at_work(committer.work, "committer"):
            for round_number in range(ROUNDS):
                wait_for_progress(producers, committer)
                time.sleep(rng.uniform(*LIFE_S))
                offsets = kill_and_judge_offsets(broker, committer, offsets)
                acked = sum(producer.acked_count for producer in producers)
                print(f"kill {round_number + 1}: {acked} acknowledged, committed {offsets}")
            wait_for_progress(producers, committer)
    assert [producer.failures for producer in producers] == [[], [], []]
    assert committer.failures == []
    total = check_logs(broker, producers)
    final = committed_offsets(broker)
    assert all(final[partition] >= offset for partition, offset in committer.committed.items())
    print(f"{total} records, {committer.commits} commits, {ROUNDS} kills")
