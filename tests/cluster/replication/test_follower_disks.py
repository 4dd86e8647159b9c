"""A follower with two log directories: one fails, or a partition moves between them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.settings import ConfigResourceType
from kwire.storage.partitions import moving
from tests.cluster.replication.cluster import TOPIC, Controller, Member, cluster, configure
from tests.inside import until

pytestmark = pytest.mark.slow

KEY = (TOPIC, 0)


async def start_with_two_disks(controller: Controller, directory: Path) -> Member:
    """Broker 2."""
    dirs = f"{directory / 'a'},{directory / 'b'}"
    await controller.start(2, settings={"log.dirs": dirs})
    return controller.members[2]


def other_disk(member: Member) -> Path:
    here = member.partition().log.dir.parent
    (other,) = (each.path for each in member.broker.logs.online_dirs if each.path != here)
    return other


async def test_follower_stops_fetching_when_its_log_directory_fails(tmp_path: Path) -> None:
    lag = {"replica.lag.time.max.ms": "400"}
    async with cluster(tmp_path, 1, settings=lag) as controller:
        follower = await start_with_two_disks(controller, tmp_path)
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a")
        await controller.until_equal(1, 2)
        # The first of log.dirs has the metadata of this test's brokers.
        target = other_disk(follower)
        follower.broker.logs.moves.move(KEY, str(target))
        await until(lambda: follower.partition().log.dir.parent == target)
        log = follower.partition().log
        (lost,) = (each for each in follower.broker.logs.online_dirs if each.path == log.dir.parent)
        follower.broker.logs.dirs.dir_failed(lost, OSError(errno.EIO, "Input/output error"))
        assert log.offline
        assert await controller.produce(1, b"b") == (ErrorCode.NONE, 1)
        assert controller.state.isr == (1,)
        controller.state.leader_epoch += 1
        assert await controller.tell(2) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await controller.stop_replica(2, delete=False) == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(follower.broker.logs.online_dirs) == 1


async def test_followed_partition_moves_to_another_log_directory(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as controller:
        follower = await start_with_two_disks(controller, tmp_path)
        await controller.elect(1, [1, 2])
        target = other_disk(follower)

        async def produce(count: int) -> None:
            for _ in range(count):
                assert (await controller.produce(1, bytes(50_000)))[0] == ErrorCode.NONE

        await produce(20)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, 60)
            follower.broker.logs.moves.move(KEY, str(target))
        await until(lambda: follower.partition().log.dir.parent == target)
        await produce(1)
        await controller.until_equal(1, 2)
        await controller.elect(2, [1, 2])
        assert await controller.produce(2, b"on") == (ErrorCode.NONE, 81)
        await controller.until_equal(1, 2)


async def test_partition_truncated_during_a_move_is_copied_without_the_removed_records(
    tmp_path: Path,
) -> None:
    """Records that the copy has, and that the log has lost, are in neither afterwards."""
    async with cluster(tmp_path, 1) as controller:
        follower = await start_with_two_disks(controller, tmp_path)
        await controller.elect(2, [1, 2])
        await controller.produce(2, b"kept")
        await controller.until_equal(1, 2)
        await controller.stop_replica(1, delete=False)
        for _ in range(30):
            await controller.produce(2, b"lost".zfill(50_000), acks=1)
        own = str(follower.broker.node_id)
        configure(follower, ConfigResourceType.BROKER, own, **{moving.RATE.replace(".", "_"): "0"})
        target, moves = other_disk(follower), follower.broker.logs.moves
        moves.move(KEY, str(target))
        await until(lambda: moves.copies[KEY].log.log_end_offset > 10)  # no more, for the rate
        await controller.elect(1, [1], only=[1])
        await controller.produce(1, b"new")
        await controller.tell(2)
        await until(lambda: set(controller.state.isr) == {1, 2})
        assert follower.partition().log.dir.parent != target
        configure(follower, ConfigResourceType.BROKER, own)
        await until(lambda: follower.partition().log.dir.parent == target)
        await controller.until_equal(1, 2)
        assert controller.epochs_of(2) == [(1, 0), (2, 1)]
