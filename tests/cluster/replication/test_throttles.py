"""Replication quotas hold back throttled replicas that are out of sync, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.settings import ConfigResourceType
from tests.cluster.replication.cluster import TOPIC, Controller, Member, cluster, configure
from tests.inside import counting_stalls, until

pytestmark = pytest.mark.slow

LEADER, FOLLOWER = "leader", "follower"
BATCH_BYTES = 50_000
SMALL = {"replica.fetch.max.bytes": str(BATCH_BYTES), "replica.fetch.response.max.bytes": "65536"}
"""A Fetch of a follower gets one batch."""


def throttle(member: Member, side: str, replicas: str, rate: int | None) -> None:
    """Throttle the `side` of replication to `rate`; None removes the throttle."""
    configure(
        member,
        ConfigResourceType.TOPIC,
        TOPIC,
        **{f"{side}_replication_throttled_replicas": replicas},
    )
    rates = {} if rate is None else {f"{side}_replication_throttled_rate": str(rate)}
    configure(member, ConfigResourceType.BROKER, str(member.broker.node_id), **rates)


async def fill(controller: Controller, batches: int) -> int:
    """Produce `batches` at broker 1, the only in-sync replica; returns its log size."""
    for _ in range(batches):
        error, _ = await controller.produce(1, bytes(BATCH_BYTES - 100))
        assert error == ErrorCode.NONE
    return len(controller.bytes_of(1))


async def test_leader_above_its_rate_sends_no_records_to_out_of_sync_followers(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3, settings=SMALL) as controller:
        await controller.elect(1, [1, 2], [1, 2, 3], only=[1, 2])
        leader = controller.members[1]
        throttle(leader, LEADER, "0:1", 0)
        await fill(controller, 3)  # which 2 has, for it is in sync; it counts
        await controller.tell(3)
        third = controller.members[3].partition()
        progress = leader.partition().leading
        assert progress is not None
        await until(lambda: (one := progress.follower(3)) is not None and one.log_end_offset == 0)
        assert await controller.produce(1, b"more") == (ErrorCode.NONE, 3)
        assert (third.log_end_offset, leader.partition().isr) == (0, (1, 2))
        throttle(leader, LEADER, "0:2,1:1", 0)  # others than this one
        await until(lambda: set(leader.partition().isr) == {1, 2, 3})
        throttle(leader, LEADER, "0:1", 0)
        assert await controller.produce(1, b"more") == (ErrorCode.NONE, 4)  # all are in sync now
        await controller.until_equal(1, 2, 3)


async def test_follower_above_its_rate_does_not_fetch_partitions_that_are_behind(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, settings=SMALL) as controller:
        await controller.elect(1, [1], [1, 2], only=[1])
        await fill(controller, 3)
        second = controller.members[2]
        throttle(second, FOLLOWER, "*", 0)
        await controller.tell(2)
        await until(lambda: second.partition().log_end_offset == 1)
        follower = controller.members[1].partition().leading
        assert follower is not None
        with trio.move_on_after(0.3):  # a dozen of the pauses of a follower that may not fetch
            await until(lambda: second.partition().log_end_offset > 1)
        assert second.partition().log_end_offset == 1
        throttle(second, FOLLOWER, "*", None)
        await until(lambda: set(controller.state.isr) == {1, 2})
        throttle(second, FOLLOWER, "*", 0)
        assert await controller.produce(1, b"more") == (ErrorCode.NONE, 3)  # it is in sync
        await controller.until_equal(1, 2)


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
async def test_throttled_replication_keeps_the_rate(tmp_path: Path, side: str) -> None:
    """The rate is measured over three seconds, with a tolerance of one response."""
    rate = 500_000
    async with cluster(tmp_path, 1, 2, settings=SMALL) as controller:
        await controller.elect(1, [1], [1, 2], only=[1])
        size_bytes = await fill(controller, 30)
        throttle(controller.members[1 if side == LEADER else 2], side, "*", rate)
        async with counting_stalls() as stalls:
            began = trio.current_time()
            await controller.tell(2)
            await controller.until_equal(1, 2)
            took_s = trio.current_time() - began
        assert took_s >= (size_bytes - 2 * BATCH_BYTES) / rate
        assert took_s - stalls.for_s <= 1.15 * size_bytes / rate + 1
