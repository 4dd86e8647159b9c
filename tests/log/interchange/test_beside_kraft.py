"""Directories that `kwire cluster adopt` gives to a controller, served by either broker."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
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
from kwire.client.cluster import TopicPartition as Place
from kwire.client.groups import commit_offsets, fetch_offsets
from kwire.client.topics import create_topic
from kwire.cluster.stores.kraft.records import decode_batches
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.security.authority import STANDARD
from kwire.testing import BrokerProcess, SharedClusterProcess
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
from tests.log.interchange.filling import SETTINGS, Filling, wait_until_cleaned
from tests.log.interchange.observed import Seen, differences, observe, observe_settled, without
from tests.log.interchange.soundness import complaints, verified
from tests.polling import until

pytestmark = pytest.mark.java


class AdoptedController(KafkaController):
    """A controller with the directory and the settings that the adoption writes."""

    def __init__(self, directory: Path, node_id: int = CONTROLLER_ID) -> None:
        self.node_id = node_id
        super().__init__(directory)
        self.settings = {}

    @property
    def place(self) -> str:
        """The controller as `kwire cluster adopt` names it."""
        return f"{self.node_id}@{self.bootstrap}={self.directory / 'data'}"

    def format(self) -> None:
        """Add the written settings to those of the test."""
        written = (self.directory / "data" / "controller.properties").read_text()
        with self._write_properties().open("a") as properties:
            properties.write(written)


@pytest.fixture
def controller(tmp_path: Path, apache_kafka_libs: Path) -> Iterator[AdoptedController]:
    made = AdoptedController(tmp_path / "controller")
    yield made
    made.stop()


def adopt(data_dir: Path, *controllers: AdoptedController) -> None:
    """Give the directory to the controllers, and start them."""
    adopt_all([data_dir], *controllers)


def adopt_all(log_dirs: Sequence[Path], *controllers: AdoptedController) -> None:
    """Give the log.dirs of a broker to the controllers, and start them."""
    named = [word for each in controllers for word in ("--kraft", each.place)]
    done = run_kwire("cluster", "adopt", *named, *map(str, log_dirs))
    assert done.returncode == 0, done.stderr
    for each in controllers:
        each.format()
        each.spawn()
    for each in controllers:
        each.wait_until_up()


def kwire_broker(
    root: Path,
    controller: KafkaController,
    broker_id: int = 1,
    log_dir: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> BrokerProcess:
    membership = {
        "process.roles": "broker",
        "node.id": str(broker_id),
        "log.dirs": str(log_dir or root / "data"),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        **controller.quorum,
    }
    return BrokerProcess(root, {**membership, **SETTINGS, **(settings or {})})


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
    by_kwire: Ours, controller: AdoptedController, tmp_path: Path
) -> None:
    root = tmp_path / "broker"
    data_dir = Path(shutil.copytree(by_kwire.data_dir, root / "data"))
    seen = without(by_kwire.seen, *CHANGED)
    adopt(data_dir, controller)
    with apache_broker(root, controller) as apache:
        assert differences(seen, without(observe(apache.bootstrap), *CHANGED)) == []
    assert complaints(apache.log_file.read_text()) == []
    assert verified(data_dir) == []


def test_both_brokers_continue_an_adopted_directory_in_turns(
    by_kwire: Ours, controller: AdoptedController, tmp_path: Path
) -> None:
    root = tmp_path / "broker"
    data_dir = Path(shutil.copytree(by_kwire.data_dir, root / "data"))
    adopt(data_dir, controller)
    seen = without(by_kwire.seen, *CHANGED)
    ours, theirs = kwire_broker(root, controller), apache_broker(root, controller)
    turns: list[BrokerProcess | KafkaBroker] = [ours, theirs, ours]
    for broker in turns:
        seen = continued(broker, data_dir, seen)
    assert complaints(theirs.log_file.read_text()) == []
    assert verified(data_dir) == []
    assert unclean_elections(data_dir) == []


@pytest.mark.long
def test_both_brokers_continue_a_directory_of_apache_kafka_in_turns(
    apache_kafka_libs: Path, tmp_path: Path, rounds: int
) -> None:
    root, controller = tmp_path / "broker", KafkaController(tmp_path / "controller")
    with controller:
        continue_in_turns(root, controller, rounds)
    assert verified(root / "data") == []
    assert unclean_elections(root / "data") == []


def continue_in_turns(root: Path, controller: KafkaController, rounds: int) -> None:
    """Let Apache Kafka write first."""
    ours, theirs = kwire_broker(root, controller), apache_broker(root, controller)
    with theirs:
        filling = Filling(theirs.bootstrap, rounds)
        filling.create_topics()
        filling.write(0)
        filling.write(1)
        seen = without(observe(theirs.bootstrap), *CHANGED)
    turns: list[BrokerProcess | KafkaBroker] = [ours, theirs, ours]
    for broker in turns:
        seen = continued(broker, root / "data", seen)
    assert complaints(theirs.log_file.read_text()) == []


def changes_of_partitions(data_dir: Path) -> list[PartitionChangeRecord]:
    """The changes of partitions in the metadata log of a broker."""
    return [
        record
        for path in sorted((data_dir / "__cluster_metadata-0").glob("*.log"))
        for batch in decode_batches(path.read_bytes())
        for record in batch.records
        if isinstance(record, PartitionChangeRecord)
    ]


def unclean_elections(data_dir: Path) -> list[PartitionChangeRecord]:
    """The elections of leaders that were not eligible."""
    return [each for each in changes_of_partitions(data_dir) if each.leader_recovery_state == 1]


def continued(broker: BrokerProcess | KafkaBroker, data_dir: Path, seen: Seen) -> Seen:
    """Check that clients of this broker see what they saw, and write more; return what they see
    when the cleaner has done its work, which would change it later."""
    with broker:
        assert differences(seen, without(observe(broker.bootstrap), *CHANGED)) == []
        Filling(broker.bootstrap, 1).write(0)
        wait_until_cleaned(data_dir)
        return without(observe_settled(broker.bootstrap), *CHANGED)


@pytest.mark.long
def test_apache_kafka_node_is_split_into_controller_and_broker(
    by_apache: Written, controller: AdoptedController, tmp_path: Path
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
def test_three_controllers_elect_one_of_them(controller: AdoptedController, tmp_path: Path) -> None:
    """The quorum goes on when the leader is killed."""
    single = BrokerProcess(tmp_path / "broker", {"node.id": "1", **SETTINGS})
    with single, Cluster(single.bootstrap, timeout_s=240) as cluster:
        create_topic(cluster, TOPIC, partitions=1)
        produced = produced_to(single.bootstrap)
    controllers = [
        controller,
        *(AdoptedController(tmp_path / f"c-{number}", number) for number in (101, 102)),
    ]
    with ExitStack() as started:
        for each in controllers:
            started.callback(each.stop)
        adopt(single.data_dir, *controllers)
        quorum = ",".join(each.bootstrap for each in controllers)
        settings = {"controller.quorum.bootstrap.servers": quorum}
        apache = started.enter_context(apache_broker(single.directory, controller, 1, settings))
        assert consumed_from(apache.bootstrap) == produced
        cluster = started.enter_context(Cluster(apache.bootstrap, timeout_s=240))
        before = quorum_of(cluster)
        assert {voter.replica_id for voter in before.current_voters} == {100, 101, 102}
        controllers[before.leader_id - 100].kill()
        until(lambda: quorum_of(cluster).leader_id not in (before.leader_id, -1), "no new leader")
        create_topic(cluster, "after-the-election", partitions=1)


def quorum_of(cluster: Cluster) -> ResponsePartitionData:
    """The answer to DescribeQuorum; the leader is -1 while there is none."""
    topic = RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])
    answer = cluster.any().call(DescribeQuorumRequest([topic]))
    if answer.error_code:
        return ResponsePartitionData(leader_id=-1)
    (found,) = answer.topics[0].partitions
    assert isinstance(found, ResponsePartitionData)
    return found


@pytest.mark.long
def test_killed_broker_loses_no_record_by_the_adoption(
    controller: AdoptedController, tmp_path: Path
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
    assert unclean_elections(single.data_dir), "the last known leader is elected"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["k", "a"])
def test_replicas_stay_in_their_log_directories(
    kind: str, controller: AdoptedController, tmp_path: Path
) -> None:
    root = tmp_path / "broker"
    both = {"log.dirs": f"{root / 'data'},{root / 'more'}"}
    single = BrokerProcess(root, {"node.id": "1", **SETTINGS, **both})
    with single, Cluster(single.bootstrap, timeout_s=240) as cluster:
        create_topic(cluster, TOPIC, partitions=4)
        topic_id = cluster.topic(TOPIC).topic_id
        produced = produced_to(single.bootstrap)
    before = [sorted(path.name for path in each.glob(f"{TOPIC}-*")) for each in log_dirs_of(root)]
    assert all(before)
    adopt_all(log_dirs_of(root), controller)
    broker: BrokerProcess | KafkaBroker = (
        kwire_broker(root, controller, settings=both)
        if kind == "k"
        else apache_broker(root, controller, 1, both)
    )
    with broker:
        assert consumed_from(broker.bootstrap) == produced
    after = [sorted(path.name for path in each.glob(f"{TOPIC}-*")) for each in log_dirs_of(root)]
    assert after == before
    changes = [each for each in changes_of_partitions(root / "data") if each.topic_id == topic_id]
    assert changes, "each partition gets a leader"
    assert [each.directories for each in changes] == [None] * len(changes)


def log_dirs_of(root: Path) -> list[Path]:
    return [root / "data", root / "more"]


@pytest.mark.parametrize("kinds", ["k", pytest.param("aka", marks=pytest.mark.long)])
def test_users_quotas_and_access_rules_are_there_after_the_adoption(
    kinds: str, controller: AdoptedController, tmp_path: Path
) -> None:
    """On brokers of these kinds, one after the other: kwire's and Apache Kafka's."""
    access = {"authorizer.class.name": STANDARD, **SUPER_USERS}
    controller.settings |= access
    single = BrokerProcess(tmp_path / "broker", {"node.id": "7", **access})
    with single, Cluster(single.bootstrap, timeout_s=240) as cluster:
        fill(cluster)
        before, ends_before = observed(cluster), ends(cluster)
    adopt(single.data_dir, controller)
    brokers: dict[str, BrokerProcess | KafkaBroker] = {
        "k": kwire_broker(single.directory, controller, 7, settings=access),
        "a": apache_broker(single.directory, controller, 7, access),
    }
    for more, kind in enumerate(kinds, 1):
        broker = brokers[kind]
        with broker, Cluster(broker.bootstrap, timeout_s=240) as cluster:
            assert observed(cluster) == before
            assert transaction_level(cluster) == 1
            produce(cluster)
            assert {end - more for end in ends(cluster)} == ends_before


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [False, True])
def test_three_brokers_of_one_machine_go_on_beside_the_controller(
    controller: AdoptedController, tmp_path: Path, *, is_killed: bool
) -> None:
    """Two stay kwire's, and the third becomes Apache Kafka's."""
    before = SharedClusterProcess(tmp_path / "cluster", 3)
    with before, Cluster(before.bootstrap, timeout_s=240) as cluster:
        create_topic(cluster, TOPIC, partitions=3, replication_factor=3)
        produced = produced_to(before.bootstrap)
        commit_offsets(cluster, "g", {Place(TOPIC, 0): 7})
        topic_id = cluster.topic(TOPIC).topic_id
        if is_killed:
            before.kill()
    adopt(before.data_dir, controller)
    folders = {number: before.data_dir / f"broker-{number}" for number in (1, 2, 3)}
    with ExitStack() as running:
        brokers: list[BrokerProcess | KafkaBroker] = [
            running.enter_context(kwire_broker(tmp_path / "1", controller, 1, folders[1])),
            running.enter_context(kwire_broker(tmp_path / "2", controller, 2, folders[2])),
            running.enter_context(apache_broker(placed(tmp_path / "3", folders[3]), controller, 3)),
        ]
        bootstrap = ",".join(broker.bootstrap for broker in brokers)
        cluster = running.enter_context(Cluster(bootstrap, timeout_s=240))
        assert cluster.topic(TOPIC).topic_id == topic_id
        assert consumed_from(bootstrap, RECORDS) == produced
        assert fetch_offsets(cluster, "g")[Place(TOPIC, 0)].offset == 7
        until(lambda: all_in_sync(cluster), "some replica is not in sync")
        again = produced_to(bootstrap)
        assert consumed_from(bootstrap, 2 * RECORDS) == [*produced, *again]


def placed(root: Path, log_dir: Path) -> Path:
    """The folder of a broker whose log directory is elsewhere."""
    root.mkdir()
    (root / "data").symlink_to(log_dir)
    return root


def all_in_sync(cluster: Cluster) -> bool:
    return all(len(each.isr_nodes) == 3 for each in cluster.topic(TOPIC).partitions)


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


def consumed_from(bootstrap: str, count: int = RECORDS) -> list[bytes]:
    """The first records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "any"})
    consumer.assign([Assigned(TOPIC, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    deadline = time.monotonic() + 240
    while len(found) < count and time.monotonic() < deadline:
        found += [value_of(each) for each in consumer.consume(count, 1.0) if not each.error()]
    consumer.close()
    return found


def value_of(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value
