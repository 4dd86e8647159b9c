"""What transactional workloads share: producers, transactions, and reading whole logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from kwire.conformance.chaos.checks.transactions import TransactionLogEntry, resolve_transactions
from kwire.conformance.chaos.history import JUDGE, Event, Recorder, Type, Value
from kwire.conformance.chaos.plan import RoundPlan, stream_of
from kwire.conformance.chaos.wire import EARLIEST, LATEST, Link, LogRecord
from kwire.conformance.chaos.workloads.producers import BACKOFF
from kwire.conformance.chaos.workloads.workload import RECOVERY_S, WorkloadStage, attempt

TIMEOUTS_MS = (1000, 2500)
"""Values of transaction.timeout.ms; a pause of the broker, up to 1.5 s, may exceed the first."""
SETTLE_S = 5.0
"""Limit, beyond the transaction's timeout, until readers see past the transaction.

The coordinator looks for timed-out transactions every 200 ms, and the machine is busy.
"""
CALL_S = 2.0
"""Timeout of one attempt; attempts are repeated until RECOVERY_S have passed."""
FINDING = {
    "metadata.recovery.strategy": "none",
    "metadata.max.age.ms": 1000,
    "connections.max.idle.ms": 3000,
}
"""Settings with which a producer finds a moved group coordinator.

