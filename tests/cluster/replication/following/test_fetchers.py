"""Which fetcher copies a partition, and the controller that a broker knows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Role
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.fetchers import ReplicaFetchers
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.fetch import FetchRequest
from tests.cluster.replication.following_stage import (
    LEADER,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    fetched,
    following,
)
from tests.cluster.replication.simulation.broker import SimulatedHost

OTHER_LEADER = 3


@pytest.mark.parametrize(
    ("topic", "index", "count", "number"),
    [
        ("t", 0, 2, 0),
        ("t", 1, 2, 1),
        ("t", 5, 7, (31 * ord("t") + 5) % 7),
        ("t", 9, 1, 0),
        # The hash of this name, and 31 times that, do not fit into 32 bits.
        ("replication-topic", 0, 1000, None),
        ("t", 2**31 - 31 * ord("t"), 1000, 0),  # the least int32 has no absolute value
        ("t", 2**31 - 31 * ord("t") + 1, 1000, 2147483647 % 1000),
        ("t", 2**31 - 31 * ord("t") - 1, 1000, 2147483647 % 1000),
    ],
)
def test_fetcher_of_a_partition_follows_from_kafkas_formula(
    topic: str, index: int, count: int, number: int | None
) -> None:
    """Utils.abs(31 * topic.hashCode() + index) % num.replica.fetchers, in 32 bits."""
    host = SimpleNamespace(config=SimpleNamespace(num_replica_fetchers=count))
    fetchers = ReplicaFetchers(cast(Any, host), cast(Any, None), cast(Any, None))
    if number is None:
        code = 0
        for letter in topic:
            code = (31 * code + ord(letter)) % 2**32
        mixed = (31 * code + index) % 2**32
        number = (mixed if mixed < 2**31 else 2**32 - mixed) % count
    assert fetchers._number_of(topic, index) == number


async def test_idle_fetcher_ends_and_its_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[tuple[int, Role, int]] = []

    def release(host: SimulatedHost, broker_id: int, role: Role, number: int = 0) -> None:
        released.append((broker_id, role, number))

    monkeypatch.setattr(SimulatedHost, "release_peer", release)
    async with following(tmp_path, TRUNCATES_ON_FETCH, {"num.replica.fetchers": "2"}) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        await wait_all_tasks_blocked()
        assert len(stage.network.calls) == 2
        stage.send_leader_and_isr({1: 1}, 2)
        await wait_all_tasks_blocked()
        assert released == [(LEADER, Role.FETCHER, 1)]
        await stage.next_request(FetchRequest)


async def targets(stage: FollowingStage) -> list[int]:
    await wait_all_tasks_blocked()
    return sorted(call.target for call in stage.network.calls)


async def test_partition_is_fetched_from_its_new_leader_alone(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.network.handlers[OTHER_LEADER] = stage.network.handlers[LEADER]
        replicas = (1, LEADER, OTHER_LEADER)
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1, replicas=replicas)
        assert await targets(stage) == [LEADER]
        stage.send_leader_and_isr({0: OTHER_LEADER}, 2, replicas=replicas)
        assert await targets(stage) == [LEADER, OTHER_LEADER]
        [call] = [each for each in stage.network.calls if each.target == LEADER]
        await stage.answer(call, fetched())
        asked = {
            each.target: [
                partition.partition
                for topic in each.request.topics
                for partition in topic.partitions
            ]
            for each in stage.network.calls
            if isinstance(each.request, FetchRequest)
        }
        assert asked == {LEADER: [1], OTHER_LEADER: [0]}


# -- the controller


class ControllerPeer:
    """The controller, which knows AlterPartition up to this version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.calls: list[tuple[AlterPartitionRequest, int | None]] = []

    async def version_for(self, request: AlterPartitionRequest) -> int:
        return self.version

    async def call(
        self, request: AlterPartitionRequest, *, version_max: int | None = None
    ) -> AlterPartitionResponse:
        self.calls.append((request, version_max))
        return AlterPartitionResponse()


def context(controller_id: int, peer: ControllerPeer) -> ReplicationContext:
    """The context of broker 1, which knows this controller."""

    def find(broker_id: int, role: Role) -> ControllerPeer:
        assert (broker_id, role) == (controller_id, Role.TO_CONTROLLER)
        return peer

    made = ReplicationContext.__new__(ReplicationContext)
    made.node_id = 1
    made.peers = cast(Any, SimpleNamespace(peer=find))
    made._node = cast(Any, SimpleNamespace(image=ClusterImage("c", controller_id=controller_id)))
    return made


@pytest.mark.parametrize("controller_id", [NO_CONTROLLER, 1])
async def test_alter_partition_needs_another_broker_as_controller(controller_id: int) -> None:
    peer = ControllerPeer(3)
    with pytest.raises(PeerError) as failed:
        await context(controller_id, peer).alter_partition(AlterPartitionRequest())
    assert str(failed.value) == ("the controller: no other broker is known to be the controller")
    assert peer.calls == []


@pytest.mark.parametrize(("version", "plain"), [(2, [1, 3]), (3, [])])
async def test_alter_partition_is_sent_in_the_version_of_the_controller(
    version: int, plain: list[int]
) -> None:
    asked = RequestPartitionData(
        0, 4, new_isr_with_epochs=[BrokerState(1, -1), BrokerState(3, -1)], partition_epoch=6
    )
    request = AlterPartitionRequest(1, 9, [RequestTopicData(b"t" * 16, [asked])])
    peer = ControllerPeer(version)
    assert await context(0, peer).alter_partition(request) == AlterPartitionResponse()
    [(sent, version_max)] = peer.calls
    assert version_max == version
    assert (sent.broker_id, sent.broker_epoch, sent.topics[0].topic_id) == (1, 9, b"t" * 16)
    [partition] = sent.topics[0].partitions
    assert (partition.new_isr, partition.leader_epoch, partition.partition_epoch) == (plain, 4, 6)
