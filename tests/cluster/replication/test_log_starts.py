"""Log start offsets of followers: DeleteRecords, retention, and followers that were away."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.codecs.errors import ErrorCode
from kwire.log import delete_expired_segments
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

OFTEN = {"replica.lag.time.max.ms": "400"}


def starts(controller: Controller) -> dict[int, int]:
    return {
        number: each.partition().log_start_offset for number, each in controller.members.items()
    }


async def test_delete_records_is_answered_after_all_live_replicas_deleted(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, 3) as controller:
        await controller.elect(1, [1, 2, 3])
        for number in range(5):
            await controller.produce(1, b"%d" % number)
        assert await controller.delete_records(1, 3) == (ErrorCode.NONE, 3)
        assert starts(controller) == {1: 3, 2: 3, 3: 3}
        assert await controller.delete_records(1, -1) == (ErrorCode.NONE, 5)
        assert starts(controller) == {1: 5, 2: 5, 3: 5}


async def test_delete_records_waits_for_a_lagging_live_follower_and_not_for_a_dead_one(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 1, 2, 3, settings=OFTEN) as controller:
        await controller.elect(1, [1, 2, 3])
        await controller.produce(1, b"a", b"b")
        await controller.produce(1, b"c", b"d")
        await controller.until_equal(1, 2, 3)
        await controller.stop_replica(3, delete=False)
        # It is a replica, out of sync or not.
        assert await controller.delete_records(1, 2, 300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await until(lambda: starts(controller) == {1: 2, 2: 2, 3: 0})
        answers: list[tuple[int, int]] = []

        async def delete() -> None:
            answers.append(await controller.delete_records(1, 3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await until(lambda: starts(controller) == {1: 3, 2: 3, 3: 0})
            assert answers == []
            controller.state.leader_epoch += 1
            for number in (1, 2, 3):
                assert await controller.tell(number) == ErrorCode.NONE
        assert answers == [(ErrorCode.NONE, 3)]
        await controller.end(3)
        await controller.tell_brokers()
        assert await controller.delete_records(1, 4) == (ErrorCode.NONE, 4)


@pytest.mark.parametrize("first", [4, 5, 6])
async def test_follower_that_ends_before_the_leaders_log_start_restarts_there(
    tmp_path: Path, first: int
) -> None:
    """The leader's log start may be within a batch: offsets 4 to 6 are one batch."""
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a", b"b")
        await controller.until_equal(1, 2)
        await controller.stop_replica(2, delete=False)
        await controller.elect(1, [1], only=[1])
        await controller.produce(1, b"c", b"d")
        await controller.produce(1, b"e", b"f", b"g")
        await controller.produce(1, b"h")
        assert (await controller.delete_records(1, first, 1))[0] == ErrorCode.REQUEST_TIMED_OUT
        await controller.tell(2)
        await until(lambda: set(controller.state.isr) == {1, 2})
        follower = controller.members[2].partition()
        assert (follower.log_start_offset, follower.log_end_offset) == (first, 8)
        assert controller.epochs_of(2) == [(2, 4), (2, 7)]
        await controller.end(1)
        await controller.elect(2, [2])
        assert await controller.produce(2, b"i") == (ErrorCode.NONE, 8)


async def test_new_follower_starts_at_the_leaders_log_start_offset(tmp_path: Path) -> None:
    """The log start may be within a batch after DeleteRecords; a restart keeps it."""
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1])
        await controller.produce(1, b"a", b"b", b"c")
        assert await controller.delete_records(1, 1) == (ErrorCode.NONE, 1)
        await controller.elect(1, [1], [1, 2])
        await controller.until_equal(1, 2)
        assert starts(controller) == {1: 1, 2: 1}
        await controller.end(2)
        await controller.start(2)
        await controller.elect(2, [1, 2])
        assert await controller.produce(2, b"d") == (ErrorCode.NONE, 3)
        assert starts(controller) == {1: 1, 2: 1}
        await controller.until_equal(1, 2)


async def test_follower_deletes_old_segments_by_its_own_retention(tmp_path: Path) -> None:
    """A follower deletes old segments by itself, and never starts before its leader."""
    async with cluster(tmp_path, 1, 2) as controller:
        controller.configure_topic(internal_segment_bytes="200", retention_bytes="400")
        await controller.elect(1, [1, 2])
        for number in range(20):
            await controller.produce(1, b"%060d" % number)
        await controller.until_equal(1, 2)
        leader, follower = (controller.members[each].partition() for each in (1, 2))
        assert len(follower.log.segments) == len(leader.log.segments) > 5
        now_ms = controller.members[2].broker.now_ms()
        assert delete_expired_segments(follower.log, now_ms, follower.high_watermark) > 3
        await controller.produce(1, b"more")
        await until(lambda: follower.log_end_offset == 21)
        kept = follower.log_start_offset
        assert kept > leader.log_start_offset == 0
        delete_expired_segments(leader.log, now_ms, leader.high_watermark)
        assert leader.log_start_offset >= kept
        await controller.produce(1, b"more")
        await until(lambda: starts(controller)[2] == leader.log_start_offset)
        await controller.elect(2, [1, 2])
        assert await controller.produce(2, b"more") == (ErrorCode.NONE, 22)
        await until(lambda: leader.log_end_offset == 23)
