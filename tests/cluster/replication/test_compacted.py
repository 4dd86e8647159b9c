"""Each replica compacts its log alone, and readers of any replica see equal records."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.log import Log
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

QUICK = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "1048576",
    "log.flush.scheduler.interval.ms": "100",  # what is not flushed is not compacted
}
KEYS = 7


def compacted(controller: Controller) -> None:
    controller.configure_topic(
        cleanup_policy="compact",
        internal_segment_bytes="1000",
        min_cleanable_dirty_ratio="0.01",
        file_delete_delay_ms="0",
        flush_ms="100",
    )


async def produce(controller: Controller, leader: int, first: int, count: int) -> None:
    """Produce batches of two records with a few keys."""
    now_ms = Broker.now_ms()
    for number in range(first, first + count):
        pair = [
            Record(at, now_ms, b"%d" % ((number + at) % KEYS), b"%050d" % number) for at in (0, 1)
        ]
        error, _ = await controller.produce_batch(leader, build(pair))
        assert error == ErrorCode.NONE


def newest(count: int) -> dict[bytes | None, bytes | None]:
    """The last value of each key in the first `count` batches."""
    return {
        b"%d" % ((number + at) % KEYS): b"%050d" % number
        for number in range(count)
        for at in (0, 1)
    }


def view(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records that a reader of the whole log gets."""
    found = []
    for segment in log.segments:
        data = segment.path.read_bytes()
        for at, header in iter_batches(memoryview(data)):
            found += [
                (each.offset, each.key, each.value)
                for each in records(data, at)
                if not header.is_control
            ]
    return found


async def until_compacted(log: Log) -> None:
    """Compact the log as far as allowed."""
    await until(lambda: log.first_dirty_offset == log.segments.active.base_offset)


async def test_each_replica_compacts_alone_and_readers_see_equal_records(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, settings=QUICK) as controller:
        compacted(controller)
        await controller.elect(1, [1, 2])
        await produce(controller, 1, 0, 100)
        first, second = (controller.members[each].partition().log for each in (1, 2))
        await until(lambda: second.log_end_offset == 200)
        await until_compacted(first)
        await until_compacted(second)
        assert len(view(first)) < 60
        assert view(second) == view(first)
        assert {key: value for _, key, value in view(second)} == newest(100)


async def test_follower_of_a_compacted_log_can_lead_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, settings=QUICK) as controller:
        compacted(controller)
        await controller.elect(1, [1], [1, 2])
        await controller.stop_replica(2, delete=True)
        await controller.elect(1, [1], only=[1])
        await produce(controller, 1, 0, 100)
        await until_compacted(controller.members[1].partition().log)
        controller.configure_topic(cleanup_policy="delete", internal_segment_bytes="1000")
        compacted_view = view(controller.members[1].partition().log)
        await controller.tell(2)
        await until(lambda: set(controller.state.isr) == {1, 2})
        follower = controller.members[2].partition()
        assert follower.log_end_offset == 200
        assert view(follower.log) == compacted_view
        await controller.elect(2, [1, 2])
        await produce(controller, 2, 100, 5)
        await controller.until_equal(1, 2)
