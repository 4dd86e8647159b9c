"""Directories that `kwire cluster adopt` gives to a controller, served by either broker."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Assigned

from kwire.client.cluster import Cluster
from kwire.client.topics import create_topic
from kwire.security.authority import STANDARD
from kwire.testing import BrokerProcess
from tests.cli.test_adopt import (
    SUPER_USERS,
    ends,
    fill,
    observed,
    produce,
    transaction_level,
)
from tests.cluster.stores.kraft.real_controller import (
    CONTROLLER_ID,
    KafkaBroker,
    KafkaController,
)
from tests.commands.forked import run_kwire
from tests.log.interchange.conftest import Ours, Written
from tests.log.interchange.filling import SETTINGS
from tests.log.interchange.observed import differences, observe, without
from tests.log.interchange.soundness import complaints, verified

pytestmark = pytest.mark.java


@pytest.fixture
def controller(tmp_path: Path, apache_kafka_libs: Path) -> Iterator[KafkaController]:
    """A controller whose directory the adoption writes."""
    made = KafkaController(tmp_path / "controller")
    yield made
    made.stop()


def adopt(data_dir: Path, controller: KafkaController) -> None:
    """Give the directory to the controller, and start that."""
    place = f"{CONTROLLER_ID}@{controller.bootstrap}={controller.directory / 'data'}"
    done = run_kwire("cluster", "adopt", "--kraft", place, str(data_dir))
    assert done.returncode == 0, done.stderr
    controller.start()


def apache_broker(
    root: Path,
    controller: KafkaController,
    broker_id: int = 1,
    settings: Mapping[str, str] | None = None,
) -> KafkaBroker:
    more = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    return KafkaBroker(
        root, broker_id, controller, settings={**SETTINGS, **more, **(settings or {})}
    )


CHANGED = (" epochs",)
"""The leaders are elected in a later epoch."""


@pytest.mark.long
def test_clients_see_the_same_data_on_apache_kafka_after_the_adoption(
    by_kwire: Ours, controller: KafkaController, tmp_path: Path
) -> None:
    root = tmp_path / "broker"
    data_dir = Path(shutil.copytree(by_kwire.data_dir, root / "data"))
    seen = without(by_kwire.seen, *CHANGED)
    adopt(data_dir, controller)
    with apache_broker(root, controller) as apache:
        assert differences(seen, without(observe(apache.bootstrap), *CHANGED)) == []
    assert complaints(apache.log_file.read_text()) == []
    assert verified(data_dir) == []


@pytest.mark.long
def test_apache_kafka_node_is_split_into_controller_and_broker(
    by_apache: Written, controller: KafkaController, tmp_path: Path
) -> None:
    root = tmp_path / "broker"
    data_dir = Path(shutil.copytree(by_apache.stopped / "data", root / "data"))
    seen = without(by_apache.seen, *CHANGED)
    adopt(data_dir, controller)
    with apache_broker(root, controller) as apache:
        assert differences(seen, without(observe(apache.bootstrap), *CHANGED)) == []
    assert complaints(apache.log_file.read_text()) == []
    assert verified(data_dir) == []


@pytest.mark.long
def test_killed_broker_loses_no_record_by_the_adoption(
    controller: KafkaController, tmp_path: Path
) -> None:
    single = BrokerProcess(tmp_path / "broker", {"node.id": "1", **SETTINGS})
    single.start()
    with Cluster(single.bootstrap, timeout_s=240) as cluster:
        create_topic(cluster, TOPIC, partitions=1)
    produced = produced_to(single.bootstrap)
    single.kill()
    adopt(single.data_dir, controller)
    with apache_broker(single.directory, controller) as apache:
        assert consumed_from(apache.bootstrap) == produced


def test_users_quotas_and_access_rules_are_there_after_the_adoption(
    controller: KafkaController, tmp_path: Path
) -> None:
    access = {"authorizer.class.name": STANDARD, **SUPER_USERS}
    controller.settings |= access
    single = BrokerProcess(tmp_path / "broker", {"node.id": "7", **access})
    with single, Cluster(single.bootstrap, timeout_s=240) as cluster:
        fill(cluster)
        before, ends_before = observed(cluster), ends(cluster)
    adopt(single.data_dir, controller)
    with (
        apache_broker(single.directory, controller, 7, access) as apache,
        Cluster(apache.bootstrap, timeout_s=240) as cluster,
    ):
        assert observed(cluster) == before
        assert transaction_level(cluster) == 1
        produce(cluster)
        assert {end - 1 for end in ends(cluster)} == ends_before


TOPIC, RECORDS = "records", 200


def produced_to(bootstrap: str) -> list[bytes]:
    """Write to partition 0 with acks=all; return what was acknowledged, in its order."""
    values = [b"%d" % number for number in range(RECORDS)]
    acknowledged: list[bytes] = []

    def noted(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(value_of(message))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(TOPIC, value, partition=0, on_delivery=noted)
    assert producer.flush(240) == 0
    assert acknowledged == values
    return values


def consumed_from(bootstrap: str) -> list[bytes]:
    """The records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "any"})
    consumer.assign([Assigned(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + 240
    while len(found) < RECORDS and time.monotonic() < deadline:
        found += [value_of(each) for each in consumer.consume(RECORDS, 1.0) if not each.error()]
    consumer.close()
    return found


def value_of(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value
