"""Tests when a transactional id needs a new producer after an abort with librdkafka."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from kwire.conformance.chaos import plan
from kwire.conformance.chaos.history import Recorder, Type
from kwire.conformance.chaos.plan import BrokerFaultKind
from kwire.conformance.chaos.workloads import transactions
from kwire.conformance.chaos.workloads.transactions import Transactor, new_producer
from kwire.conformance.chaos.workloads.workload import WorkloadStage
from kwire.testing import Kafka, SharedClusterProcess

ENDS_S = 40.0
"""Less than librdkafka's request timeout of a minute, which would end the call, too."""
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class FakeProducer(confluent_kafka.Producer):
    """A producer with `count` unacknowledged records, of which `flush` acknowledges `answered`.

    Its transactions begin and end at once.
    """

    def __init__(self, count: int, answered: int) -> None:
        super().__init__({})
        self.count = count
        self.answered = answered

    def __len__(self) -> int:
        return self.count

    def flush(self, timeout: float = -1) -> int:
        self.count -= self.answered
        return self.count

    def begin_transaction(self) -> None:
        pass

    def abort_transaction(self, timeout: float = -1) -> None:
        self.count = 0


class FencedProducer(FakeProducer):
    """A producer that raises a fatal error at the next call, as librdkafka does."""

    def flush(self, timeout: float = -1) -> int:
        raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))


class ProducerFencedInCallback(FakeProducer):
    """A producer whose fatal error comes out of a callback, as a SystemError."""

    def flush(self, timeout: float = -1) -> int:
        fenced = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
        raise SystemError("a method returned a result with an exception set") from fenced


class BrokenProducer(FakeProducer):
    def flush(self, timeout: float = -1) -> int:
        raise SystemError("no error of Kafka's")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[WorkloadStage]:
    recorder = Recorder(tmp_path / "history.jsonl")
    yield WorkloadStage(plan.draw(1, [BrokerFaultKind.KILL], ["bank"]), (), recorder)
    recorder.close()


def fails() -> None:
    raise BufferError("made up")


@pytest.mark.parametrize("work", [lambda: None, fails], ids=["on purpose", "after a failure"])
@pytest.mark.parametrize(
    ("count", "answered", "usable"), [(0, 0, True), (3, 3, True), (3, 2, False), (3, 0, False)]
)
def test_transactor_is_unusable_after_an_abort_with_unacknowledged_records(
    stage: WorkloadStage, work: Callable[[], None], count: int, answered: int, usable: bool
) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: FakeProducer(count, answered))
    assert transactor.run(work, commit=False)[0] is Type.FAIL
    assert transactor.usable is usable


@pytest.mark.parametrize("producer", [FencedProducer, ProducerFencedInCallback])
@pytest.mark.parametrize("work", [lambda: None, fails], ids=["on purpose", "after a failure"])
def test_transactor_is_unusable_when_fenced_during_an_abort(
    stage: WorkloadStage, work: Callable[[], None], producer: type[FakeProducer]
) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: producer(0, 0))
    transactor.usable = True
    assert transactor.run(work, commit=False)[0] is Type.FAIL
    assert not transactor.usable


def test_transaction_fenced_in_a_callback_is_not_committed(stage: WorkloadStage) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: ProducerFencedInCallback(0, 0))

    def work() -> None:
        transactor.producer.flush()

    outcome = transactor.run(work, commit=True)
    assert outcome == (Type.FAIL, "_FENCED")
    assert not transactor.usable


def test_transactor_raises_a_system_error_without_a_kafka_error(stage: WorkloadStage) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: BrokenProducer(0, 0))
    with pytest.raises(SystemError, match="no error of Kafka's"):
        transactor.run(lambda: None, commit=False)


@pytest.mark.slow
def test_transactor_is_unusable_after_records_expired(tmp_path: Path) -> None:
    """The records are in the log, so that later ones with the same numbers count as duplicates."""
    recorder = Recorder(tmp_path / "history.jsonl")
    with Kafka() as kafka:
        kafka.create_topic("t")
        address = ("127.0.0.1", int(kafka.bootstrap.rpartition(":")[2]))
        stage = WorkloadStage(plan.draw(1, [BrokerFaultKind.KILL], ["chain"]), (address,), recorder)
        transactor = Transactor(stage, "id", "process", new_producer)
        assert transactor.take_over() is None

        def work() -> None:
            transactor.producer.produce("t", b"v")

        in_time = transactor.run(work, commit=True), transactor.usable
        assert in_time == ((Type.OK, ""), True)
        late_ms = transactions.timeout_ms(stage.plan) + 1000
        with kafka.faults.add(api="Produce", topic="t", delay_ms=late_ms, carried_out=True):
            outcome, _ = transactor.run(work, commit=True)
        assert (outcome, transactor.usable) == (Type.FAIL, False)
    recorder.close()


def transaction(transactor: Transactor[confluent_kafka.Producer]) -> None:
    """Run a transaction that commits an offset of the group g."""
    settings = {"bootstrap.servers": "localhost:1", "group.id": "g", "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    offsets = [confluent_kafka.TopicPartition("t", 0, 1)]

    def work() -> None:
        transactor.producer.send_offsets_to_transaction(
            offsets, consumer.consumer_group_metadata(), 2.0
        )

    transactor.run(work, commit=True)
    consumer.close()


def forget_broker(producer: confluent_kafka.Producer, number: int) -> None:
    """Wait until the producer's metadata no longer has the broker."""
    deadline = time.monotonic() + ENDS_S
    while number in producer.list_topics("t", timeout=ENDS_S).brokers:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_transaction_ends_when_the_groups_coordinator_is_killed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    with SharedClusterProcess(tmp_path, 3, SETTINGS) as cluster:
        addresses = tuple((broker.host.address, broker.port) for broker in cluster.brokers.values())
        stage = WorkloadStage(plan.draw(1, [BrokerFaultKind.KILL], ["chain"]), addresses, recorder)
        transactor = Transactor(stage, "id", "process", new_producer)
        assert transactor.take_over() is None
        transaction(transactor)
        assert transactor.usable

        topic = transactor.producer.list_topics("__consumer_offsets", timeout=ENDS_S)
        coordinator = topic.topics["__consumer_offsets"].partitions[0].leader
        cluster.brokers[coordinator].kill()
        forget_broker(transactor.producer, coordinator)
        sending = threading.Thread(target=transaction, args=[transactor], daemon=True)
        sending.start()
        sending.join(ENDS_S)
        assert not sending.is_alive()
    recorder.close()
