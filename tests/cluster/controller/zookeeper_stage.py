"""A cluster of three brokers on ZooKeeper, of which broker 1 is the controller."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.testing import BrokerProcess
from tests.cluster.controller.answers import LEADER_EPOCH, TIMEOUT_MS, State, TopicPartition

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "600000",  # who stands still stays in sync
    "zookeeper.session.timeout.ms": "600000",  # and a member
    "controlled.shutdown.enable": "false",
}
VERSIONS = {3: 12, 7: 3, 19: 7, 20: 6, 37: 3, 43: 2, 45: 0, 46: 0, 56: 3, 67: 0}
"""Of the requests, as Apache Kafka 3.9.2 serves them."""
PATIENCE_S = 120.0
QUIET_S = 3.0
"""A partition that has not changed for so long does not: a replica that joins takes less."""


class StagedBroker(Protocol):
    """One of the brokers, of Apache Kafka or of kwire."""

    port: int

    def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def kill(self) -> None: ...


def staged_brokers(
    directory: Path, connect: str, apache: Iterable[int] = ()
) -> dict[int, StagedBroker]:
    """Three brokers; those of `apache` are Apache Kafka's, the others kwire's."""
    brokers: dict[int, StagedBroker] = {}
    for broker_id in (1, 2, 3):
        own = directory / str(broker_id)
        if broker_id in apache:
            brokers[broker_id] = ZooKeeperBroker(own, connect, broker_id, settings=SETTINGS)
        else:
            settings = {"broker.id": str(broker_id), "zookeeper.connect": connect}
            brokers[broker_id] = BrokerProcess(own, {**settings, **SETTINGS})
    return brokers


class ZooKeeperStage:
    """See tests.cluster.controller.answers.Stage.

    If the next states of the partitions are known (`expected`, a mapping for each line), it waits
    for them; otherwise until they have not changed for a while.
    """

    def __init__(
        self,
        brokers: Mapping[int, StagedBroker],
        connect: str,
        expected: Iterable[Mapping[str, Sequence[object]]] | None = None,
    ) -> None:
        self.brokers = brokers
        self._zookeeper = KazooClient(connect, timeout=PATIENCE_S)
        self._expected = None if expected is None else iter(expected)

    def __enter__(self) -> Self:
        first, *others = self.brokers.values()
        first.start()
        self._zookeeper.start(timeout=PATIENCE_S)
        self._await_controller()
        for broker in others:
            broker.start()
        assert self._read("/controller")["brokerid"] == 1
        return self

    def _await_controller(self) -> None:
        """Wait until the first broker is the controller, before others start."""
        deadline = time.monotonic() + PATIENCE_S
        while self._zookeeper.exists("/controller") is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._zookeeper.stop()
        self._zookeeper.close()
        for broker in self.brokers.values():
            broker.kill()

    def _read(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        content, _ = self._zookeeper.get(path)
        return json.loads(content)

    def ask(self, request: Any, broker: int = 1) -> Any:  # noqa: ANN401 - any request and its reply
        peer = ClientConnection(("127.0.0.1", self.brokers[broker].port))
        version = VERSIONS[request.API_KEY]
        peer.send(request.API_KEY, version, request.encode(version))
        outcome = peer.receive(PATIENCE_S)
        peer.close()
        assert isinstance(outcome, Reply), outcome
        return outcome.message

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        given = [CreatableReplicaAssignment(*each) for each in enumerate(map(list, assignment))]
        response = self.ask(CreateTopicsRequest([CreatableTopic(topic, -1, -1, given)], TIMEOUT_MS))
        assert response.topics[0].error_code == 0, response

    def state(self, topic_partition: TopicPartition) -> State:
        found = self._written(topic_partition)
        assert found is not None, topic_partition
        return found

    def _written(self, topic_partition: TopicPartition) -> State | None:
        """The state of a partition; None before the controller has written it."""
        topic, index = topic_partition
        path = f"/brokers/topics/{topic}"
        try:
            assigned, state = self._read(path), self._read(f"{path}/partitions/{index}/state")
        except NoNodeError:
            return None
        return State(
            state["leader"],
            state["leader_epoch"],
            tuple(assigned["partitions"][str(index)]),
            frozenset(state["isr"]),
            tuple(assigned["adding_replicas"].get(str(index), ())),
            tuple(assigned["removing_replicas"].get(str(index), ())),
        )

    def settle(self, topic_partitions: Sequence[TopicPartition]) -> None:
        if self._expected is not None:
            self._await(topic_partitions, next(self._expected))
        elif topic_partitions:
            self._await_quiet(topic_partitions)

    def _await(
        self, topic_partitions: Sequence[TopicPartition], expected: Mapping[str, Sequence[object]]
    ) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for topic_partition in topic_partitions:
            wanted = without_epoch(expected[f"{topic_partition[0]}-{topic_partition[1]}"])
            while (found := self._told(topic_partition)) != wanted:
                assert time.monotonic() < deadline, (topic_partition, found, wanted)
                time.sleep(0.01)

    def _told(self, topic_partition: TopicPartition) -> list[object] | None:
        found = self._written(topic_partition)
        return None if found is None else without_epoch(found.as_list())

    def _await_quiet(self, topic_partitions: Sequence[TopicPartition]) -> None:
        deadline, since, seen = time.monotonic() + PATIENCE_S, time.monotonic(), None
        while time.monotonic() - since < QUIET_S:
            assert time.monotonic() < deadline, (topic_partitions, seen)
            found = [self._written(topic_partition) for topic_partition in topic_partitions]
            if found != seen:
                since, seen = time.monotonic(), found
            time.sleep(0.05)

    def pause(self, broker: int) -> None:
        self.brokers[broker].pause()

    def resume(self, broker: int) -> None:
        self.brokers[broker].resume()

    def kill(self, broker: int) -> None:
        self.brokers[broker].kill()
        self._zookeeper.delete(f"/brokers/ids/{broker}")  # its session would last ten minutes

    def start(self, broker: int) -> None:
        self.brokers[broker].start()


def without_epoch(values: Sequence[object]) -> list[object]:
    """The state of a partition without its leader epoch."""
    return [*values[:LEADER_EPOCH], *values[LEADER_EPOCH + 1 :]]
