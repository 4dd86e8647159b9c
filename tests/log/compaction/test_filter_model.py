"""The filter leaves the records of a batch that a plain list leaves, in all combinations."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from kwire.codecs.batch_layout import HEADER_SIZE
from kwire.codecs.batches import (
    BatchHeader,
    Compression,
    ControlType,
    CorruptBatch,
    Record,
    build,
    control_batch,
    read_header,
    records,
)
from kwire.log.compaction import batch_edit
from kwire.log.compaction.batch_filter import BatchFilter, records_of
from kwire.log.compaction.key_scan import BatchKeys, entries, scan_keys, short_key
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions
from tests.log.compaction.test_parts import TASK

NOW_MS = TASK.now_ms
BASE, LATER = 100, 200
KEYS = [b"", b"a", b"bb", b"c" * 22, b"d" * 23, b"e" * 24, b"f" * 90]
Plain = tuple[int, int, bytes | None, bytes | None]


def plainly(found: Iterable[Record]) -> list[Plain]:
    return [(each.offset, each.timestamp, each.key, each.value) for each in found]


def drawn(chance: random.Random) -> bytes:
    """A batch with consecutive offsets, or with gaps as left by an earlier cleaning."""
    span = chance.randint(1, 9)
    offsets = list(range(BASE, BASE + span))
    if chance.random() < 0.6:
        offsets = sorted(chance.sample(offsets, chance.randint(1, span)))
    nulls = chance.choice([0, 0, 0.3])
    made = [
        Record(
            offset,
            NOW_MS + chance.choice([-70_000, -3, 0, 2]),
            None if chance.random() < 0.1 else chance.choice(KEYS),
            None if chance.random() < nulls else bytes(chance.choice([0, 5, 70])),
        )
        for offset in offsets
    ]
    return bytes(
        build(
            made,
            base_offset=BASE,
            keep_offsets=True,
            last_offset=BASE + span - 1,
            compression=chance.choice([Compression.NONE, Compression.NONE, Compression.GZIP]),
            delete_horizon_ms=chance.choice([None, None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
        )
    )


def kept(
    header: BatchHeader, sent: list[Plain], later: set[bytes], dirty: int, end: int
) -> list[Plain]:
    """A record stays that is the last of its key among those from `dirty` to `end`, or is older
    and none of those has its key; a deletion stays until its time has come."""
    found = []
    for record in sent:
        offset, _, key, value = record
        if offset < end:
            above = {each[2] for each in sent if each[0] > offset and dirty <= each[0] < end}
            if key is None or key in above | later:
                continue
            gone = header.has_delete_horizon and header.base_timestamp <= NOW_MS
            if value is None and gone:
                continue
        found.append(record)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_filter_leaves_the_records_that_a_plain_list_leaves(seed: int) -> None:
    chance = random.Random(seed)
    data = b"in front" + drawn(chance) + b"and behind"
    at = 8
    header = read_header(data, at)
    sent = plainly(records(data, at))
    dirty = chance.choice([0, BASE, *range(BASE, BASE + 9), LATER])
    end = chance.choice([LATER + 9, LATER + 9, LATER + 9, BASE])
    offsets = OffsetMap(end, 10**6)
    later: set[bytes] = set()
    if end > BASE:
        later = set(chance.sample(KEYS, chance.randint(0, 4)))
        written = [short_key(key) for key in later]
        offsets.add(
            BatchKeys(written, range(LATER, LATER + len(written)), has_nulls=False), LATER, dirty
        )
        if header.last_offset >= dirty:
            inner, start, stop = records_of(data, at, header)
            offsets.add(scan_keys(inner, start, stop, header), BASE, dirty)
    else:
        dirty = BASE
    offsets.freeze()
    task = replace(TASK, producers=[], upper_bound=LATER + 100, delete_retention_ms=77)
    left = BatchFilter(task, offsets, CleanedTransactions()).apply(data, at, header)
    wanted = kept(header, sent, later, dirty, end)
    if not wanted:
        assert not left
        return
    found = read_header(left)
    assert plainly(records(left)) == wanted
    assert found.size_bytes == len(left)
    same = ("base_offset", "last_offset_delta", "compression", "producer_id")
    assert [getattr(found, name) for name in same] == [getattr(header, name) for name in same]
    assert found.records_count == len(wanted)
    if len(wanted) < len(sent):
        assert found.max_timestamp == max(each[1] for each in wanted)
    if header.has_delete_horizon or any(each[3] is None for each in wanted):
        assert found.has_delete_horizon
        horizon_ms = header.base_timestamp if header.has_delete_horizon else NOW_MS + 77
        assert found.base_timestamp == horizon_ms
    else:
        assert (found.has_delete_horizon, found.base_timestamp) == (False, header.base_timestamp)


@pytest.mark.parametrize("producer_id", [-1, 0, 1])
@pytest.mark.parametrize("known", [None, (-1, 0), (-1, 1), (0, 0), (1, 0), (7, 1)])
@pytest.mark.parametrize("upper_bound", [5, 8, 9])
def test_last_batch_of_a_producer_is_kept_empty(
    producer_id: int, known: tuple[int, int] | None, upper_bound: int
) -> None:
    """The last batch of the log, and the last batch of a producer that is still known."""
    task = replace(
        TASK, upper_bound=upper_bound, producers=[(producer_id, *known)] if known else []
    )
    offsets = OffsetMap(LATER, 10**6)
    offsets.add(BatchKeys([b"k"], range(LATER - 1, LATER), has_nulls=False), LATER - 1, 0)
    offsets.passed(0)
    offsets.freeze()
    for base, last in ((0, 0), (0, 1), (6, 7)):
        for epoch in (0, 1):
            data = build(
                [Record(at, 0, b"k", b"v") for at in range(base, last + 1)],
                base_offset=base,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=40,
            )
            marker = control_batch(
                ControlType.ABORT, 0, producer_id=producer_id, producer_epoch=epoch, timestamp=0
            )
            emptied = batch_edit.emptied(read_header(marker)._replace(base_offset=last))
            for batch, is_control in ((bytes(data), False), (bytes(emptied), True)):
                header = read_header(batch)
                batch_filter = BatchFilter(task, offsets, CleanedTransactions())
                left = batch_filter.apply(batch, 0, header)
                stays = last + 1 == upper_bound
                if known is not None and producer_id >= 0:
                    told_by_data = known[0] >= 0 and last == known[0]
                    told_by_marker = known[0] < 0 and is_control and epoch == known[1]
                    stays = stays or told_by_data or told_by_marker
                assert bool(left) == stays
                if left:
                    found = read_header(left)
                    assert (found.records_count, found.base_timestamp) == (0, -1)
                    same = ("base_offset", "last_offset_delta", "producer_id", "producer_epoch")
                    for name in (*same, "base_sequence", "is_control"):
                        assert getattr(found, name) == getattr(header, name)


@pytest.mark.parametrize(("after_ms", "stays"), [(-1, False), (0, False), (1, True)])
def test_marker_is_removed_after_its_delete_horizon(after_ms: int, stays: bool) -> None:
    """The horizon is set once no record of the transaction is left."""
    task = replace(TASK, now_ms=NOW_MS, delete_retention_ms=5, producers=[])
    offsets = OffsetMap(9, 10**6)
    offsets.freeze()
    marker = bytes(
        control_batch(ControlType.COMMIT, 0, producer_id=3, producer_epoch=0, timestamp=NOW_MS - 9)
    )
    first = BatchFilter(task, offsets, CleanedTransactions())
    left = bytes(first.apply(marker, 0, read_header(marker)))
    header = read_header(left)
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS + 5, NOW_MS - 9)
    late = replace(task, now_ms=NOW_MS + 5 - after_ms)
    again = BatchFilter(late, offsets, CleanedTransactions()).apply(left, 0, header)
    assert bytes(again) == (left if stays else b"")


def test_records_shorter_or_longer_than_their_batch_are_corrupt() -> None:
    data = bytes(build([Record(at, 0, b"key", b"value") for at in range(3)]))
    header = read_header(data)
    for size in range(HEADER_SIZE, len(data)):
        with pytest.raises(CorruptBatch):
            entries(data[:size], HEADER_SIZE, size, 3)
        with pytest.raises(CorruptBatch):
            scan_keys(data[:size], HEADER_SIZE, size, header)
    for count in (2, 4):
        with pytest.raises(CorruptBatch):
            entries(data, HEADER_SIZE, len(data), count)
    without_value = bytes([2 * 5, 0, 0, 0, 2, 65])  # ends with its key
    for short in (without_value, bytes([2 * 4]) + without_value[1:]):
        with pytest.raises(CorruptBatch):
            entries(short, 0, len(short), 1)
        with pytest.raises(CorruptBatch):
            scan_keys(short, 0, len(short), header._replace(records_count=1, last_offset_delta=0))


def test_keys_are_read_in_a_batch_of_8300_records() -> None:
    """The offset delta 64 takes two bytes, and 8,192 takes three."""
    count = 8_300
    data = bytes(build([Record(at, 0, b"%d" % at, b"") for at in range(count)]))
    found = scan_keys(data, HEADER_SIZE, len(data), read_header(data))
    assert found.keys == [b"%d" % at for at in range(count)]


def object_bytes(size: int) -> int:
    """The memory of a key as a Python object: 33 bytes more, in steps of 16."""
    return -(-(size + 33) // 16) * 16


def table_bytes(keys: int) -> int:
    """The memory of a set, which doubles when it is three fifths full."""
    slots = 8
    while slots * 3 // 5 <= keys:
        slots *= 2
    return 16 * slots


@pytest.mark.parametrize("key_bytes", [1, 14, 15, 16, 23])
def test_offset_map_limits_its_keys_by_memory(key_bytes: int) -> None:
    """The lengths of later keys are not known in advance."""
    end = 1000
    for limit in (500, 1000, 5000, 20_000):
        offsets = OffsetMap(end, limit)
        for number in range(1, 60):
            key = bytes([number]) * key_bytes
            at = end - number
            offsets.add(BatchKeys([key], range(at, at + 1), has_nulls=False), at, 0)
            assert len(offsets) == number
            for more in (0, 1, 2, 7, 30):
                tables = {table_bytes(number), table_bytes(number + more)}
                needed = sum(tables) + number * (8 + object_bytes(key_bytes))
                needed += more * (8 + object_bytes(23))
                assert offsets.has_room_for(more) == (needed <= limit)
