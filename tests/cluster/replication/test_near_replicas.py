"""A consumer with a rack reads from a replica in the same rack (KIP-392)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.requests.handlers.fetching.near_replica import RACK_AWARE
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

SELECTS = {"replica.selector.class": RACK_AWARE, "replica.lag.time.max.ms": "60000"}


async def fetch(
    controller: Controller, broker_id: int, rack: str, offset: int = 0, wait_ms: int = 60_000
) -> PartitionData:
    """The Fetch has a long max wait, so an answer without records has come at once."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(controller.topic, partitions=[asked])],
        rack_id=rack,
    )
    answer = await controller.ask(broker_id, request, 11, FetchResponse)
    return answer.responses[0].partitions[0]


def size_of(data: PartitionData) -> int:
    """Bytes of the records that were sent."""
    assert isinstance(data.records, memoryview)
    return data.records.nbytes


async def test_consumer_is_redirected_to_the_replica_in_its_rack(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, settings=SELECTS) as controller:
        controller.racks = {1: "a", 2: "b", 3: "c"}
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"x")
        await controller.until_equal(1, 2, 3)
        reply = await fetch(controller, 1, "b", wait_ms=100)
        assert (reply.preferred_read_replica, size_of(reply)) == (2, 0)
        assert (reply.high_watermark, reply.log_start_offset) == (1, 0)
        there = await fetch(controller, 2, "b")
        assert there.error_code == ErrorCode.NONE
        assert size_of(there) > 0
        assert there.preferred_read_replica == -1
        assert (await fetch(controller, 1, "b", offset=1)).preferred_read_replica == 2
        for rack in ("a", "nowhere", ""):  # the leader's own, nobody's, and none
            here = await fetch(controller, 1, rack)
            assert (here.preferred_read_replica, size_of(here) > 0) == (-1, True)


async def test_replica_without_the_fetch_offset_is_not_preferred(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3, settings=SELECTS) as controller:
        controller.racks = {1: "a", 2: "b", 3: "b"}
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"x")
        await controller.until_equal(1, 2, 3)
        await controller.stop_replica(3, delete=False)
        assert await controller.produce(1, b"y", acks=1) == (ErrorCode.NONE, 1)
        leading = controller.members[1].partition().leading
        assert leading is not None
        follower = leading.follower(2)
        assert follower is not None
        await until(lambda: follower.log_end_offset == 2)
        assert (await fetch(controller, 1, "b", offset=2)).preferred_read_replica == 2
        await controller.elect(1, [1], [1, 2, 3], only=[1])
        assert size_of(await fetch(controller, 1, "b")) > 0  # nobody there is in sync


async def test_consumer_reads_from_the_leader_without_a_replica_selector(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        controller.racks = {1: "a", 2: "b"}
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"x")
        reply = await fetch(controller, 1, "b")
        assert (reply.preferred_read_replica, size_of(reply) > 0) == (-1, True)
