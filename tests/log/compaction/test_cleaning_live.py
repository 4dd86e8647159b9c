"""A broker compacts its topics under load, and after kills and restarts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import BrokerProcess

BrokerFactory = Callable[..., BrokerProcess]

pytestmark = pytest.mark.slow

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "1048576"}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
WAIT_S = 300


def create_topic(broker: BrokerProcess, name: str, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic(name, 1, config={**TOPIC_CONFIG, **(config or {})})])
    made[name].result(120)


def produce(broker: BrokerProcess, topic: str, first: int, count: int, keys: int) -> None:
    """Produce records with the key (number % keys) and a kilobyte that begins with the number."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, key=b"%d" % (number % keys), value=b"%-1000d" % number)
        producer.poll(0)
    assert producer.flush(60) == 0


def consume(broker: BrokerProcess, topic: str) -> dict[bytes, int]:
    """Read to the end, checking that offsets grow; the last value of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[bytes, int] = {}
    offset = -1
    while True:
        message = consumer.poll(120)
        assert message is not None, "the consumer got stuck"
        if message.error():
            consumer.close()
            return found
        at, key, value = message.offset(), message.key(), message.value()
        assert at is not None
        assert at > offset
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        offset = at
        found[key] = int(value)


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline, "the cleaner did not get there"
        time.sleep(0.05)  # another process' file; there is no event to wait for


def log_bytes(broker: BrokerProcess, topic: str) -> int:
    folder = broker.data_dir / f"{topic}-0"
    sizes_bytes = []
    for path in folder.glob("*.log"):
        with suppress(FileNotFoundError):  # the cleaner has put another in its place
            sizes_bytes.append(path.stat().st_size)
    return sum(sizes_bytes)


def cleaned_to(broker: BrokerProcess, topic: str) -> int:
    """The offset in `cleaner-offset-checkpoint`."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    found = dict(line.rsplit(" ", 1) for line in lines)
    return int(found.get(f"{topic} 0", 0))


def workers_of(broker: BrokerProcess) -> list[int]:
    """The cleaning processes that the broker has started."""
    listed = Path(f"/proc/{broker.pid}/task").glob("*/children")
    children = [int(pid) for path in listed for pid in content_of(path).split()]
    return [
        pid
        for pid in children
        if b"kwire.log.compaction.worker" in content_of(Path(f"/proc/{pid}/cmdline"))
    ]


def content_of(path: Path) -> bytes:
    """The content of a file in /proc; empty once its process or thread has ended."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_compacted_topic_keeps_the_last_value_of_each_key(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS)
    create_topic(broker, "t")
    assert workers_of(broker) == [], "no process before there is something to clean"
    produce(broker, "t", 0, 10_000, keys=50)
    wait_for(lambda: cleaned_to(broker, "t") > 8000)
    assert log_bytes(broker, "t") < 3 << 20
    assert len(workers_of(broker)) == 1
    assert consume(broker, "t") == {b"%d" % (n % 50): n for n in range(9950, 10_000)}
    produce(broker, "t", 10_000, 5000, keys=50)
    before = cleaned_to(broker, "t")
    wait_for(lambda: cleaned_to(broker, "t") > before)
    last = {b"%d" % (n % 50): n for n in range(14_950, 15_000)}
    assert consume(broker, "t") == last
    broker.restart()
    assert cleaned_to(broker, "t") > before
    assert consume(broker, "t") == last


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_killed_worker_is_replaced_and_the_new_one_ends_with_the_broker(
    broker_factory: BrokerFactory,
) -> None:
    slow = {"log.cleaner.io.max.bytes.per.second": "3000000"}
    broker = broker_factory(SETTINGS | slow)
    create_topic(broker, "t")
    produce(broker, "t", 0, 10_000, keys=50)
    wait_for(lambda: len(workers_of(broker)) == 1)
    [victim] = workers_of(broker)
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: workers_of(broker) not in ([], [victim]))
    [second] = workers_of(broker)
    broker.kill()
    wait_for(lambda: not Path(f"/proc/{second}").exists())
    broker.start()
    assert consume(broker, "t") == {b"%d" % (n % 50): n for n in range(9950, 10_000)}
    wait_for(lambda: cleaned_to(broker, "t") > 8000)
    assert consume(broker, "t") == {b"%d" % (n % 50): n for n in range(9950, 10_000)}


def test_committed_offsets_survive_compaction_and_a_restart(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(
        SETTINGS
        | {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1048576"}
        | {"log.cleaner.min.cleanable.ratio": "0.01"}
    )
    create_topic(broker, "t")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    for number in range(12_000):
        consumer.commit(
            offsets=[TopicPartition("t", 0, number, metadata="m" * 1000)], asynchronous=False
        )
        if number % 500 == 0 and cleaned_to(broker, "__consumer_offsets") > 0:
            break
    last = number
    wait_for(lambda: cleaned_to(broker, "__consumer_offsets") > 0)
    consumer.close()
    broker.restart()
    again = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    [committed] = again.committed([TopicPartition("t", 0)], timeout=120)
    again.close()
    assert committed.offset == last


def test_transaction_states_survive_compaction_and_a_restart(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(
        SETTINGS
        | {
            "transaction.state.log.num.partitions": "1",
            "log.roll.ms": "50",
            "log.cleaner.min.cleanable.ratio": "0.01",
        }
    )
    create_topic(broker, "t")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions(30)
    for number in range(40):
        producer.begin_transaction()
        producer.produce("t", key=b"k", value=b"%d" % number)
        producer.commit_transaction(30)
    wait_for(lambda: cleaned_to(broker, "__transaction_state") > 0)
    broker.restart()
    assert consume(broker, "t") == {b"k": 39}
    again = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    again.init_transactions(30)
    again.begin_transaction()
    again.produce("t", key=b"k", value=b"40")
    again.commit_transaction(30)
    assert consume(broker, "t") == {b"k": 40}
