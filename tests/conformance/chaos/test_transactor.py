"""When a transactional id begins as new: librdkafka may not go on from every abort."""

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
from kwire.conformance.chaos.plan import FaultKind
from kwire.conformance.chaos.workloads import transactions
from kwire.conformance.chaos.workloads.transactions import Transactor, new_producer
from kwire.conformance.chaos.workloads.workload import Stage
from kwire.testing import Kafka, SharedClusterProcess

ENDS_S = 40.0
"""librdkafka's request timeout, which would end it too, is a minute."""
SETTINGS = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Waiting(confluent_kafka.Producer):
    """librdkafka's, with so many records on their way, of which some are answered when they are
    waited for; transactions begin and end at once."""

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


class Fenced(Waiting):
    """What librdkafka has been told is raised by whatever is called next."""

    def flush(self, timeout: float = -1) -> int:
        raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))


class FencedInCallback(Waiting):
    """The exception of the error's callback is there when a delivery is reported."""

    def flush(self, timeout: float = -1) -> int:
        fenced = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
        raise SystemError("a method returned a result with an exception set") from fenced


class Broken(Waiting):
    def flush(self, timeout: float = -1) -> int:
        raise SystemError("no error of Kafka's")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    recorder = Recorder(tmp_path / "history.jsonl")
    yield Stage(plan.draw(1, [FaultKind.KILL], ["bank"]), (), recorder)
    recorder.close()


def fails() -> None:
    raise BufferError("made up")


@pytest.mark.parametrize("work", [lambda: None, fails], ids=["on purpose", "after a failure"])
@pytest.mark.parametrize(
    ("count", "answered", "usable"), [(0, 0, True), (3, 3, True), (3, 2, False), (3, 0, False)]
)
def test_after_an_abort_with_records_on_their_way(
    stage: Stage, work: Callable[[], None], count: int, answered: int, usable: bool
) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: Waiting(count, answered))
    assert transactor.run(work, commit=False)[0] is Type.FAIL
    assert transactor.usable is usable


@pytest.mark.parametrize("producer", [Fenced, FencedInCallback])
@pytest.mark.parametrize("work", [lambda: None, fails], ids=["on purpose", "after a failure"])
def test_who_is_fenced_while_it_aborts(
    stage: Stage, work: Callable[[], None], producer: type[Waiting]
) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: producer(0, 0))
    transactor.usable = True
    assert transactor.run(work, commit=False)[0] is Type.FAIL
    assert not transactor.usable


def test_fenced_in_a_callback_while_it_works_is_no_commit(stage: Stage) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: FencedInCallback(0, 0))

    def work() -> None:
        transactor.producer.flush()

    outcome = transactor.run(work, commit=True)
    assert outcome == (Type.FAIL, "_FENCED")
    assert not transactor.usable


def test_error_of_python_itself_is_raised(stage: Stage) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: Broken(0, 0))
    with pytest.raises(SystemError, match="no error of Kafka's"):
        transactor.run(lambda: None, commit=False)


@pytest.mark.slow
def test_after_an_abort_with_records_that_expired(tmp_path: Path) -> None:
    """They are in the log, and what librdkafka numbers alike would be taken for them."""
    recorder = Recorder(tmp_path / "history.jsonl")
    with Kafka() as kafka:
        kafka.create_topic("t")
        address = ("127.0.0.1", int(kafka.bootstrap.rpartition(":")[2]))
        stage = Stage(plan.draw(1, [FaultKind.KILL], ["chain"]), (address,), recorder)
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
    """One that commits an offset of the group g, whose coordinator is the one of its topic."""
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
    """Until the producer knows, from metadata, of the others alone."""
    deadline = time.monotonic() + ENDS_S
    while number in producer.list_topics("t", timeout=ENDS_S).brokers:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_offsets_are_sent_when_the_groups_coordinator_is_gone(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.jsonl")
    with SharedClusterProcess(tmp_path, 3, SETTINGS) as cluster:
        addresses = tuple((each.host.address, each.port) for each in cluster.brokers.values())
        stage = Stage(plan.draw(1, [FaultKind.KILL], ["chain"]), addresses, recorder)
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
