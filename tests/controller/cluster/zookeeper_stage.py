"""A cluster of Apache Kafka 3.9.2 brokers on ZooKeeper, of which broker 1 is the controller."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.conformance.wire.peer import Peer, Reply
from tests.controller.cluster.answers import TIMEOUT_MS, Place, State

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "600000",  # who stands still stays in sync
    "zookeeper.session.timeout.ms": "600000",  # and a member
    "controlled.shutdown.enable": "false",
}
VERSIONS = {19: 7, 43: 2, 45: 0, 46: 0}
"""Of the requests, as Apache Kafka 3.9.2 serves them."""
PATIENCE_S = 120.0
QUIET_S = 3.0
"""A partition that has not changed for so long does not: a replica that joins takes less."""


class ZooKeeperStage:
    """See tests.controller.cluster.answers.Stage."""

    def __init__(self, directory: Path, connect: str) -> None:
        self.brokers = {
            broker_id: ZooKeeperBroker(
                directory / str(broker_id), connect, broker_id, settings=SETTINGS
            )
            for broker_id in (1, 2, 3)
        }
        self._zookeeper = KazooClient(connect)

    def __enter__(self) -> ZooKeeperStage:
        for broker in self.brokers.values():  # the first one becomes the controller
            broker.start()
        self._zookeeper.start()
        assert self._read("/controller")["brokerid"] == 1
        return self

    def __exit__(self, *_: object) -> None:
        self._zookeeper.stop()
        self._zookeeper.close()
        for broker in self.brokers.values():
            broker.kill()

    def _read(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        content, _ = self._zookeeper.get(path)
        return json.loads(content)

    def ask(self, request: Any) -> Any:  # noqa: ANN401 - any request and its reply
        peer = Peer(("127.0.0.1", self.brokers[1].port))
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
        self.settle([(topic, index) for index in range(len(assignment))])

    def state(self, place: Place) -> State:
        topic, index = place
        path = f"/brokers/topics/{topic}"
        assigned, state = self._read(path), self._read(f"{path}/partitions/{index}/state")
        return State(
            state["leader"],
            state["leader_epoch"],
            tuple(assigned["partitions"][str(index)]),
            frozenset(state["isr"]),
            tuple(assigned["adding_replicas"].get(str(index), ())),
            tuple(assigned["removing_replicas"].get(str(index), ())),
        )

    def settle(self, places: Sequence[Place]) -> None:
        if not places:
            return
        deadline, since, seen = time.monotonic() + PATIENCE_S, time.monotonic(), None
        while time.monotonic() - since < QUIET_S:
            assert time.monotonic() < deadline, (places, seen)
            found = [self.state(place) for place in places]
            if found != seen:
                since, seen = time.monotonic(), found
            time.sleep(0.05)

    def pause(self, broker: int) -> None:
        self.brokers[broker].pause()

    def resume(self, broker: int) -> None:
        self.brokers[broker].resume()
        self._everywhere()

    def kill(self, broker: int) -> None:
        self.brokers[broker].kill()
        self._zookeeper.delete(f"/brokers/ids/{broker}")  # its session would last ten minutes
        self._everywhere()

    def start(self, broker: int) -> None:
        self.brokers[broker].start()
        self._everywhere()

    def _everywhere(self) -> None:
        """Wait until all partitions are as they stay."""
        places = [
            (topic, int(index))
            for topic in self._zookeeper.get_children("/brokers/topics")
            for index in self._zookeeper.get_children(f"/brokers/topics/{topic}/partitions")
        ]
        self.settle(places)
