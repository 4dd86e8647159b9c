"""A workload of transfers between accounts on eight partitions, with readers.

The checks: each committed transfer is complete and occurs once, and no other one occurs; the
balance is 0 whenever no transaction is open; readers of committed records get exactly those; a
fenced teller commits nothing more; at the end all transactions are over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import confluent_kafka

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.checks.answers import COMMON_CHECKS
from kwire.conformance.chaos.checks.bank import BANK_CHECKS
from kwire.conformance.chaos.checks.transactions import TRANSACTION_CHECKS
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import Link, LogRecord
from kwire.conformance.chaos.workloads.auditor import Auditor
from kwire.conformance.chaos.workloads.teller import Teller
from kwire.conformance.chaos.workloads.transactions import (
    TransactionSettling,
    new_producer,
    read_logs,
)
from kwire.conformance.chaos.workloads.txn_reader import TxnReader
from kwire.conformance.chaos.workloads.workload import Workload, WorkloadClient, WorkloadStage

TOPIC = "bank"
PARTITIONS = 8
TELLERS_MIN, TELLERS_MAX = 2, 4
READERS = 2


class Bank(Workload):
    name: ClassVar[str] = "bank"
    checks: ClassVar[Sequence[Check]] = (*COMMON_CHECKS, *TRANSACTION_CHECKS, *BANK_CHECKS)

    def __init__(self, stage: WorkloadStage) -> None:
        """Draw the number of tellers from the plan's seed.

        With fewer transactional ids than tellers two of them share an id and fence each other.
        """
        super().__init__(stage)
        rng = stream_of(stage.plan.seed, "bank")
        tellers = rng.randint(TELLERS_MIN, TELLERS_MAX)
        ids = rng.choice([tellers, tellers - 1])
        self._topics = {TOPIC: range(PARTITIONS)}
        self._settling = TransactionSettling(stage, self._topics)
        self._writers: list[WorkloadClient] = [
            self._teller(f"teller-{n}", f"teller-id-{n % ids}") for n in range(tellers)
        ]
        self._accounts = [
            TxnReader(f"reader-{n}", stage, TOPIC, PARTITIONS, _message_name)
            for n in range(READERS)
        ]
        self._auditor = Auditor("auditor", stage, TOPIC, PARTITIONS)

    def _teller(self, name: str, own_id: str) -> WorkloadClient:
        return Teller(name, self.stage, TOPIC, PARTITIONS, own_id, new_producer)

    def prepare(self, link: Link) -> None:
        link.create_topic(TOPIC, PARTITIONS, self.stage.plan.topic_configs)

    def writers(self) -> list[WorkloadClient]:
        return self._writers

    def readers(self) -> list[WorkloadClient]:
        return [*self._accounts, self._auditor]

    def caught_up(self, link: Link) -> bool:
        settled = self._settling.settled(link)
        return settled and all(reader.has_read_all(link) for reader in self._accounts)

    def conclude(self, link: Link) -> None:
        read_logs(link, self.stage.recorder, self._topics, _record_name)


def _message_name(message: confluent_kafka.Message) -> str:
    return (message.value() or b"").decode()


def _record_name(record: LogRecord, partition: str) -> str:
    return record.value.decode()
