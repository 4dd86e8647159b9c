"""What workloads with transactions share: how librdkafka ends one, and how logs are read whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from kwire.conformance.chaos.checks.transactions import Entry, resolved
from kwire.conformance.chaos.history import JUDGE, Event, Recorder, Type, Value
from kwire.conformance.chaos.plan import RoundPlan, stream_of
from kwire.conformance.chaos.wire import EARLIEST, LATEST, Found, Link
from kwire.conformance.chaos.workloads.producers import BACKOFF
from kwire.conformance.chaos.workloads.workload import RECOVERY_S, Stage, attempt

TIMEOUTS_MS = (1000, 2500)
"""Of transactions; a pause of the broker, up to 1.5 s, may be longer than the first."""
SETTLE_S = 5.0
"""What may pass beyond a transaction's timeout until readers see past it: the coordinator looks for
timed-out ones every 200 ms, and the machine has other things to do as well."""
CALL_S = 2.0
"""One attempt at something that is tried again until RECOVERY_S have passed."""
FINDING = {
    "metadata.recovery.strategy": "none",
    "metadata.max.age.ms": 1000,
    "connections.max.idle.ms": 3000,
}
"""How a producer finds a group's coordinator again. With rebootstrap, the default, librdkafka 2.16
gives up all brokers when the last one goes down, and it gives up each one that metadata do not name
any more. It goes on to wait for one that it has cached as a coordinator, whatever the timeout of
send_offsets_to_transaction, until any other connection comes or goes and the cache is too old
(librdkafka's issues 5511 and 5456). So the cache is old soon, and idle connections go soon."""

Name = Callable[[Found, str], str]
"""The name of a record in the partition of that name."""


def timeout_ms(plan: RoundPlan) -> int:
    """transaction.timeout.ms of all producers of a round."""
    return stream_of(plan.seed, "transactions").choice(TIMEOUTS_MS)


class TransactionalProducer(Protocol):
    """As librdkafka's, as far as transactions need it. All raise KafkaException."""

    def init_transactions(self, timeout: float = -1) -> None: ...
    def begin_transaction(self) -> None: ...
    def produce(
        self, topic: str, value: bytes, key: bytes | None = None, partition: int = -1
    ) -> None: ...
    def flush(self, timeout: float = -1) -> int: ...
    def commit_transaction(self, timeout: float = -1) -> None: ...
    def abort_transaction(self, timeout: float = -1) -> None: ...


P = TypeVar("P", bound=TransactionalProducer)
MakeProducer = Callable[[Stage, str, str], P]
"""Of a producer that has not taken its transactional id yet: the stage, that id, its name."""


class Sender(confluent_kafka.Producer):
    """librdkafka's, which counts what it has not said to be in the log."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._produced = 0
        self._delivered: list[object] = []
        delivered = self._delivered  # not self: its callbacks are in no garbage collection

        def report(error: KafkaError | None, message: object) -> None:
            if error is None:
                delivered.append(None)

        super().__init__({**settings, "on_delivery": report})

    def produce(  # type: ignore[override]  # only what a transaction needs
        self, topic: str, value: bytes | None, key: bytes | None = None, partition: int = -1
    ) -> None:
        """As a TransactionalProducer's."""
        super().produce(topic, value, key, partition)
        self._produced += 1

    @property
    def undelivered(self) -> int:
        """Records that are on their way, or were given up."""
        return self._produced - len(self._delivered)


def new_producer(stage: Stage, transactional_id: str, name: str) -> confluent_kafka.Producer:
    """librdkafka's."""
    rng = stream_of(stage.plan.seed, name)
    return Sender(
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
    """What librdkafka reports, also where the exception comes out of a callback.

    confluent-kafka raises a fatal error in the callback that is made for it.  If another callback
    is made before the exception is out, Python finds it there, and raises a SystemError that has
    it as its cause.
    """
    cause = failure.__cause__ if isinstance(failure, SystemError) else failure
    if not isinstance(cause, KafkaException):
        raise failure
    error: KafkaError = cause.args[0]
    return error


def persist(call: Callable[[float], object]) -> KafkaError | None:
    """Call until it works or cannot be repeated; the error that ended it, None if it worked."""
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
    """One producer and its transactional id, for as long as nobody fences it.

    `name` is its process in the history. After anything but success `usable` says whether it may
    go on; it is not if the outcome was fatal, nor after an abort with records on their way, or that
    were given up.

    For librdkafka (2.16) takes those to be nowhere: the next transaction gets their sequence
    numbers. (Where records expire and nothing else had failed it takes a new epoch; not where the
    transaction was to be aborted already.) Where they are in the log and only the answer was lost,
    what has the same numbers is taken for a repetition, is acknowledged at their offsets, and is
    gone with them, however it is committed. Apache Kafka (4.3.1) does no other than kwire there.
    Who begins as new has a new epoch.
    """

    def __init__(
        self, stage: Stage, transactional_id: str, name: str, make_producer: MakeProducer[P]
    ) -> None:
        self.name = name
        self.transactional_id = transactional_id
        self.producer = make_producer(stage, transactional_id, name)
        self.usable = False
        self._recorder = stage.recorder

    def take_over(self) -> KafkaError | None:
        """Take the id, and fence whoever had it."""
        begun = self._recorder.invoke(self.name, "init", transactional_id=self.transactional_id)
        error = persist(self.producer.init_transactions)
        _end(self._recorder, begun, error)
        self.usable = error is None
        return error

    def run(self, work: Callable[[], None], *, commit: bool) -> tuple[Type, str]:
        """Begin, `work`, commit or abort; how it ended, and the error.

        OK if it was committed; FAIL if it cannot be, ever; INFO if nobody told.
        """
        asked = False
        try:
            self.producer.begin_transaction()
            work()
            if commit:
                asked = True
                error = self._end(commit=True)
            else:
                self._abort()
                return Type.FAIL, "aborted on purpose"
        except BufferError as failure:
            return self._fallen(str(failure), asked=asked)
        except (KafkaException, SystemError) as failure:
            error = error_of(failure)
        if error is None:
            return Type.OK, ""
        return self._fallen(error, asked=asked)

    def _fallen(self, error: KafkaError | str, *, asked: bool) -> tuple[Type, str]:
        """After an error; an abort that works says that there was no commit."""
        said = error if isinstance(error, str) else error.name()
        fatal = not isinstance(error, str) and error.fatal()
        self.usable = False
        is_aborted = not fatal and self._abort()
        known = not asked or is_aborted
        return (Type.FAIL if known else Type.INFO), said

    def _abort(self) -> bool:
        """Whether it works; `usable` then, unless records were on their way and stayed there."""
        producer = self.producer
        undelivered = 0
        if isinstance(producer, confluent_kafka.Producer):
            try:
                undelivered = producer.flush(CALL_S)
            except (KafkaException, SystemError) as failure:
                error_of(failure)  # it is fenced: who has its id now has ended its transaction
                self.usable = False
                return False
        if isinstance(producer, Sender):
            undelivered = producer.undelivered
        is_aborted = self._end(commit=False) is None
        self.usable = is_aborted and not undelivered
        return is_aborted

    def _end(self, *, commit: bool) -> KafkaError | None:
        begun = self._recorder.invoke(
            self.name, "end_txn", transactional_id=self.transactional_id, commit=commit
        )
        call = self.producer.commit_transaction if commit else self.producer.abort_transaction
        error = persist(call)
        _end(self._recorder, begun, error)
        return error


def _end(recorder: Recorder, begun: Event, error: KafkaError | None) -> None:
    if error is None:
        recorder.end(begun, Type.OK)
    else:
        recorder.end(begun, Type.INFO, error=error.name())


# -- the judge's part


class Settling:
    """Watches the last stable offsets, from when nothing new is begun."""

    def __init__(self, stage: Stage, topics: Mapping[str, Sequence[int]]) -> None:
        self._recorder = stage.recorder
        self._topics = topics
        self._bound_s = timeout_ms(stage.plan) / 1000 + SETTLE_S
        self._ends: dict[str, dict[int, int]] = {}
        self._begun: Event | None = None
        self._settled = False

    def settled(self, link: Link) -> bool:
        """Whether readers see past all that was there when this was asked first, and no more."""
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
        return {
            topic: link.offsets(topic, partitions, LATEST, stable=stable)
            for topic, partitions in self._topics.items()
        }


def _covers(stable: dict[str, dict[int, int]], ends: dict[str, dict[int, int]]) -> bool:
    return all(
        stable[topic][partition] >= end
        for topic, of_topic in ends.items()
        for partition, end in of_topic.items()
    )


def read_logs(
    link: Link, recorder: Recorder, topics: Mapping[str, Sequence[int]], name: Name
) -> None:
    """Record all of all partitions. Raises Refused."""
    for topic, partitions in topics.items():
        for partition in partitions:
            work = partial(_read_log, link, topic, partition, name)
            attempt(recorder, JUDGE, "read_txn_log", work, partition=f"{topic}-{partition}")


def _read_log(link: Link, topic: str, partition: int, name: Name) -> Value:
    start = link.offsets(topic, [partition], EARLIEST)[partition]
    stable = link.offsets(topic, [partition], LATEST, stable=True)[partition]
    end = link.offsets(topic, [partition], LATEST)[partition]
    found = list(link.entries(topic, partition, start, end))
    entries = _named(found, f"{topic}-{partition}", name)
    # Nothing is judged by these; whoever looks at a violation wants them.
    batches = [(each.offset, each.epoch, each.sequence) for each in found]
    told = {"start": start, "end": end, "stable": stable}
    return {**told, "records": entries, "sequences": batches}


def entries_of(
    link: Link, topic: str, partition: int, start: int, end: int, name: Name
) -> list[Entry]:
    return _named(link.entries(topic, partition, start, end), f"{topic}-{partition}", name)


def _named(found: Iterable[Found], partition: str, name: Name) -> list[Entry]:
    return [
        Entry(
            each.offset,
            each.kind,
            each.producer_id,
            name(each, partition) if each.kind in ("plain", "transactional") else None,
        )
        for each in found
    ]


def records_behind(link: Link, topic: str, partition: int, offset: int, name: Name) -> int:
    """How many records a reader of committed ones at `offset` has still to come."""
    end = link.offsets(topic, [partition], LATEST, stable=True)[partition]
    return len(resolved(entries_of(link, topic, partition, offset, end, name)).committed)
