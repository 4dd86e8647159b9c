"""Segments are found by offset as in a plain sorted list."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.log import append_as_follower
from kwire.log.directory.files import Files
from kwire.log.reading.region import OpenFiles
from kwire.log.segment import Segment
from kwire.log.segments import Segments
from tests.log.configs import DEFAULTS, log_config
from tests.log.conftest import NOW_MS

if TYPE_CHECKING:
    from tests.log.conftest import MakeBatch, OpenLog


def check(segments: Segments, known: dict[int, Segment]) -> None:
    listed = [known[base] for base in sorted(known)]
    assert list(segments) == listed
    assert len(segments) == len(listed)
    assert segments.size_bytes == sum(segment.size_bytes for segment in listed)
    if not listed:
        return
    assert (segments.first, segments.active) == (listed[0], listed[-1])
    for offset in range(-1, 22):
        before = [segment for segment in listed if segment.base_offset <= offset]
        behind = [segment for segment in listed if segment.base_offset > offset]
        assert segments.floor(offset) == (before[-1] if before else None)
        assert segments.from_floor(offset) == [*before[-1:], *behind]
        for end in range(offset, 22):
            wanted = [*before[-1:], *(each for each in behind if each.base_offset < end)]
            wanted = [each for each in wanted if each.base_offset < end]
            assert segments.between(offset, end) == wanted
    for each, following in zip(listed, [*listed[1:], None], strict=True):
        assert segments.after(each) is following


@pytest.mark.parametrize("seed", range(6))
def test_segment_lookups_equal_those_of_a_dict(seed: int) -> None:
    chance = random.Random(seed)

    def made(base: int) -> Segment:
        return Segment(
            Path("never-written"),
            base,
            Files(),
            OpenFiles(),
            config=DEFAULTS,
            created_ms=NOW_MS,
            size_bytes=chance.randrange(100),
        )

    known = {base: made(base) for base in chance.sample(range(20), seed)}
    segments = Segments(chance.sample(list(known.values()), len(known)))
    check(segments, known)
    for _ in range(25):
        base = chance.randrange(20)
        if base in known and chance.random() < 0.6:
            segments.remove(known.pop(base))
        else:
            known[base] = made(base)
            segments.add(known[base])
        check(segments, known)


def test_batch_at_returns_the_batch_at_or_after_an_offset(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    """As after compaction, the log has gaps within and between segments."""
    log = open_log(log_config(index_interval_bytes=0))
    spans = [(3, 4), (5, 9), (12, 12), (20, 22), (30, 31)]
    for number, (first, last) in enumerate(spans):
        if number in (2, 3):
            log.roll(NOW_MS, first)
        batch = make_batch(last - first + 1, base_offset=first, partition_leader_epoch=0)
        append_as_follower(log, batch, leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 12, 20]
    for offset in range(34):
        found = log.segments.batch_at(offset)
        later = [first for first, last in spans if last >= offset]
        assert (found and found.base_offset) == (later[0] if later else None)
