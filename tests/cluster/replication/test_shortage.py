"""A replica without room on disk is created once there is room, without a restart."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.cluster.replication import controller_requests
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
    """A leader, and a follower that found no room for its replica and has room now."""
    monkeypatch.setattr(controller_requests, "ASK_AGAIN_S", 0.05)
    async with cluster(directory, 1, 2) as controller:
        await controller.elect(1, [1], [1, 2], only=[1])
        with monkeypatch.context() as disk:
            disk.setattr(LogManager, "_make_place", full)
            assert await controller.tell(2) == ErrorCode.KAFKA_STORAGE_ERROR
            assert controller.members[2].broker.hosted.get(TOPIC, 0) is None
        await until(lambda: controller.members[2].broker.hosted.get(TOPIC, 0) is not None)
        yield controller


async def test_replica_is_created_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with no_room_on_the_follower(tmp_path, monkeypatch) as controller:
        assert await controller.produce(1, b"a") == (ErrorCode.NONE, 0)
        await until(lambda: controller.state.isr == (1, 2))
        await controller.until_equal(1, 2)


async def test_late_stop_replica_after_a_shortage_does_not_end_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller treats a replica without room as offline, and stops it."""
    async with no_room_on_the_follower(tmp_path, monkeypatch) as controller:
        assert await controller.stop_replica(2, delete=False) == ErrorCode.NONE
        assert await controller.tell(2) == ErrorCode.NONE
        assert await controller.produce(1, b"a") == (ErrorCode.NONE, 0)
        await controller.until_equal(1, 2)
        # As of Apache Kafka: it is told nothing new then.
        assert await controller.stop_replica(2, delete=False) == ErrorCode.NONE
        assert await controller.tell(2) == ErrorCode.STALE_CONTROLLER_EPOCH
