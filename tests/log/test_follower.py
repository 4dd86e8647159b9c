"""A follower's log is its leader's: files, producers, transactions, epochs, ends of segments."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import (
    BatchHeader,
    Compression,
    ControlType,
    Record,
    build,
    control_batch,
    iter_batches,
)
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogError,
    Origin,
    aborted_in,
    aborted_transactions,
    append_as_follower,
    epoch_for,
    max_timestamp_offset,
    truncate_fully,
)
from tests.log.compaction.legacy_messages import message, wrapped
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, MakeBatch, OpenLog, ReadAll

RECORD_BYTES = 68
"""Of a batch with one empty record."""
BASE = log_config(index_interval_bytes=0, segment_bytes=1_000_000)
CONFIGS = {
    "one segment": BASE,
    "by size": replace(BASE, segment_bytes=6 * RECORD_BYTES),
    "by time": replace(BASE, segment_ms=40),
    "by a full index": replace(BASE, segment_index_bytes=60),
}


def write(log: Log, rng: random.Random, leader_epoch: int, now_ms: int) -> None:
    """Append a plain batch, one of a producer, one of a transaction, or a marker."""
    if rng.random() < 0.5:
        data = build([Record(0, now_ms, None, b"")])
        log.append(data, leader_epoch=leader_epoch, now_ms=now_ms)
        return
    producer_id = rng.choice((1, 2, 3))
    entry = log.producers.entries.get(producer_id)
    if entry is not None and entry.txn_first_offset >= 0 and rng.random() < 0.4:
        kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
        marker = control_batch(kind, 5, producer_id=producer_id, producer_epoch=0, timestamp=now_ms)
        log.append(marker, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
        return
    count = rng.randrange(1, 4)
    data = build(
        [Record(i, now_ms + i, b"k", bytes(rng.randrange(30))) for i in range(count)],
        compression=rng.choice((Compression.NONE, Compression.GZIP)),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=entry.next_sequence if entry else 0,
        transactional=producer_id != 3,
    )
    log.append(data, leader_epoch=leader_epoch, now_ms=now_ms)


def state(log: Log) -> list[object]:
    producers = log.producers
    return [
        sorted(
            (e.producer_id, e.epoch, e.txn_first_offset, e.next_sequence, e.coordinator_epoch)
            for e in producers.entries.values()
        ),
        list(producers.ongoing.items()),
        producers.unreplicated,
        producers.end_offset,
        log.first_unstable_offset,
        log.log_end_offset,
        log.epochs.entries,
        max_timestamp_offset(log),
        aborted_transactions(log, 0, log.log_end_offset),
    ]


def content(log: Log) -> bytes:
    return b"".join(segment.path.read_bytes() for segment in log.segments)


def indexed(log: Log) -> list[object]:
    return [
        (segment.base_offset, bytes(segment.offset_index.data), bytes(segment.time_index.data))
        for segment in log.segments
    ]


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_drawn_appends_give_follower_and_leader_the_same_files(
    name: str, one_by_one: bool, open_log: OpenLog, tmp_path: Path, rng: random.Random
) -> None:
    config = CONFIGS[name]
    logs = []
    for who in ("leader", "follower"):
        directory = tmp_path / who / "t-0"
        directory.mkdir(parents=True)
        logs.append(open_log(config, directory=directory))
    leader, follower = logs
    now_ms = NOW_MS
    for step in range(45 if one_by_one else 12):
        for _ in range(1 if one_by_one else rng.randrange(1, 9)):
            now_ms += rng.choice((0, 1, 15))
            write(leader, rng, step // 9, now_ms)
        while follower.log_end_offset < leader.log_end_offset:
            at = follower.log_end_offset
            region = leader.read(
                at, rng.choice((1, 200, 5000)), max_offset=leader.log_end_offset, min_one_batch=True
            )
            assert region is not None
            sent = bytearray(region.read())
            whole = [header for _, header in iter_batches(sent)]
            result = append_as_follower(follower, sent, leader_epoch=9, now_ms=now_ms)
            assert result is not None
            assert tuple(result) == (
                at,
                whole[-1].last_offset,
                -1,
                0,
                False,
                sum(header.records_count for header in whole),
                sum(header.size_bytes for header in whole),
            )
        if rng.random() < 0.2:
            for log in logs:
                log.high_watermark_advanced(log.log_end_offset)
    assert state(follower) == state(leader)
    assert content(follower) == content(leader)
    if one_by_one or name in ("one segment", "by size"):  # what comes together is looked at once
        assert indexed(follower) == indexed(leader)
    assert (len(list(leader.segments)) > 1) == (name != "one segment")
    end = leader.log_end_offset
    for offset in range(0, end, 9):
        region = follower.read(offset, 300, max_offset=end, min_one_batch=True)
        again = leader.read(offset, 300, max_offset=end, min_one_batch=True)
        assert region is not None
        assert again is not None
        reported = set(aborted_in(follower, region))
        last = [header for _, header in iter_batches(again.read())][-1:]
        needed = aborted_transactions(leader, offset, last[0].last_offset + 1 if last else offset)
        assert set(needed) <= reported <= set(aborted_transactions(leader, offset, end))
        assert epoch_for(follower, offset) == epoch_for(leader, offset)
    recovered = open_log(config, directory=follower.dir)
    assert recovered.log_end_offset == end
    assert recovered.epochs.entries == leader.epochs.entries


def test_follower_fills_segments_like_the_leader(open_log: OpenLog) -> None:
    """Batches that arrive together are placed as if they had arrived one by one."""
    log = open_log(replace(BASE, segment_bytes=3 * RECORD_BYTES))
    data = b"".join(
        build([Record(0, NOW_MS, None, b"")], base_offset=offset, partition_leader_epoch=0)
        for offset in range(9)
    )
    assert len(data) == 9 * RECORD_BYTES
    append_as_follower(log, bytearray(data), leader_epoch=0, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert content(log) == data


def sent(make_batch: MakeBatch, *spans: tuple[int, int]) -> bytearray:
    """Batches from each first offset to each last one."""
    made = [
        make_batch(last - first + 1, base_offset=first, partition_leader_epoch=0)
        for first, last in spans
    ]
    return bytearray(b"".join(made))


@pytest.mark.parametrize("start", [4, 5, 7])
def test_follower_of_a_log_that_begins_within_a_batch(
    open_log: OpenLog, make_batch: MakeBatch, read_all: ReadAll, start: int
) -> None:
    """The leader's log begins there after a deletion of records; the follower keeps that start."""
    log = open_log()
    truncate_fully(log, start, NOW_MS)
    data = sent(make_batch, (3, 7), (8, 8))
    result = append_as_follower(log, data, leader_epoch=0, now_ms=NOW_MS)
    assert result is not None
    assert (result.first_offset, result.last_offset) == (start, 8)
    for each in (log, open_log(log_start_offset=start)):
        assert (each.log_start_offset, each.log_end_offset) == (start, 9)
        assert [segment.base_offset for segment in each.segments] == [3]
        assert [record.offset for record in read_all(each)] == [*range(start, 9)]


