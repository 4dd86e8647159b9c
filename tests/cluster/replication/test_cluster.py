"""Three brokers replicate a partition: acknowledged records survive, and replicas become equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from tests.cluster.replication.cluster import cluster
from tests.inside import until

pytestmark = pytest.mark.slow


async def test_acknowledged_records_are_on_all_in_sync_replicas(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as controller:
        await controller.elect(1, [1, 2, 3])
        for number in range(5):
            assert await controller.produce(1, b"%d" % number) == (ErrorCode.NONE, number)
            for member in controller.members.values():
                assert member.partition().log_end_offset == number + 1
        await controller.until_equal(1, 2, 3)
        assert controller.epochs_of(3) == [(1, offset) for offset in range(5)]


async def test_next_leader_continues_the_log(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as controller:
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"a", b"b")
        await controller.end(1)
        await controller.elect(2, [2, 3])
        assert await controller.produce(2, b"c") == (ErrorCode.NONE, 2)
        await controller.start(1)
        await controller.elect(3, [2, 3])
        assert await controller.produce(3, b"d") == (ErrorCode.NONE, 3)
        await controller.until_equal(1, 2, 3)
        assert controller.epochs_of(1) == [(1, 0), (2, 2), (3, 3)]
        await until(lambda: set(controller.state.isr) == {1, 2, 3})
        await until(lambda: controller.members[3].partition().isr == controller.state.isr)


async def test_uncommitted_records_of_an_old_leader_are_truncated(tmp_path: Path) -> None:
    """A leader without its followers accepts acks=1; the next leader never had that record."""
    async with cluster(tmp_path, 1, 2, 3) as controller:
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"a")
        for number in (2, 3):
            await controller.stop_replica(number, delete=False)
        assert await controller.produce(1, b"lost", acks=1) == (ErrorCode.NONE, 1)
        assert await controller.produce(1, b"lost", b"too", acks=1) == (ErrorCode.NONE, 2)
        assert controller.members[1].partition().high_watermark == 1
        await controller.elect(2, [2, 3], only=[2, 3])
        assert await controller.produce(2, b"kept") == (ErrorCode.NONE, 1)
        assert await controller.tell(1) == ErrorCode.NONE
        await controller.until_equal(1, 2, 3)
        assert controller.epochs_of(1) == [(1, 0), (2, 1)]


async def test_isr_shrinks_without_a_follower_and_grows_when_it_returns(tmp_path: Path) -> None:
    lag = {"replica.lag.time.max.ms": "400"}
    async with cluster(tmp_path, 1, 2, 3, settings=lag) as controller:
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"a")
        await controller.stop_replica(3, delete=False)
        assert await controller.produce(1, b"b") == (ErrorCode.NONE, 1)
        # On a machine that stood still broker 2 may have gone, too, and comes back.
        await until(lambda: controller.state.isr == (1, 2))
        await until(lambda: controller.members[1].partition().isr == (1, 2))
        await controller.elect(1, [1, 2])
        await until(lambda: set(controller.state.isr) == {1, 2, 3})
        await controller.until_equal(1, 2, 3)


async def test_deleted_replicas_leave_no_files(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a")
        assert await controller.stop_replica(2, delete=True) == ErrorCode.NONE
        assert controller.members[2].broker.hosted.by_topic == {}
        assert controller.members[2].broker.logs.logs == {}
        controller.state.leader_epoch += 1
        assert await controller.tell(2) == ErrorCode.NONE
        assert await controller.tell(1) == ErrorCode.NONE
        await controller.until_equal(1, 2)
