"""kwire follows the logs of a directory that Apache Kafka with ZooKeeper used for a while."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kwire.conformance.pytest_apache import libs_or_skip
from kwire.testing import BrokerProcess
from tests.conftest import finish
from tests.log.interchange import zookeeper_mode
from tests.log.interchange.filling import WAIT_S
from tests.log.interchange.observed import partition_ends
from tests.polling import until


@pytest.mark.java
@pytest.mark.long
def test_changes_by_apache_kafka_with_zookeeper_are_followed(tmp_path: Path) -> None:
    libs_or_skip(zookeeper_mode.VERSION)
    settings = {"node.id": "1", "auto.create.topics.enable": "false"}
    broker = BrokerProcess(tmp_path / "kwire", settings)
    broker.start()
    create(broker.bootstrap, {"codecs": 2, "gone": 1, "again": 1})
    for topic in ("codecs", "gone", "again"):
        send(broker.bootstrap, topic, 0, 5)
    finish(broker)
    nodes = zookeeper_mode.take_metadata(broker.data_dir)
    with zookeeper_mode.running(broker.data_dir, nodes, tmp_path / "apache") as bootstrap:
        until(
            lambda: set(partition_ends(bootstrap)) == ends_of({"codecs": 2, "gone": 1, "again": 1}),
            "no leaders",
        )
        for _ in range(3):  # producers of their own: ids that nobody here may have
            send(bootstrap, "codecs", 0, 4)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        for done in admin.delete_topics(["gone", "again"]).values():
            done.result(WAIT_S)
        until(lambda: set(partition_ends(bootstrap)) == ends_of({"codecs": 2}), "not deleted")
        create(bootstrap, {"there": 2, "again": 2})
        (grown,) = admin.create_partitions([NewPartitions("codecs", 3)]).values()
        grown.result(WAIT_S)
        wanted = ends_of({"codecs": 3, "there": 2, "again": 2})
        until(lambda: set(partition_ends(bootstrap)) == wanted, "not made")
        send(bootstrap, "there", 1, 6)
        send(bootstrap, "codecs", 2, 2)
        send(bootstrap, "again", 1, 1)
        ends = partition_ends(bootstrap)
    assert ends["codecs", 0] == 17
    broker.start()
    try:
        assert partition_ends(broker.bootstrap) == ends
        send(broker.bootstrap, "there", 1, 1)
    finally:
        finish(broker)
    assert "topic gone was deleted" in broker.log
    assert (broker.data_dir / "meta.properties").read_text().startswith("version=0")


def create(bootstrap: str, topics: dict[str, int]) -> None:
    """Create a topic; repeat while one of that name is still being deleted."""
    for name, count in topics.items():
        new = NewTopic(name, count, 1)
        until(partial(is_made, bootstrap, new), f"{name} is never deleted")


def is_made(bootstrap: str, new: NewTopic) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (made,) = admin.create_topics([new]).values()
    try:
        made.result(WAIT_S)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def ends_of(topics: dict[str, int]) -> set[tuple[str, int]]:
    return {(name, index) for name, count in topics.items() for index in range(count)}


def send(bootstrap: str, topic: str, partition: int, count: int) -> None:
    """Send records with a new idempotent producer."""
    failed: list[object] = []
    config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    producer = Producer(config)
    for number in range(count):
        producer.produce(
            topic,
            b"%d" % number,
            partition=partition,
            on_delivery=lambda error, message: failed.append(error) if error else None,
        )
    assert (producer.flush(WAIT_S), failed) == (0, [])
