"""Replicas on kwire and Apache Kafka 3.9.2 follow each other, with equal requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest, ReplicaState
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing.zookeeper import ZooKeeperProcess
from tests.cluster.replication.apache import APACHE, obedient_broker
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

KWIRE = 2


@pytest.fixture(scope="module")
def apache(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    directory = tmp_path_factory.mktemp("apache")
    with obedient_broker(zookeeper, directory, "/replication") as broker:
        yield broker


async def until_both_have(controller: Controller, apache: ZooKeeperBroker, end: int) -> None:
    """Wait until both logs have equal bytes with this many records."""
    segment = apache.directory / "data" / f"{controller.topic}-0" / f"{0:020}.log"
    member = controller.members[KWIRE].partition(topic=controller.topic)
    await until(lambda: member.log_end_offset == end)
    await until(lambda: segment.read_bytes() == controller.bytes_of(KWIRE))


def fetches(controller: Controller, broker_id: int) -> list[FetchRequest]:
    """Requests of a follower to that broker, without fields of identity and time."""
    found = []
    for recorded in controller.recorders[broker_id].requests:
        body = recorded.body
        assert isinstance(body, FetchRequest) or "ApiVersions" in type(body).__name__, body
        if isinstance(body, FetchRequest):
            assert recorded.version == 17
            assert body.replica_state is not None
            assert body.replica_state.replica_id == 3 - broker_id
            body.replica_state, body.session_id = ReplicaState(), 0
            found.append(body)
    return found


def shape(requests: list[FetchRequest], session_epoch: int) -> bytes:
    """The last request of a partition, without its fetch offset."""
    found = [
        each for each in requests if each.topics and min(each.session_epoch, 1) == session_epoch
    ]
    request = replace(found[-1], session_epoch=session_epoch)
    [topic] = request.topics
    [partition] = topic.partitions
    known = replace(partition, current_leader_epoch=0, fetch_offset=0, last_fetched_epoch=0)
    return replace(request, topics=[replace(topic, partitions=[known])]).encode(17)


async def test_kwire_and_apache_kafka_follow_each_other_with_equal_requests(
    tmp_path: Path, apache: ZooKeeperBroker
) -> None:
    async with cluster(tmp_path, KWIRE, apache={APACHE: apache.port}, topic="turns") as controller:
        await controller.elect(APACHE, [APACHE, KWIRE])
        assert await controller.produce(APACHE, b"a", b"b") == (ErrorCode.NONE, 0)
        await until_both_have(controller, apache, 2)
        await controller.elect(KWIRE, [APACHE, KWIRE])
        assert await controller.produce(KWIRE, b"c", b"d") == (ErrorCode.NONE, 2)
        assert await controller.produce(KWIRE, b"e") == (ErrorCode.NONE, 4)
        await until_both_have(controller, apache, 5)
        by_kwire, by_apache = fetches(controller, APACHE), fetches(controller, KWIRE)
        for session_epoch in (0, 1):  # all there is, and what is new
            assert shape(by_kwire, session_epoch) == shape(by_apache, session_epoch)
        partition = [each for each in by_kwire if each.topics][-1].topics[0].partitions[0]
        assert (partition.current_leader_epoch, partition.fetch_offset) == (1, 2)
        assert (partition.last_fetched_epoch, partition.log_start_offset) == (1, 0)


@pytest.mark.parametrize("behind", [APACHE, KWIRE])
async def test_uncommitted_records_are_truncated_beside_apache_kafka(
    tmp_path: Path, apache: ZooKeeperBroker, behind: int
) -> None:
    ahead = 3 - behind
    topic = f"cut-{behind}"
    async with cluster(tmp_path, KWIRE, apache={APACHE: apache.port}, topic=topic) as controller:
        await controller.elect(behind, [APACHE, KWIRE])
        assert await controller.produce(behind, b"a") == (ErrorCode.NONE, 0)
        await until_both_have(controller, apache, 1)
        await controller.stop_replica(ahead, delete=False)
        assert await controller.produce(behind, b"lost", acks=1) == (ErrorCode.NONE, 1)
        assert await controller.produce(behind, b"lost", b"too", acks=1) == (ErrorCode.NONE, 2)
        await controller.elect(ahead, [ahead], only=[ahead])
        assert await controller.produce(ahead, b"kept") == (ErrorCode.NONE, 1)
        assert await controller.tell(behind) == ErrorCode.NONE
        await until_both_have(controller, apache, 2)
        assert controller.epochs_of(KWIRE) == [(1, 0), (2, 1)]
