"""Tests kill -9 in transactions: committed ones are read once and complete, others never.

There are 3 kills; KWIRE_CRASH_ROUNDS=20 is the long form.  The run's seed (`--seed`) determines
their times.  The producer is librdkafka's, which continues its transaction after a restart.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import BrokerProcess

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("KWIRE_CRASH_ROUNDS", "3"))
TOPIC = "transactions"
PARTITIONS = 4
RECORDS = 8  # of a transaction, in turn to each partition
LIFE_S = (0.2, 1.0)
"""Seconds that a broker runs under load before it is killed."""
RECOVERY_S_MAX = 240.0


class Transactions:
    """Runs one transaction after the other, aborts every third, and keeps their outcomes."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": "killed",
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
            "log_level": 0,
        }
        self._producer = self._new_producer()
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.doubtful: set[int] = set()
        """Transactions whose outcome is unknown."""
        self.failure: BaseException | None = None

    def _new_producer(self) -> Producer:
        producer = Producer(self._settings)
        producer.init_transactions(RECOVERY_S_MAX)
        return producer

    def work(self, stop: threading.Event) -> None:
        number = 0
        try:
            while not stop.is_set():
                self._one(number)
                number += 1
        except BaseException as failure:  # shown by the test, in its own thread
            self.failure = failure
            raise

    def _one(self, number: int) -> None:
        producer = self._producer
        try:
            producer.begin_transaction()
            for index in range(RECORDS):
                producer.produce(TOPIC, str(number).encode(), partition=index % PARTITIONS)
            if number % 3 == 2:
                producer.abort_transaction(RECOVERY_S_MAX)
                self.aborted.add(number)
                return
            producer.flush(RECOVERY_S_MAX)
            self._commit(number)
        except KafkaException as problem:
            error = problem.args[0]
            if not error.txn_requires_abort():
                self.doubtful.add(number)
                self._producer = self._new_producer()
                return
            producer.abort_transaction(RECOVERY_S_MAX)
            self.aborted.add(number)

    def _commit(self, number: int) -> None:
        while True:
            try:
                self._producer.commit_transaction(RECOVERY_S_MAX)
            except KafkaException as problem:
                if problem.args[0].retriable():
                    continue
                raise
            self.committed.add(number)
            return


def reader(bootstrap: str, isolation: str = "read_committed") -> Consumer:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    return Consumer({**settings, "isolation.level": isolation})


def ends(bootstrap: str, isolation: str) -> list[int]:
    """The end offset of each partition at an isolation level."""
    consumer = reader(bootstrap, isolation)
    offsets_by_partition = []
    for index in range(PARTITIONS):
        offsets = consumer.get_watermark_offsets(TopicPartition(TOPIC, index), RECOVERY_S_MAX)
        assert offsets is not None
        offsets_by_partition.append(offsets[1])
    consumer.close()
    return offsets_by_partition


def read(bootstrap: str) -> Counter[int]:
    """How often a reader of committed records gets each transaction's number."""
    consumer = reader(bootstrap)
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    seen: Counter[int] = Counter()
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(RECOVERY_S_MAX)
        assert message is not None, "not within the time limit"
        error = message.error()
        if error is None:
            seen[int(message.value() or b"-1")] += 1
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return seen


def test_transactions_are_complete_or_absent_after_kills(
    broker: BrokerProcess, rng: random.Random
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(RECOVERY_S_MAX)
    transactions = Transactions(broker.bootstrap)
    stop = threading.Event()
    thread = threading.Thread(target=transactions.work, args=[stop])
    thread.start()
    for _ in range(ROUNDS):
        stop.wait(rng.uniform(*LIFE_S))
        broker.kill()
        broker.start()
    before = len(transactions.committed)
    while thread.is_alive() and len(transactions.committed) < before + 10:
        thread.join(0.05)  # the last broker must serve, too
    stop.set()
    thread.join(2 * RECOVERY_S_MAX)
    assert not thread.is_alive()
    assert transactions.failure is None
    uncommitted = ends(broker.bootstrap, "read_uncommitted")
    assert ends(broker.bootstrap, "read_committed") == uncommitted, "a transaction hangs"
    seen = read(broker.bootstrap)
    missing = {number for number in transactions.committed if seen[number] != RECORDS}
    assert not missing, f"committed, but not seen whole and once: {sorted(missing)}"
    assert not seen.keys() & transactions.aborted, "seen, though aborted"
    others = seen.keys() - transactions.committed
    assert others <= transactions.doubtful
    assert all(seen[number] == RECORDS for number in others), "in doubt, but half of it is seen"
