"""Snapshots, forks and restores of a whole broker, as tests and stock clients see them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kwire.testing import ControlError, Kafka, Record, Snapshot
from kwire.testing.hooks.snapshots.kept import SnapshotError

pytestmark = pytest.mark.slow
WAIT_S = 120
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Kafka]:
    with Kafka(AUTHORIZED) as broker:
        yield broker


@pytest.fixture
def kafka(shared: Kafka) -> Kafka:
    shared.reset()
    return shared


def transactional(kafka: Kafka, name: str) -> Producer:
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": name}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(WAIT_S)
    return producer


def commit(kafka: Kafka, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def values(kafka: Kafka, topic: str, *, committed: bool = False) -> list[bytes | None]:
    return [record.value for record in kafka.topic(topic).records(committed=committed)]


def test_snapshot_has_everything_that_the_broker_holds(kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = kafka.create_topic("orders", partitions=3, configs={"retention.ms": "123456"})
    topic.seed([Record(n, key="k", partition=n % 3) for n in range(9)])
    commit(kafka, "billing", "orders", 2)
    rule = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    (added,) = admin.create_acls([rule]).values()
    added.result(WAIT_S)
    password = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", password, b"secret")
    (changed,) = admin.alter_user_scram_credentials([change]).values()
    changed.result(WAIT_S)
    open_one = transactional(kafka, "billing")
    open_one.begin_transaction()
    open_one.produce("orders", b"open", partition=0)
    assert open_one.flush(WAIT_S) == 0

    with kafka.fork() as fork:
        asked = AdminClient({"bootstrap.servers": fork.bootstrap})
        assert values(fork, "orders") == values(kafka, "orders")
        assert b"open" not in values(fork, "orders", committed=True)
        assert fork.lag("billing") == kafka.lag("billing")
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None,  # type: ignore[arg-type]  # any
            AclOperation.ANY, AclPermissionType.ANY,
        )  # fmt: skip
        assert asked.describe_acls(everything).result(WAIT_S) == [rule]
        found = asked.describe_user_scram_credentials(["alice"])
        assert isinstance(found, dict)
        assert found["alice"].result(WAIT_S).scram_credential_infos[0].iterations == 4096
        (configs,) = asked.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, "orders")]
        ).values()
        assert configs.result(WAIT_S)["retention.ms"].value == "123456"
        # The producer of the same id goes on where that one was: its transaction is aborted here,
        transactional(fork, "billing")
        kafka.topic("orders").assert_holds([*range(9)], committed=True, in_order=False)
        fork.topic("orders").seed([Record("after", partition=0)])
        held = [*range(9), "after"]
        fork.topic("orders").assert_holds(held, committed=True, in_order=False, within_s=WAIT_S)
        # and goes on there.
        open_one.commit_transaction(WAIT_S)
        held = [*range(9), "open"]
        kafka.topic("orders").assert_holds(held, committed=True, in_order=False, within_s=WAIT_S)


def test_forks_do_not_see_each_others_changes(kafka: Kafka) -> None:
    kafka.create_topic("t").seed(["seeded"])
    with kafka.snapshot() as seeded, kafka.fork(seeded) as one, kafka.fork(seeded) as other:
        assert len({kafka.port, one.port, other.port}) == 3
        one.topic("t").seed(["one"])
        other.create_topic("u").seed(["other"])
        kafka.topic("t").seed(["first"])
        one.topic("t").assert_holds(["seeded", "one"])
        other.topic("t").assert_holds(["seeded"])
        kafka.topic("t").assert_holds(["seeded", "first"])
        assert (kafka.topics(), one.topics()) == (["t"], ["t"])
        assert sorted(other.topics()) == ["t", "u"]
        one.faults.add(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER")
        assert kafka.faults.happened == []
        assert one.kill() == -9
        one.start()
        one.topic("t").assert_holds(["seeded", "one"])
        one.reset()
        one.topic("t").assert_holds(["seeded"])
    assert not one.running
    kafka.topic("t").assert_holds(["seeded", "first"])


def test_killed_broker_is_restored_from_a_snapshot(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("t").seed(["before"])
    taken = kafka.snapshot(tmp_path / "taken")
    kafka.topic("t").seed(["after"])
    kafka.create_topic("u")
    assert kafka.kill() == -9
    kafka.restore(taken)
    assert kafka.topics() == ["t"]
    kafka.topic("t").assert_holds(["before"])
    kafka.topic("t").seed(["again"])
    kafka.restore(tmp_path / "taken")
    kafka.topic("t").assert_holds(["before"])
    kafka.reset()
    assert kafka.topics() == []


def test_snapshot_outlives_its_broker(tmp_path: Path) -> None:
    with Kafka({"log.segment.bytes": "1048576"}) as kafka:
        kafka.create_topic("t").seed([b"x" * 400_000] * 6)
        kafka.clock.advance(hours=5)
        taken = kafka.snapshot()
        kept = kafka.snapshot(tmp_path / "kept")
        now_ms = kafka.clock.now_ms
    with Kafka(snapshot=taken) as again:
        again.topic("t").assert_holds([b"x" * 400_000] * 6)
        assert again.clock.now_ms >= now_ms, "its time goes on from there"
        again.reset()
        again.topic("t").assert_holds([b"x" * 400_000] * 6)
    taken.remove()
    with pytest.raises(SnapshotError, match="is not a snapshot"):
        Kafka(snapshot=taken.path)
    assert kept.size_bytes > 2_400_000
    with Kafka(snapshot=kept) as again:
        assert len(values(again, "t")) == 6


def test_temporary_snapshot_is_removed_with_its_object(kafka: Kafka) -> None:
    taken = kafka.snapshot()
    folder = taken.path.parent
    assert folder.exists()
    del taken
    assert not folder.exists()


class Load:
    """Transactions over two topics, and plain records in a third, until the block ends."""

    def __init__(self, kafka: Kafka) -> None:
        for name in ("a", "b", "plain"):
            kafka.create_topic(name)
        self._kafka = kafka
        self._stop = threading.Event()
        self.committed = 0
        """How many transactions were committed for certain."""
        self.acknowledged: list[int] = []
        self._writers = [threading.Thread(target=each) for each in (self._transact, self._produce)]

    def __enter__(self) -> Load:
        for each in self._writers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._writers:
            each.join()

    def _transact(self) -> None:
        producer = transactional(self._kafka, "t")
        while not self._stop.is_set():
            producer.begin_transaction()
            for topic in ("a", "b"):
                producer.produce(topic, b"%d" % self.committed + b"." * 300)
            producer.commit_transaction(WAIT_S)
            self.committed += 1

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap, "linger.ms": 1})
        number = 0
        while not self._stop.is_set():
            value = b"%d" % number + b"." * 2000
            producer.produce("plain", value, on_delivery=partial(self._told, number))
            number += 1
            producer.poll(0.001)
        assert producer.flush(WAIT_S) == 0

    def _told(self, number: int, error: KafkaError | None, _: object) -> None:
        assert error is None
        self.acknowledged.append(number)


def numbers(kafka: Kafka, topic: str, *, committed: bool = False) -> list[int]:
    return [int(each.split(b".")[0]) for each in values(kafka, topic, committed=committed) if each]


def test_snapshot_under_load_has_no_torn_batch() -> None:
    """Who was told that a record is there finds it, and of transactions over two topics each is
    there whole or not at all."""
    taken: list[tuple[int, int, Snapshot]] = []
    with Kafka({"log.segment.bytes": "1048576"}) as kafka:
        with Load(kafka) as load:
            deadline = time.monotonic() + 5 * WAIT_S
            while len(taken) < 4:
                enough = load.committed + 15
                while load.committed < enough:
                    assert time.monotonic() < deadline
                    time.sleep(0.002)
                promised = load.committed, len(load.acknowledged)
                taken.append((*promised, kafka.snapshot()))
        for transactions, records, snapshot in taken:
            with kafka.fork(snapshot) as fork:
                transactional(fork, "t")  # what was open is aborted, and what was decided done
                a, b = (numbers(fork, name, committed=True) for name in ("a", "b"))
                plain = numbers(fork, "plain")
            assert a == b == list(range(len(a)))
            assert len(a) >= transactions
            assert plain == list(range(len(plain)))
            assert set(plain) >= set(load.acknowledged[:records])


def test_impossible_snapshot_is_refused_with_a_reason(kafka: Kafka, tmp_path: Path) -> None:
    kafka.snapshot(tmp_path / "a")
    with pytest.raises(ControlError, match="there is a snapshot 'a' already"):
        kafka.snapshot(tmp_path / "a")
    with pytest.raises(ControlError, match="is not a valid name"):
        kafka.snapshot(tmp_path / "a b")
    with pytest.raises(SnapshotError, match="is not a snapshot"):
        kafka.restore(tmp_path)
    with pytest.raises(SnapshotError, match="is not a snapshot"):
        kafka.fork(tmp_path / "missing")
    own = Kafka({"listeners": "PLAINTEXT://127.0.0.1:29092"})
    with pytest.raises(SnapshotError, match="whose settings contain listeners"):
        own.fork(tmp_path / "a")


def test_fork_ends_with_its_broker(tmp_path: Path) -> None:
    kafka = Kafka()
    with kafka:
        kept = kafka.snapshot(tmp_path / "kept")
        fork = kafka.fork(kept)
        fork.start()
    assert not fork.running
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": fork.bootstrap, "log_level": 0}).list_topics(timeout=1)
    fork.stop()