def test_follower_refuses_a_batch_that_overlaps_its_log(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    """Also if it overlaps a batch that was sent with it, or lies before the log start."""
    for held, data in (
        ([(0, 4)], sent(make_batch, (3, 7))),
        ([], sent(make_batch, (3, 7), (5, 9))),
        ([], sent(make_batch, (2, 3))),
    ):
        log = open_log()
        truncate_fully(log, 0 if held else 4, NOW_MS)
        if held:
            append_as_follower(log, sent(make_batch, *held), leader_epoch=0, now_ms=NOW_MS)
        with pytest.raises(LogError) as refused:
            append_as_follower(log, data, leader_epoch=0, now_ms=NOW_MS)
        assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
        truncate_fully(log, 0, NOW_MS)


def test_follower_with_records_keeps_them_at_an_overlapping_batch(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    truncate_fully(log, 6, NOW_MS, log_start_offset=5)
    with pytest.raises(LogError) as refused:
        append_as_follower(log, sent(make_batch, (3, 7)), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (log.log_start_offset, log.log_end_offset) == (5, 6)


@pytest.mark.parametrize(("last", "codec"), [(5, 0), (7, 1), (4, 0), (4, 1)])
def test_follower_places_old_messages_by_their_last_offset(
    open_log: OpenLog, last: int, codec: int
) -> None:
    """A wrapper does not have its first offset, so its messages may seem to reach back."""
    log = open_log()
    truncate_fully(log, 5, NOW_MS)
    kept = [Record(offset, NOW_MS, b"k", b"v") for offset in range(last - 3 * codec, last + 1)]
    header = BatchHeader(0, 0, -1, 1, 0, codec, 0, -1, -1, -1, -1, -1, -1)
    data = wrapped(header, kept) if codec else message(last, 1, 0, NOW_MS, b"k", b"v")
    if last < 5:
        with pytest.raises(LogError) as refused:
            append_as_follower(log, bytearray(data), leader_epoch=0, now_ms=NOW_MS)
        assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
        return
    append_as_follower(log, bytearray(data), leader_epoch=0, now_ms=NOW_MS)
    for each in (log, open_log(log_start_offset=5)):
        assert (each.log_start_offset, each.log_end_offset) == (5, last + 1)
        assert [segment.base_offset for segment in each.segments] == [5]
