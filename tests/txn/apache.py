"""An Apache Kafka cluster for transactions, whose markers cannot be written.

Two nodes are started.  The topic `far` needs both, and the second one is stopped again, so that a
transaction with a partition of it stays in its prepared state.  (A partition without a leader does
not work: Apache Kafka writes no marker there and completes the transaction.)

The test writes the states of transactional ids into the log of `__transaction_state`, which Apache
Kafka allows an "admin client", and the first node reads them when it starts again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kwire.codecs import batches
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.hosting.ports import free_port
from kwire.txn.records import TransactionRecord
from tests.txn.broker_target import SETTINGS, BrokerTarget

RECORDS_AT_ONCE = 500


class ApacheTransactions:
    """A `conformance.txn_script.Target`."""

    def __init__(self, directory: Path) -> None:
        self._near = ApacheKafka(directory / "near", settings=SETTINGS)
        port = free_port()
        voters = {"controller.quorum.voters": self._near.settings["controller.quorum.voters"]}
        own = {
            "process.roles": "broker",
            "node.id": "2",
            "listeners": f"PLAINTEXT://localhost:{port}",
            "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        }
        self._far = ApacheKafka(directory / "far", port=port, settings=voters | own)

    def __enter__(self) -> Self:
        self._start()
        self.target.create("t", [1])
        with self._far:
            self.target.create("far", [1, 2])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.target.close()
        self._near.stop()

    def load(self, records: Iterable[TransactionRecord]) -> None:
        """Have the coordinator find these records in its log."""
        rest = [batches.Record(0, now_ms(), *record.encode()) for record in records]
        while rest:
            part, rest = rest[:RECORDS_AT_ONCE], rest[RECORDS_AT_ONCE:]
            data = PartitionProduceData(0, batches.build(part))
            topic = TopicProduceData("__transaction_state", partition_data=[data])
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
            response = self.target.connection.call(request, version_max=9)
            assert not response.responses[0].partition_responses[0].error_code, "not written"
        self.target.close()
        self._near.stop()
        self._start()

    def ask(self, api: ApiKey, version: int, request: Any) -> Any:  # noqa: ANN401 - any message
        return self.target.ask(api, version, request)

    def wait(self, time_ms: int) -> None:
        self.target.wait(time_ms)

    def _start(self) -> None:
        self._near.start()
        self.target = BrokerTarget(self._near.port, self._near.directory / "data")


def now_ms() -> int:
    return int(time.time() * 1000)
