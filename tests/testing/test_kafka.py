"""`kwire.testing.Kafka`: a broker that tests share, fresh when one wants it so."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kwire.client.fetcher import ConsumedRecord
from kwire.testing import BrokerStartError, Kafka, Record
from kwire.testing.hosting.ending import process_exists

pytestmark = pytest.mark.slow  # each starts a process, or uses one that was started


@pytest.fixture(scope="module")
def one() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


def produce(kafka: Kafka, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_reset_broker_has_nothing_of_the_one_before(one: Kafka) -> None:
    one.create_topic("t", partitions=3)
    produce(one, "t", b"before")
    commit(one, "g", "t")
    before, folder = one.pid, one.data_dir
    one.reset()
    assert one.topics() == []
    assert one.lag("g") == {}
    assert one.pid != before
    produce(one, "t", b"after")
    one.topic("t").assert_holds(["after"])
    deadline = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def commit(kafka: Kafka, group: str, topic: str, offset: int = 1) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_killed_broker_starts_again_with_its_data(one: Kafka) -> None:
    one.reset()
    produce(one, "t", b"kept")
    assert one.kill() == -9
    with pytest.raises(BrokerStartError, match="status -9"):
        _ = one.pid
    one.start()
    assert one.running
    one.topic("t").assert_holds(["kept"])
    assert one.shut_down() == 0
    one.start()
    one.topic("t").assert_holds(["kept"])


def test_wait_until_consumed_returns_once_the_group_has_committed_all(one: Kafka) -> None:
    one.reset()
    topic = one.create_topic("t", partitions=2)
    topic.seed([Record(n, partition=n % 2) for n in range(6)])
    with pytest.raises(TimeoutError, match="group g has committed nothing"):
        one.wait_until_consumed("g", timeout_s=0)
    commit(one, "g", "t", offset=2)
    assert one.lag("g") == {"t": 4}
    with pytest.raises(TimeoutError, match="group g has not committed 4 records of t and all of u"):
        one.wait_until_consumed("g", topic, "u", timeout_s=0)

    def read() -> None:
        settings = {"bootstrap.servers": one.bootstrap, "group.id": "g"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        for _ in range(4):
            while consumer.poll(1) is None:
                pass
        consumer.commit(asynchronous=False)
        consumer.close()

    reader = threading.Thread(target=read)
    reader.start()
    one.wait_until_consumed("g", timeout_s=120)
    reader.join()
    assert one.lag("g") == {"t": 0}


def test_log_since_returns_the_log_from_a_position_on(one: Kafka) -> None:
    size = one.log_size_bytes
    assert size == len(one.log.encode())
    one.reset()
    assert one.log_since(size).count("is ready") == 1


def test_kafka_uses_the_given_settings_and_port() -> None:
    with Kafka({"num.partitions": "4"}) as kafka:
        assert kafka.bootstrap == f"127.0.0.1:{kafka.port}"
        produce(kafka, "t", b"v")
        kafka.reset()
        produce(kafka, "t", b"v")
        found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=60)
        assert len(found.topics["t"].partitions) == 4


def test_failed_start_reports_the_log_and_leaves_no_folder() -> None:
    kafka = Kafka({"num.partitions": "many"})
    with pytest.raises(BrokerStartError, match=r"num\.partitions"):
        kafka.start()
    assert not kafka.running
    assert kafka.log == ""
    kafka.stop()


def test_kafka_works_as_async_context_manager_on_asyncio() -> None:
    async def test() -> None:
        async with Kafka() as kafka:
            kafka.topic("t").seed(["v"])
            found, _ = await asyncio.gather(
                kafka.off_loop(kafka.topic("t").wait_for, 2, timeout_s=60),
                kafka.off_loop(kafka.topic("t").seed, ["w"]),
            )
            assert [record.value for record in found] == [b"v", b"w"]

    asyncio.run(test())


def test_kafka_works_as_async_context_manager_on_trio() -> None:
    async def test() -> None:
        async with Kafka() as kafka, trio.open_nursery() as nursery:
            nursery.start_soon(kafka.off_loop, lambda: kafka.topic("t").seed(["v"]))
            found = await kafka.off_loop(lambda: arrived(kafka))
            assert [record.value for record in found] == [b"v"]

    trio.run(test)


def arrived(kafka: Kafka) -> list[ConsumedRecord]:
    while "t" not in kafka.topics():
        time.sleep(0.01)
    return kafka.topic("t").wait_for(1, timeout_s=60)


PARENT = """
import os, sys, time
from kwire.testing import Kafka

kafka = Kafka()
kafka.start()
kafka.reset()
if os.fork() == 0:
    time.sleep(600)
print(kafka.pid, kafka.data_dir.parent, os.getpid(), flush=True)
time.sleep(600)
"""


def test_killed_test_process_leaves_no_broker_and_no_folder() -> None:
    """Although a process that was forked from it lives on."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        pid, folder, _ = parent.stdout.readline().split()
        try:
            assert Path(os.fsdecode(folder)).exists()
            parent.kill()
            parent.wait()
            deadline = time.monotonic() + 60
            while process_exists(int(pid)) or Path(os.fsdecode(folder)).exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)
