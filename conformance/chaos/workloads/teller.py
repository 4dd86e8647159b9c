"""A client that transfers money; each transfer is a transaction of two records or more.

A record's value is its name, `teller-n:number:leg:amount`; the amounts of a transfer add up to 0.
"""

from __future__ import annotations

import contextlib
import threading
import time
from enum import Enum
from typing import Generic

from confluent_kafka import KafkaException

from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.workloads.transactions import (
    CALL_S,
    MakeProducer,
    P,
    Transactor,
    timeout_ms,
)
from kwire.conformance.chaos.workloads.workload import RECOVERY_S, WorkloadClient, WorkloadStage

PAUSE_S_MAX = 0.08
LEGS_MAX = 5
AMOUNT_MAX = 100
REST_S = (0.1, 0.5)
"""Pause of a fenced teller before it returns, in which its rival makes progress."""


class Intent(Enum):
    """What a transfer is to become without faults."""

    COMMIT = "commit"
    ABORT = "abort"
    LINGER = "linger"
    """Commit, after a time that may exceed the transaction's timeout."""
    OUTLIVE = "outlive"
    """Commit, after the teller's next producer has taken over the transactional id."""


INTENTS = [Intent.COMMIT] * 14 + [Intent.ABORT] * 4 + [Intent.LINGER, Intent.OUTLIVE]


class Teller(WorkloadClient, Generic[P]):
    """Transfers until it is told to stop, and then once more, which must succeed without faults.

    Tellers with the same transactional id fence each other.
    """

    def __init__(
        self,
        name: str,
        stage: WorkloadStage,
        topic: str,
        partitions: int,
        own_id: str,
        make_producer: MakeProducer[P],
    ) -> None:
        """Draw this teller's habits from the plan's seed.

        `own_id` is its transactional id; `_linger_s` is longer than the transaction timeout.
        """
        super().__init__(name, stage)
        self._make_producer = make_producer
        self._topic = topic
        self._partitions = partitions
        self._id = own_id
        self._rng = stream_of(stage.plan.seed, name)
        self._pause_s = self._rng.uniform(0.0, PAUSE_S_MAX)
        self._linger_s = timeout_ms(stage.plan) / 1000 * 1.2
        self._leaves_open = self._rng.random() < 0.3
        self._numbers = 0
        self._incarnations = 0
        self._transactor = self._next()

    def run(self, stop: threading.Event) -> None:
        """Transfer until `stop` is set, then until one transfer commits.

        Without one in RECOVERY_S seconds the teller is recorded as stuck. Some tellers leave a
        transaction open, which the broker must abort.
        """
        while not stop.wait(self._pause_s):
            self._transfer(self._rng.choice(INTENTS), stop)
        deadline = time.monotonic() + RECOVERY_S
        while self._transfer(Intent.COMMIT, stop) is not Type.OK:
            if time.monotonic() > deadline:
                self.recorder.note(self.name, "stuck", what="the last transfer", error="never")
                return
        if self._leaves_open:
            self._leave_one_open()

    def _next(self) -> Transactor[P]:
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        return Transactor(self.stage, self._id, name, self._make_producer)

    def _add(self, producer: P, number: int) -> None:
        """Add more to the transaction of the transfer with that number; a subclass does."""

    def _transfer(self, intent: Intent, stop: threading.Event) -> Type | None:
        """Make one transfer, with a new producer if the old one cannot go on; None if it is
        fenced."""
        if not self._transactor.usable:
            if self._incarnations > 1:
                time.sleep(self._rng.uniform(*REST_S))
            self._transactor = self._next()
            if self._transactor.take_over() is not None:
                return None
        return self._carry_out(self._transactor, intent, stop)

    def _carry_out(self, transactor: Transactor[P], intent: Intent, stop: threading.Event) -> Type:
        """Make one transfer as intended, record it, and return its outcome."""
        legs = self._legs()

        def work() -> None:
            """Produce the records; then linger beyond the timeout, or let a new producer fence this
            one."""
            for partition, value in legs:
                transactor.producer.produce(self._topic, value.encode(), partition=partition)
            self._add(transactor.producer, self._numbers)
            if intent is Intent.LINGER:
                transactor.producer.flush(CALL_S)
                stop.wait(self._rng.uniform(0.0, self._linger_s))
            elif intent is Intent.OUTLIVE:
                transactor.producer.flush(CALL_S)
                self._transactor = self._next()
                self._transactor.take_over()

        records = [(f"{self._topic}-{partition}", value) for partition, value in legs]
        name = f"{self.name}:{self._numbers}"
        begun = self.recorder.invoke(self.name, "transfer", transfer=name, records=records)
        outcome, error = transactor.run(work, commit=intent is not Intent.ABORT)
        self.recorder.end(begun, outcome, by=transactor.name, intent=intent.value, error=error)
        return outcome

    def _legs(self) -> list[tuple[int, str]]:
        """Return (partition, value) of each record of the next transfer; the last amount makes the
        sum 0."""
        self._numbers += 1
        count = self._rng.randint(2, LEGS_MAX)
        amounts = [self._rng.randint(-AMOUNT_MAX, AMOUNT_MAX) for _ in range(count - 1)]
        return [
            (self._rng.randrange(self._partitions), f"{self.name}:{self._numbers}:{leg}:{amount}")
            for leg, amount in enumerate([*amounts, -sum(amounts)])
        ]

    def _leave_one_open(self) -> None:
        """Stop in the middle of a transfer; the transaction's timeout must end it."""
        transactor = self._transactor
        records = [(f"{self._topic}-{partition}", value) for partition, value in self._legs()]
        name = f"{self.name}:{self._numbers}"
        begun = self.recorder.invoke(self.name, "transfer", transfer=name, records=records)
        # A producer that its rival has fenced leaves no transaction open.
        with contextlib.suppress(KafkaException, SystemError):
            transactor.producer.begin_transaction()
            for partition, value in records:
                index = int(partition.rpartition("-")[2])
                transactor.producer.produce(self._topic, value.encode(), partition=index)
            transactor.producer.flush(CALL_S)
        self.recorder.end(begun, Type.FAIL, by=transactor.name, intent="leave", error="left open")
