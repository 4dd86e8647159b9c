"""A replica that there was no room for is made once there is, without a restart."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.cluster.replication import manager
from kwire.codecs.errors import ErrorCode
from kwire.log import LogManager
from tests.cluster.replication.cluster import TOPIC, Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow


def full(*_: object) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device")


@asynccontextmanager
async def no_room_on_the_follower(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Controller]:
    """A leader, and a follower that had no room for its replica, and has it now."""
    monkeypatch.setattr(manager, "ASK_AGAIN_S", 0.05)
    async with cluster(directory, 1, 2) as controller:
        await controller.elect(1, [1], [1, 2], only=[1])
        with monkeypatch.context() as disk:
            disk.setattr(LogManager, "_make_place", full)
            assert await controller.tell(2) == ErrorCode.KAFKA_STORAGE_ERROR
            assert controller.members[2].broker.hosted.get(TOPIC, 0) is None
        await until(lambda: controller.members[2].broker.hosted.get(TOPIC, 0) is not None)
        yield controller


async def test_a_replica_is_made_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with no_room_on_the_follower(tmp_path, monkeypatch) as controller:
        assert await controller.produce(1, b"a") == (ErrorCode.NONE, 0)
        await until(lambda: controller.state.isr == (1, 2))
        await controller.until_equal(1, 2)


async def test_a_stop_that_comes_late_is_not_the_end_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller takes for lost what there was no room for, and has it stopped."""
    async with no_room_on_the_follower(tmp_path, monkeypatch) as controller:
        assert await controller.stop_replica(2, delete=False) == ErrorCode.NONE
        assert await controller.tell(2) == ErrorCode.NONE
        assert await controller.produce(1, b"a") == (ErrorCode.NONE, 0)
        await controller.until_equal(1, 2)
        # As of Apache Kafka: it is told nothing new then.
        assert await controller.stop_replica(2, delete=False) == ErrorCode.NONE
        assert await controller.tell(2) == ErrorCode.STALE_CONTROLLER_EPOCH
