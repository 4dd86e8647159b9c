"""The size of the segments of a coordinator's partition."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from tests.coordinators.runtime.test_coordinator_runtime import (
    TOPIC,
    commit,
    committed,
    lead,
    running,
)


async def test_segments_of_a_coordinator_roll_at_segment_bytes_max(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that is appended to never is, and `segment.bytes` is 1 GB in this test."""
    monkeypatch.setattr("kwire.coordinators.runtime.runtime.SEGMENT_BYTES_MAX", 1_000)
    async with running(tmp_path) as node:
        node.create("t", 3)
        node.create(TOPIC, cleanup_policy="compact")
        for offset in range(20):
            node.call(commit(offset, partitions=3), 8)
        sizes = [segment.size_bytes for segment in node.partition(TOPIC).log.segments]
        assert len(sizes) > 3
        assert all(1_000 < size < 2_000 for size in sizes[:-1]), sizes
        lead(node)
        await trio.testing.wait_all_tasks_blocked()
        assert committed(node) == [19, 19, 19]
