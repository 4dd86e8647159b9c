"""The bank workload with transaction version 2 (KIP-890), and a committed offset per transfer.

An additional check: a teller's group has the offset that its last transfer committed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.checks.bank import OFFSET_CHECKS
from kwire.conformance.chaos.history import JUDGE, Value
from kwire.conformance.chaos.wire import Link
from kwire.conformance.chaos.workloads.bank import PARTITIONS, TELLERS_MAX, TOPIC, Bank
from kwire.conformance.chaos.workloads.epoch_producer import EpochProducer
from kwire.conformance.chaos.workloads.teller import Teller
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt
from kwire.conformance.wire.broker import GROUP, TRANSACTION

RECORDS_FIRST = 0.5
"""The share of transactions that begin with a Produce instead of a TxnOffsetCommit."""


class EpochTeller(Teller[EpochProducer]):
    """Commits the number of each transfer as an offset of the group with the teller's name."""

    def __init__(self, name: str, stage: WorkloadStage, own_id: str) -> None:
        self._producers: list[EpochProducer] = []
        super().__init__(name, stage, TOPIC, PARTITIONS, own_id, self._new_producer)

    def _new_producer(
        self, stage: WorkloadStage, transactional_id: str, name: str
    ) -> EpochProducer:
        """Return a new producer; all of them stay open until the teller ends."""
        self._producers.append(EpochProducer(stage, transactional_id, name))
        return self._producers[-1]

    def run(self, stop: threading.Event) -> None:
        """Make transfers until `stop` is set, and close all producers."""
        try:
            super().run(stop)
        finally:
            for producer in self._producers:
                producer.close()

    def _add(self, producer: EpochProducer, number: int) -> None:
        if self._rng.random() < RECORDS_FIRST:
            producer.flush()
        producer.commit_offset(self.name, TOPIC, number)


class EpochBank(Bank):
    name: ClassVar[str] = "tv2"
    checks: ClassVar[Sequence[Check]] = (*Bank.checks, *OFFSET_CHECKS)

    def _teller(self, name: str, own_id: str) -> WorkloadClient:
        return EpochTeller(name, self.stage, own_id)

    def prepare(self, link: Link) -> None:
        """Create the coordinators' topics and the topic of accounts."""
        for key_type in (GROUP, TRANSACTION):
            link.find_coordinator("", key_type)
        if TOPIC not in link.topics():
            super().prepare(link)

    def conclude(self, link: Link) -> None:
        """Record the logs and the tellers' committed offsets at the end."""
        super().conclude(link)
        for number in range(TELLERS_MAX):
            group = f"teller-{number}"
            work = partial(self._read_committed, link, group)
            attempt(self.stage.recorder, JUDGE, "committed", work, group=group)

    def _read_committed(self, link: Link, group: str) -> Value:
        committed = link.committed(group, TOPIC, [0])
        return {"offsets": [(f"{TOPIC}-{p}", offset) for p, offset in committed.items()]}