With rebootstrap, the default, librdkafka 2.16 removes all brokers when the last one goes down, and
each broker that the metadata no longer names. It then waits for a coordinator in its cache,
whatever the timeout of send_offsets_to_transaction, until any other connection opens or closes and
the cache is too old (librdkafka's issues 5511 and 5456). So the cache expires soon, and idle
connections close soon.
"""

Name = Callable[[LogRecord, str], str]
"""A function that names a record in a partition."""


def timeout_ms(plan: RoundPlan) -> int:
    """transaction.timeout.ms of all producers of a round."""
    return stream_of(plan.seed, "transactions").choice(TIMEOUTS_MS)


class TransactionalProducer(Protocol):
    """The part of librdkafka's producer that transactions need. All methods raise
    KafkaException."""

    def init_transactions(self, timeout: float = -1) -> None: ...
    def begin_transaction(self) -> None: ...
    def produce(
        self, topic: str, value: bytes, key: bytes | None = None, partition: int = -1
    ) -> None: ...
    def flush(self, timeout: float = -1) -> int: ...
    def commit_transaction(self, timeout: float = -1) -> None: ...
    def abort_transaction(self, timeout: float = -1) -> None: ...


P = TypeVar("P", bound=TransactionalProducer)
MakeProducer = Callable[[WorkloadStage, str, str], P]
"""Makes a producer, which has not taken its transactional id yet, from stage, id and name."""


class CountingTxnProducer(confluent_kafka.Producer):
    """librdkafka's producer, which counts its records without an acknowledgement."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Count the records that are delivered without an error."""
        self._produced = 0
        self._delivered: list[object] = []
        delivered = self._delivered  # not self: the garbage collector does not see the callbacks

        def report(error: KafkaError | None, message: object) -> None:
            if error is None:
                delivered.append(None)

        super().__init__({**settings, "on_delivery": report})

    def produce(  # type: ignore[override]  # only what a transaction needs
        self, topic: str, value: bytes | None, key: bytes | None = None, partition: int = -1
    ) -> None:
        """As in TransactionalProducer."""
        super().produce(topic, value, key, partition)
        self._produced += 1

    @property
    def undelivered(self) -> int:
        """Records that wait for an acknowledgement, or were given up."""
        return self._produced - len(self._delivered)


def new_producer(
    stage: WorkloadStage, transactional_id: str, name: str
) -> confluent_kafka.Producer:
    """Return a transactional producer of librdkafka."""
    rng = stream_of(stage.plan.seed, name)
    return CountingTxnProducer(
        {
            "bootstrap.servers": stage.bootstrap,
            "client.id": name,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms(stage.plan),
            "linger.ms": rng.choice([0, 2]),
            "log_level": 0,
            **FINDING,
            **BACKOFF,
        }
    )


def error_of(failure: KafkaException | SystemError) -> KafkaError:
    """Return the error that librdkafka reports, also if the exception comes from a callback.

    confluent-kafka raises a fatal error in the callback for it. If another callback runs before the
    exception is handled, Python raises a SystemError with that error as its cause.
    """
    cause = failure.__cause__ if isinstance(failure, SystemError) else failure
    if not isinstance(cause, KafkaException):
        raise failure
    error: KafkaError = cause.args[0]
    return error


def persist(call: Callable[[float], object]) -> KafkaError | None:
    """Call until it succeeds or cannot be repeated; return the error that ended it, or None."""
    deadline = time.monotonic() + RECOVERY_S
    while True:
        try:
            call(CALL_S)
        except (KafkaException, SystemError) as failure:
            error = error_of(failure)
            if not error.retriable() or time.monotonic() > deadline:
                return error
        else:
            return None


class Transactor(Generic[P]):
    """One producer with its transactional id, until it is fenced.

    `name` is its process in the history. After a failure, `usable` says whether the producer may go
    on. It may not after a fatal error, nor after an abort with records that wait for an
    acknowledgement or were given up.

    librdkafka 2.16 assumes that such records are not in the log, and gives their sequence numbers
    to the next transaction. (If records expire and nothing else has failed, it takes a new epoch;
    it does not if the transaction was to be aborted already.) If they are in the log and only the
    response was lost, the broker takes records with the same numbers for duplicates. It
    acknowledges them at the old offsets, and they are lost even if their transaction commits.
    Apache Kafka 4.3.1 does the same as kwire. A new producer has a new epoch, and is safe.
    """

    def __init__(
        self, stage: WorkloadStage, transactional_id: str, name: str, make_producer: MakeProducer[P]
    ) -> None:
        """Create the producer; `usable` is False until it has taken over its transactional id."""
        self.name = name
        self.transactional_id = transactional_id
        self.producer = make_producer(stage, transactional_id, name)
        self.usable = False
        self._recorder = stage.recorder

    def take_over(self) -> KafkaError | None:
        """Take the transactional id, and fence its earlier producer."""
        begun = self._recorder.invoke(self.name, "init", transactional_id=self.transactional_id)
        error = persist(self.producer.init_transactions)
        _end(self._recorder, begun, error)
        self.usable = error is None
        return error

    def run(self, work: Callable[[], None], *, commit: bool) -> tuple[Type, str]:
        """Run `work` in a transaction and commit or abort it; return its outcome and the error.

        OK if it was committed, FAIL if it certainly was not and will not be, INFO if that is
        unknown.
        """
        commit_sent = False
        try:
            self.producer.begin_transaction()
            work()
            if commit:
                commit_sent = True
                error = self._end(commit=True)
            else:
                self._abort()
                return Type.FAIL, "aborted on purpose"
        except BufferError as failure:
            return self._abort_after(str(failure), commit_sent=commit_sent)
        except (KafkaException, SystemError) as failure:
            error = error_of(failure)
        if error is None:
            return Type.OK, ""
        return self._abort_after(error, commit_sent=commit_sent)

    def _abort_after(self, error: KafkaError | str, *, commit_sent: bool) -> tuple[Type, str]:
        """Abort after an error; an abort that succeeds shows that nothing was committed."""
        text = error if isinstance(error, str) else error.name()
        fatal = not isinstance(error, str) and error.fatal()
        self.usable = False
        is_aborted = not fatal and self._abort()
        not_committed = not commit_sent or is_aborted
        return (Type.FAIL if not_committed else Type.INFO), text

    def _abort(self) -> bool:
        """Return whether the abort succeeds; sets `usable`, unless records have no
        acknowledgement."""
        producer = self.producer
        undelivered = 0
        if isinstance(producer, confluent_kafka.Producer):
            try:
                undelivered = producer.flush(CALL_S)
            except (KafkaException, SystemError) as failure:
                error_of(failure)  # it is fenced: the new producer has ended its transaction
                self.usable = False
                return False
        if isinstance(producer, CountingTxnProducer):
            undelivered = producer.undelivered
        is_aborted = self._end(commit=False) is None
        self.usable = is_aborted and not undelivered
        return is_aborted

    def _end(self, *, commit: bool) -> KafkaError | None:
        """Commit or abort, and record it; return the error, or None after success."""
        begun = self._recorder.invoke(
            self.name, "end_txn", transactional_id=self.transactional_id, commit=commit
        )
        call = self.producer.commit_transaction if commit else self.producer.abort_transaction
        error = persist(call)
        _end(self._recorder, begun, error)
        return error


def _end(recorder: Recorder, begun: Event, error: KafkaError | None) -> None:
    """Record the end of an operation: ok without an error, else unknown (info)."""
    if error is None:
        recorder.end(begun, Type.OK)
    else:
        recorder.end(begun, Type.INFO, error=error.name())


# The end of a round


class TransactionSettling:
    """Waits until the last stable offsets have passed all transactions of the load."""

    def __init__(self, stage: WorkloadStage, topics: Mapping[str, Sequence[int]]) -> None:
        """Prepare to wait until the transactions in these topics have ended.

        The bound is the transaction timeout plus SETTLE_S seconds.
        """
        self._recorder = stage.recorder
        self._topics = topics
        self._bound_s = timeout_ms(stage.plan) / 1000 + SETTLE_S
        self._ends: dict[str, dict[int, int]] = {}
        self._begun: Event | None = None
        self._settled = False

    def settled(self, link: Link) -> bool:
        """Return whether the last stable offsets have reached the current ends, and those of the
        first call."""
        if self._begun is None:
            self._ends = self._offsets(link, stable=False)
            self._begun = self._recorder.invoke(
                JUDGE, "settle", bound_s=self._bound_s, ends=self._ends
            )
        stable = self._offsets(link, stable=True)
        if not self._settled and _covers(stable, self._ends):
            self._recorder.end(self._begun, Type.OK)
            self._settled = True
        return self._settled and _covers(stable, self._offsets(link, stable=False))

    def _offsets(self, link: Link, *, stable: bool) -> dict[str, dict[int, int]]:
        """Return the log end offsets, or with `stable` the last stable offsets."""
        return {
            topic: link.offsets(topic, partitions, LATEST, stable=stable)
            for topic, partitions in self._topics.items()
        }


def _covers(stable: dict[str, dict[int, int]], ends: dict[str, dict[int, int]]) -> bool:
    """Return whether every last stable offset has reached the end that was read before."""
    return all(
        stable[topic][partition] >= end
        for topic, of_topic in ends.items()
        for partition, end in of_topic.items()
    )


def read_logs(
    link: Link, recorder: Recorder, topics: Mapping[str, Sequence[int]], name: Name
) -> None:
    """Record all records of all partitions. Raises Refused."""
    for topic, partitions in topics.items():
        for partition in partitions:
            work = partial(_read_log, link, topic, partition, name)
            attempt(recorder, JUDGE, "read_txn_log", work, partition=f"{topic}-{partition}")


def _read_log(link: Link, topic: str, partition: int, name: Name) -> Value:
    """Return the log of a partition with its start, last stable and end offset."""
    start = link.offsets(topic, [partition], EARLIEST)[partition]
    stable = link.offsets(topic, [partition], LATEST, stable=True)[partition]
    end = link.offsets(topic, [partition], LATEST)[partition]
    log_records = list(link.entries(topic, partition, start, end))
    entries = _entries(log_records, f"{topic}-{partition}", name)
    # No check uses these; they help to understand a violation.
    batches = [(record.offset, record.epoch, record.sequence) for record in log_records]
    bounds = {"start": start, "end": end, "stable": stable}
    return {**bounds, "records": entries, "sequences": batches}


def entries_of(
    link: Link, topic: str, partition: int, start: int, end: int, name: Name
) -> list[TransactionLogEntry]:
    return _entries(link.entries(topic, partition, start, end), f"{topic}-{partition}", name)


def _entries(records: Iterable[LogRecord], partition: str, name: Name) -> list[TransactionLogEntry]:
    """Return the records for the history; only records of clients have a name."""
    return [
        TransactionLogEntry(
            record.offset,
            record.kind,
            record.producer_id,
            name(record, partition) if record.kind in ("plain", "transactional") else None,
        )
        for record in records
    ]


def records_behind(link: Link, topic: str, partition: int, offset: int, name: Name) -> int:
    """Return how many records a reader of committed records at `offset` has not read yet."""
    end = link.offsets(topic, [partition], LATEST, stable=True)[partition]
    return len(
        resolve_transactions(entries_of(link, topic, partition, offset, end, name)).committed
    )
