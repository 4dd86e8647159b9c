"""A broker that runs transaction scripts: its answers, and its `__transaction_state` log.

The log has one partition; the topic `t` has two.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kwire.client.connection import BrokerConnection
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
from kwire.txn.records import TransactionRecord, decode
from tests.polling import until

MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
TRANSACTION = 1  # FindCoordinator's key type
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class BrokerTarget:
    """A `conformance.txn_script.Target`; the broker has been started with SETTINGS."""

    def __init__(self, port: int, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.connection = BrokerConnection(
            "localhost", port, client_id=MAY_WRITE_INTERNAL_TOPICS, timeout_s=120
        )
        call = self.connection.call
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["ready"])
        init = InitProducerIdRequest("ready", transaction_timeout_ms=1_000)
        new_id = InitProducerIdRequest(None, transaction_timeout_ms=1_000)
        until(lambda: not call(find).coordinators[0].error_code)
        until(lambda: call(init).error_code not in NOT_READY)
        until(lambda: call(new_id).error_code not in NOT_READY)

    def close(self) -> None:
        self.connection.close()

    def create(self, topic: str, nodes: list[int]) -> None:
        """A topic that takes writes as long as all of `nodes` are there."""
        assignments = [CreatableReplicaAssignment(index, nodes) for index in range(2)]
        configs = [CreatableTopicConfig("min.insync.replicas", str(len(nodes)))]
        request = CreateTopicsRequest(
            topics=[CreatableTopic(topic, -1, -1, assignments, configs)], timeout_ms=10_000
        )
        made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # the latter after a time-out
        until(lambda: self.connection.call(request).topics[0].error_code in made)

    def ask(self, api: ApiKey, version: int, request: Any) -> Any:  # noqa: ANN401 - any message
        response = self.connection.call(request, version_max=version)
        if api in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
            until(lambda: self._is_settled(request.transactional_id))
        return response

    def wait(self, time_ms: int) -> None:
        time.sleep(time_ms / 1000)

    def logged(self, transactional_id: str) -> list[TransactionRecord]:
        """The records of an id, in the order of the log."""
        # A record of another id takes along the one that kwire may have deferred.
        answer = self.connection.call(InitProducerIdRequest("ready", transaction_timeout_ms=1_000))
        assert answer.error_code == ErrorCode.NONE
        records = (decode(key, value) for key, value in self._log())
        return [each for each in records if each and each.transactional_id == transactional_id]

    def _log(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        for path in sorted((self._data_dir / "__transaction_state-0").glob("*.log")):
            data = path.read_bytes()
            for position, _ in batches.iter_batches(data):
                for record in batches.records(data, position):
                    yield record.key, record.value

    def _is_settled(self, transactional_id: str) -> bool:
        """Whether all has been done that follows of itself."""
        request = DescribeTransactionsRequest([transactional_id])
        state = self.connection.call(request).transaction_states[0]
        far = any(topic.topic == "far" for topic in state.topics)
        return far or not state.transaction_state.startswith("Prepare")
