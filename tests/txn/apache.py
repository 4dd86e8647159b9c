"""Apache Kafka as it is asked about transactions: with markers that cannot be written.

Two nodes are started; the topic `far` needs both, and the second is stopped again, so that a
transaction with a partition of it stays where it is prepared.  (A partition without any leader
would not do: Apache Kafka writes no marker there and calls the transaction complete.)

How transactional ids stand
is written into the log of `__transaction_state` itself, which Apache Kafka lets an "admin client"
do, and read when the first node starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kwire.client.connection import Connection
from kwire.codecs import batches
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.conformance.apache_kafka import ApacheKafka, free_port
from kwire.txn.records import TransactionRecord

MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
TRANSACTION = 1  # FindCoordinator's key type
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
POLL_S = 0.02
READY_WITHIN_S = 60.0
RECORDS_AT_ONCE = 500
NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


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
        self._near.start()
        self._connect()
        self._create("t", [1])
        with self._far:
            self._create("far", [1, 2])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self._near.stop()

    def load(self, records: Iterable[TransactionRecord]) -> None:
        """Have the coordinator find these records in its log."""
        rest = [batches.Record(0, now_ms(), *record.encode()) for record in records]
        while rest:
            part, rest = rest[:RECORDS_AT_ONCE], rest[RECORDS_AT_ONCE:]
            data = PartitionProduceData(0, batches.build(part))
            topic = TopicProduceData("__transaction_state", partition_data=[data])
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
            response = self._connection.call(request, version_max=9)
            assert not response.responses[0].partition_responses[0].error_code, "not written"
        self._connection.close()
        self._near.stop()
        self._near.start()
        self._connect()

    def log(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Keys and values in the log of `__transaction_state`."""
        for path in sorted((self._near.directory / "data/__transaction_state-0").glob("*.log")):
            data = path.read_bytes()
            for position, _ in batches.iter_batches(data):
                for record in batches.records(data, position):
                    assert record.key is not None
                    yield record.key, record.value

    def ask(self, api: ApiKey, version: int, request: Any) -> Any:  # noqa: ANN401 - any message
        response = self._connection.call(request, version_max=version)
        names = {ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID} & {api}
        if names:
            self._until(lambda: self._is_settled(request.transactional_id))
        return response

    def wait(self, time_ms: int) -> None:
        time.sleep(time_ms / 1000)

    def _connect(self) -> None:
        self._connection = Connection(
            "localhost", self._near.port, client_id=MAY_WRITE_INTERNAL_TOPICS, timeout_s=30
        )
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["ready"])
        init = InitProducerIdRequest("ready", transaction_timeout_ms=1_000)
        new_id = InitProducerIdRequest(None, transaction_timeout_ms=1_000)
        self._until(lambda: not self._connection.call(find).coordinators[0].error_code)
        self._until(lambda: self._connection.call(init).error_code not in NOT_READY)
        self._until(lambda: self._connection.call(new_id).error_code not in NOT_READY)

    def _create(self, topic: str, nodes: list[int]) -> None:
        """A topic that takes writes as long as all of `nodes` are there."""
        assignments = [CreatableReplicaAssignment(index, nodes) for index in range(2)]
        configs = [CreatableTopicConfig("min.insync.replicas", str(len(nodes)))]
        request = CreateTopicsRequest(
            topics=[CreatableTopic(topic, -1, -1, assignments, configs)], timeout_ms=10_000
        )
        self._until(lambda: not self._connection.call(request).topics[0].error_code)

    def _is_settled(self, transactional_id: str) -> bool:
        """Whether all has been done that follows of itself."""
        request = DescribeTransactionsRequest([transactional_id])
        state = self._connection.call(request).transaction_states[0]
        far = any(topic.topic == "far" for topic in state.topics)
        return far or not state.transaction_state.startswith("Prepare")

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_so():
            assert time.monotonic() < deadline, "Apache Kafka does not do it"
            time.sleep(POLL_S)


def now_ms() -> int:
    return int(time.time() * 1000)
