"""What a controller is answered: the same bytes to kwire and to Apache Kafka 3.9.2, one by one.

LeaderAndIsr v0-7, StopReplica v0-4, UpdateMetadata v0-8, from a controller that neither has heard
of; then what clients are told of the topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.codecs.messages import response_class
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kwire.codecs.primitives import ZERO_UUID, Message
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing.zookeeper import ZooKeeperProcess
from tests.cluster.replication.apache import APACHE, obedient_broker
from tests.cluster.replication.cluster import cluster
from tests.inside import RawClient
from tests.waiting import zookeeper_client

pytestmark = pytest.mark.slow

EPOCH = 100
OTHER = 2
"""A broker that requests name as alive, but that does not run."""


@pytest.fixture(scope="module")
def apache(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    directory = tmp_path_factory.mktemp("apache")
    with obedient_broker(zookeeper, directory, "/control") as broker:
        yield broker


@dataclass
class Step:
    """One request, and the name of its step."""

    name: str
    version: int
    request: Message


def state(
    index: int = 0,
    leader: int = APACHE,
    leader_epoch: int = 5,
    **more: Any,  # noqa: ANN401 - fields
) -> LeaderAndIsrPartitionState:
    fields = {"isr": [APACHE], "replicas": [APACHE], "is_new": True, **more}
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=EPOCH,
        leader=leader,
        leader_epoch=leader_epoch,
        **fields,
    )


def lead(
    version: int,
    topic: str,
    *states: LeaderAndIsrPartitionState,
    **more: Any,  # noqa: ANN401 - fields
) -> LeaderAndIsrRequest:
    """LeaderAndIsr of one topic, in that version."""
    topic_id = id_of(topic) if version >= 5 else ZERO_UUID
    fields: dict[str, Any] = {"controller_epoch": EPOCH, **more}
    leaders = [LeaderAndIsrLiveLeader(OTHER, "127.0.0.1", 1)]
    request = LeaderAndIsrRequest(controller_id=9, live_leaders=leaders, **fields)
    if version < 2:
        for each in states:
            each.topic_name = topic
        request.ungrouped_partition_states = list(states)
    else:
        request.topic_states = [LeaderAndIsrTopicState(topic, topic_id, list(states))]
    return request


def id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\1")


def stop(
    version: int,
    topic: str,
    indexes: list[int],
    leader_epoch: int = -1,
    **more: Any,  # noqa: ANN401 - fields
) -> StopReplicaRequest:
    """StopReplica of one topic, in that version."""
    delete = more.pop("delete", False)
    fields: dict[str, Any] = {"controller_epoch": EPOCH, **more}
    request = StopReplicaRequest(controller_id=9, **fields)
    if version >= 3:
        states = [StopReplicaPartitionState(each, leader_epoch, delete) for each in indexes]
        request.topic_states = [StopReplicaTopicState(topic, states)]
        return request
    request.delete_partitions = delete
    if version >= 1:
        request.topics = [StopReplicaTopicV1(topic, indexes)]
    else:
        request.ungrouped_partitions = [StopReplicaPartitionV0(topic, each) for each in indexes]
    return request


def update(
    version: int,
    topic: str,
    leader: int = APACHE,
    **more: Any,  # noqa: ANN401 - fields
) -> UpdateMetadataRequest:
    """UpdateMetadata of one topic with three partitions, in that version."""
    states = [
        UpdateMetadataPartitionState(topic, 0, EPOCH, leader, 5, [APACHE], 1, [APACHE, OTHER]),
        UpdateMetadataPartitionState(
            topic, 2, EPOCH, -1, 6, [OTHER], 2, [OTHER], [OTHER][: version // 4]
        ),
    ]
    listener = "PLAINTEXT" if version >= 3 else ""
    brokers = [
        UpdateMetadataBroker(
            each,
            "127.0.0.1" if version == 0 else "",
            each if version == 0 else 0,
            [UpdateMetadataEndpoint(each, "127.0.0.1", listener, 0)] if version else [],
            "a" if version >= 2 else "",
        )
        for each in (APACHE, OTHER)
    ]
    fields: dict[str, Any] = {"controller_epoch": EPOCH, **more}
    request = UpdateMetadataRequest(controller_id=APACHE, live_brokers=brokers, **fields)
    if version < 5:
        request.ungrouped_partition_states = states
    else:
        for each in states:
            each.topic_name = ""
        topic_id = id_of(topic) if version >= 7 else ZERO_UUID
        request.topic_states = [UpdateMetadataTopicState(topic, topic_id, states)]
    return request


def steps(broker_epoch: int) -> Iterator[Step]:
    yield from lead_steps(broker_epoch)
    yield from stop_steps(broker_epoch)
    yield from update_steps(broker_epoch)


def lead_steps(broker_epoch: int) -> Iterator[Step]:
    for version in range(8):
        topic = f"l{version}"
        yield Step("leads", version, lead(version, topic, state(), state(1)))
        yield Step("known epoch", version, lead(version, topic, state()))
        yield Step("lower epoch", version, lead(version, topic, state(leader_epoch=4)))
        yield Step("no replica", version, lead(version, topic, state(2, replicas=[OTHER])))
        both = state(leader_epoch=6), state(2, replicas=[OTHER], leader_epoch=6)
        yield Step("one good, one bad", version, lead(version, topic, *both))
        follows = state(3, OTHER, isr=[OTHER], replicas=[APACHE, OTHER])
        yield Step("follows", version, lead(version, topic, follows))
        gone = state(4, 77, isr=[77], replicas=[APACHE, 77])
        yield Step("leader is not alive", version, lead(version, topic, gone))
        none = state(5, -1, isr=[OTHER], replicas=[APACHE, OTHER])
        yield Step("nobody leads", version, lead(version, topic, none))
        twice = state(6), state(6)
        yield Step("named twice", version, lead(version, topic, *twice))
        yield Step("no partition", version, lead(version, topic))
        old = lead(version, topic, state(leader_epoch=9), controller_epoch=EPOCH - 1)
        yield Step("old controller", version, old)
        if version >= 2:
            right = lead(version, topic, state(leader_epoch=10), broker_epoch=broker_epoch)
            yield Step("broker epoch", version, right)
            old = lead(version, topic, state(leader_epoch=11), broker_epoch=broker_epoch - 1)
            yield Step("old broker epoch", version, old)
            later = lead(version, topic, state(leader_epoch=12), broker_epoch=broker_epoch + 1)
            yield Step("later broker epoch", version, later)
        if version >= 5:
            other = lead(version, topic, state(leader_epoch=20))
            other.topic_states[0].topic_id = b"another id, 16 b"
            yield Step("another topic id", version, other)
            other = lead(version, topic, state(leader_epoch=21))
            other.topic_states[0].topic_id = ZERO_UUID
            yield Step("no topic id", version, other)
    yield Step("id comes later", 5, lead(5, "l2", state(leader_epoch=12)))
    yield Step("id comes with an epoch", 5, lead(5, "l3", state(leader_epoch=13)))
    yield Step("has an id by now", 5, lead(5, "l3", state(leader_epoch=13)))


def stop_steps(broker_epoch: int) -> Iterator[Step]:
    for version in range(5):
        topic = f"s{version}"
        three = [state(each, replicas=[APACHE]) for each in range(3)]
        yield Step("leads", 7, lead(7, topic, *three))
        yield Step("stop", version, stop(version, topic, [0]))
        yield Step("stopped", version, stop(version, topic, [0]))
        yield Step("unknown", version, stop(version, topic, [9]))
        yield Step("unknown, delete", version, stop(version, topic, [9], delete=True))
        if version >= 3:
            yield Step("lower epoch", version, stop(version, topic, [0, 1], 4))
            yield Step("its epoch", version, stop(version, topic, [0], 5))
            yield Step("known epoch after stop", 7, lead(7, topic, state()))
            yield Step("being deleted", version, stop(version, topic, [2], -2, delete=True))
        yield Step("delete", version, stop(version, topic, [1], delete=True))
        yield Step("known epoch after delete", 7, lead(7, topic, state(1)))
        old = stop(version, topic, [0], controller_epoch=EPOCH - 1)
        yield Step("old controller", version, old)
        if version >= 1:
            old = stop(version, topic, [0], broker_epoch=broker_epoch - 1)
            yield Step("old broker epoch", version, old)


def update_steps(broker_epoch: int) -> Iterator[Step]:
    for version in range(9):
        topic = f"u{version}"
        yield Step("update", version, update(version, topic))
        shown = MetadataRequest([MetadataRequestTopic(ZERO_UUID, topic)], False)
        yield Step("metadata", 9, shown)
        yield Step("no leader", version, update(version, topic, -1))
        yield Step("metadata", 9, shown)
        yield Step("old controller", version, update(version, topic, controller_epoch=EPOCH - 1))
        if version >= 5:
            old = update(version, topic, broker_epoch=broker_epoch - 1)
            yield Step("old broker epoch", version, old)
        yield Step("being deleted", version, update(version, topic, -2))
        yield Step("metadata", 9, shown)


def broker_epoch_of(zookeeper: ZooKeeperProcess) -> int:
    with zookeeper_client(zookeeper.connect("/control")) as client:
        _, stat = client.get(f"/brokers/ids/{APACHE}")
        return int(stat.czxid)


def comparable(reply: Any) -> str:  # noqa: ANN401 - any response
    """The comparable part of an answer, sorted: Apache Kafka's order varies."""
    if isinstance(reply, MetadataResponse):
        brokers = sorted((each.node_id, each.port, each.rack) for each in reply.brokers)
        return f"{brokers} {reply.controller_id} {reply.topics}"
    errors = list(reply.partition_errors) if hasattr(reply, "partition_errors") else []
    for topic in getattr(reply, "topics", ()):
        errors += topic.partition_errors
    outcomes = sorted((each.topic_name, each.partition_index, each.error_code) for each in errors)
    ids = sorted(topic.topic_id for topic in getattr(reply, "topics", ()))
    return f"{reply.error_code} {outcomes} {ids}"


async def answers(port: int, broker_epoch: int) -> list[tuple[str, int, str]]:
    outcomes = []
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        client = RawClient(stream)
        for step in steps(broker_epoch):
            assert step.request.API_KEY is not None
            kind = response_class(step.request.API_KEY)
            reply: Any = await client.ask(step.request, step.version, kind)
            outcomes.append(
                (f"{type(step.request).__name__}: {step.name}", step.version, comparable(reply))
            )
    return outcomes


async def test_controller_requests_are_answered_as_by_apache_kafka(
    tmp_path: Path, zookeeper: ZooKeeperProcess, apache: ZooKeeperBroker
) -> None:
    broker_epoch = broker_epoch_of(zookeeper)
    expected = await answers(apache.port, broker_epoch)
    async with cluster(tmp_path, APACHE) as controller:
        controller.members[APACHE].host.broker_epoch = broker_epoch
        outcomes = await answers(controller.port_of(APACHE), broker_epoch)
    different = [pair for pair in zip(outcomes, expected, strict=True) if pair[0] != pair[1]]
    assert not different, "\n".join(f"{one}\n    Apache Kafka {two[2]}" for one, two in different)
