"""Fills the data directory of either broker, by a stock client, with everything it may hold.

This takes two runs, with a restart between them for a broker that counts leader epochs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.log.directory import checkpoints
from kwire.log.directory.files import Files
from tests.polling import until

SEGMENT_BYTES = 1 << 20  # the least that Apache Kafka 4 allows
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "codecs": (3, {}),
    "large": (1, {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "2048"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "transactions": (2, {"segment.bytes": str(SEGMENT_BYTES)}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
        },
    ),
    "untouched": (2, {"retention.ms": "-1"}),
}
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "false",
}
"""Of either broker: a cleaner that does not wait, coordinators with a few partitions."""
Shapes = dict[str, tuple[int, dict[str, str]]]
INTERNAL_TOPICS: Shapes = {
    "__consumer_offsets": (3, {"cleanup.policy": "compact", "compression.type": "producer"}),
    "__transaction_state": (2, {"cleanup.policy": "compact", "compression.type": "uncompressed"}),
}
GROUPS = ("readers", "in-transactions")
OPEN_TIMEOUT_MS = 900_000  # longer than any test runs
WAIT_S = 300.0


class Filling:
    """Writes through `bootstrap`; `rounds` says how much of everything there is."""

    def __init__(self, bootstrap: str, rounds: int) -> None:
        self.bootstrap = bootstrap
        self.rounds = rounds
        self._open: list[Producer] = []  # their transactions stay open as long as they live

    def create_topics(self, more: Shapes | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [
            NewTopic(name, partitions, 1, config=configs)
            for name, (partitions, configs) in (TOPICS | (more or {})).items()
        ]
        for created in admin.create_topics(wanted).values():
            created.result(120)

    def write(self, sitting: int) -> None:
        """Write some of everything; the second run leaves a transaction open."""
        for codec in CODECS:
            self._codec(codec, sitting)
        self._large(sitting)
        self._send({}, (("stamped", 0, b"k", b"%d" % n, 1_600_000_000_000) for n in range(20)))
        self._compacted(sitting)
        for number in range(2 * self.rounds):
            self._transaction(f"t-{number % 2}", sitting, commit=number % 2 == 0)
        self._commit_offsets(sitting)
        if sitting:
            self._leave_open()

    def _producer(self, config: dict[str, object]) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **config})

    def _send(
        self,
        config: dict[str, object],
        messages: Iterable[tuple[str, int, bytes, bytes | None, int]],
    ) -> None:
        producer = self._producer(config)
        _produce(producer, messages)
        assert producer.flush(WAIT_S) == 0

    def _codec(self, codec: str, sitting: int) -> None:
        now_ms = _now_ms()
        idempotent = codec in ("gzip", "zstd")
        self._send(
            {"compression.type": codec, "enable.idempotence": idempotent},
            (
                ("codecs", n % 3, b"%d" % n, f"{codec} {sitting} {n} ".encode() * 9, now_ms + n)
                for n in range(30 * self.rounds)
            ),
        )

    def _large(self, sitting: int) -> None:
        now_ms = _now_ms()
        self._send(
            {"batch.size": 4000, "enable.idempotence": True},
            (
                ("large", 0, b"%d" % n, b"%d" % n + bytes(997), now_ms + n // 2)
                for n in range(800 * self.rounds)
            ),
        )

    def _compacted(self, sitting: int) -> None:
        """Write each key many times, and delete some."""
        now_ms = _now_ms()
        count = 800 * self.rounds
        self._send(
            {"batch.size": 8000, "compression.type": "lz4" if sitting else "none"},
            (
                (
                    "compacted",
                    0,
                    b"key %d" % (n * 7 % 50),
                    None if n % 97 == 5 else b"%d " % n + bytes((n * k) % 251 for k in range(900)),
                    now_ms + n,
                )
                for n in range(count)
            ),
        )

    def _transaction(self, transactional_id: str, sitting: int, *, commit: bool) -> None:
        producer = self._producer({"transactional.id": transactional_id})
        producer.init_transactions(WAIT_S)
        for number in range(3):
            producer.begin_transaction()
            text = f"{transactional_id} {sitting} {number} {'kept' if commit else 'dropped'}"
            _produce(
                producer,
                (("transactions", n % 2, b"k", text.encode() * 20, _now_ms()) for n in range(8)),
            )
            self._offsets_in(producer, number)
            producer.flush(WAIT_S)
            if commit:
                producer.commit_transaction(WAIT_S)
            else:
                producer.abort_transaction(WAIT_S)

    def _offsets_in(self, producer: Producer, number: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "in-transactions"})
        offsets = [TopicPartition("codecs", 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        consumer.close()

    def _commit_offsets(self, sitting: int) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "readers"})
        for number in range(3):
            offsets = [TopicPartition("codecs", n, 5 * sitting + number + n) for n in range(3)]
            offsets.append(TopicPartition("large", 0, 100 + number, "a note"))
            consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def _leave_open(self) -> None:
        config = {"transactional.id": "open", "transaction.timeout.ms": OPEN_TIMEOUT_MS}
        producer = self._producer(config)
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        _produce(producer, [("transactions", 0, b"k", b"open", _now_ms())])
        assert producer.flush(WAIT_S) == 0
        self._open.append(producer)
        self._transaction("behind", 1, commit=False)


def _produce(
    producer: Producer, messages: Iterable[tuple[str, int, bytes, bytes | None, int]]
) -> None:
    failed: list[object] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(error)

    for topic, partition, key, value, timestamp in messages:
        headers: list[tuple[str, str | bytes | None]] = [("key", key)]
        while True:
            try:
                producer.produce(
                    topic, value, key, partition, delivered, timestamp=timestamp, headers=headers
                )
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    producer.flush(WAIT_S)
    assert not failed, failed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def wait_until_cleaned(data_dir: Path) -> None:
    """Wait until the cleaner has cleaned all but the last segment of `compacted`."""
    folder = data_dir / "compacted-0"

    def cleaned() -> bool:
        path = data_dir / checkpoints.CLEANER_OFFSETS
        offsets = checkpoints.read_offsets(Files(), path)
        active = max(path.stem for path in folder.glob("*.log"))
        return 0 < int(active) == offsets.get(("compacted", 0), -1)

    def settled() -> bool:
        return cleaned() and not list(folder.glob("*.deleted"))

    until(settled, "the cleaner has not been at it")
