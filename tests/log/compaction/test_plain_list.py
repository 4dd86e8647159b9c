"""A pass leaves the records that a plain list leaves, for any layout of segments and reads.

Whatever is read at a time, however many keys fit into memory, wherever the dirty part begins.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.codecs.batches import BatchHeader, Compression, iter_batches, records
from kwire.log import Log, aborted_transactions
from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.task import CleaningTask, GroupCleaned, PassDone
from kwire.log.directory.files import Files
from kwire.log.index.offset_index import OffsetIndex
from kwire.log.index.time_index import TimeIndex
from tests.descriptors import path_of
from tests.log.compaction.history import (
    CONFIG,
    NOW_MS,
    Batch,
    End,
    Roll,
    Step,
    Writer,
    open_log,
    task_for,
)

Kept = list[tuple[int, bytes | None]]


def steps(chance: random.Random) -> list[Step]:
    made: list[Step] = []
    keys = chance.choice([6, 40])
    for _ in range(chance.randint(15, 30)):
        pairs = [
            (chance.choice([None, *range(keys)]), chance.choice([None, 0, 7, 40, 90]))
            for _ in range(chance.choice([1, 1, 3, 5]))
        ]
        codec = chance.choice([Compression.NONE, Compression.NONE, Compression.GZIP])
        batch = Batch(pairs, codec, chance.choice([None, 1, 2]), chance.random() < 0.5)
        ended = End(chance.choice([1, 2]), chance.random() < 0.4)
        either: list[Step] = [batch, batch, batch, ended, Roll()]
        made.append(chance.choice(either))
    return made


def held(log: Log) -> list[tuple[int, bytes | None, int, bool, bool]]:
    """(offset, key, producer id, in a transaction, marker) of every record before the end."""
    return [
        (record.offset, record.key, head.producer_id, head.is_transactional, head.is_control)
        for segment in log.segments
        for data in [segment.path.read_bytes()]
        for at, head in iter_batches(data)
        for record in records(data, at)
    ]


def expected(log: Log, task: CleaningTask) -> Kept:
    """The records that are not of aborted transactions and are the last of their key."""
    aborted = []
    for name, first in aborted_transactions(log, 0, log.log_end_offset):
        ends = [
            entry.last_offset
            for segment in log.segments
            for entry in segment.txn_index.entries
            if (entry.producer_id, entry.first_offset) == (name, first)
        ]
        aborted.append((name, first, ends[0]))
    found = []
    for offset, key, name, transactional, control in held(log):
        gone = transactional and any(
            each == name and first <= offset <= last for each, first, last in aborted
        )
        if offset < task.end_offset and not control and not gone:
            found.append((offset, key))
    last = {key: offset for offset, key in found if offset >= task.first_dirty}
    return [
        (offset, key)
        for offset, key in found
        if key is not None and last.get(key, offset) == offset
    ]


def rewritten(task: CleaningTask, groups: list[GroupCleaned]) -> Kept:
    found: Kept = []
    for group in groups:
        (name,) = [name for name in group.files if name.endswith(".log.cleaned")]
        data = (Path(task.directory) / name).read_bytes()
        assert len(data) == group.size_bytes
        found += [
            (record.offset, record.key)
            for at, head in iter_batches(data)
            if not head.is_control
            for record in records(data, at)
        ]
    return found


def fitting(task: CleaningTask) -> list[list[int]]:
    """Groups of neighbours that fit together, by their bytes and those of each index."""
    groups: list[list[int]] = []
    totals = [0, 0, 0]
    for base, size in task.segments:
        path = Path(task.directory) / f"{base:020}"
        indexes = [path.with_suffix(suffix).stat().st_size for suffix in (".index", ".timeindex")]
        sizes = [size, *indexes]
        totals = [total + each for total, each in zip(totals, sizes, strict=True)]
        too_large = totals[0] > task.segment_bytes or max(totals[1:]) > task.segment_index_bytes
        if groups and not too_large:
            groups[-1].append(base)
        else:
            groups.append([base])
            totals = sizes
    return groups


class Durable(Files):
    """Records the names of the files that were fsynced."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        self.names.add(Path(path_of(fd)).name)


def indexed(group: GroupCleaned, folder: Path) -> Iterator[Path]:
    """The offset index and the time index of a group."""
    for suffix in (".index", ".timeindex"):
        yield folder / f"{group.sources[0]:020}{suffix}.cleaned"


def check_indexes(group: GroupCleaned, folder: Path, interval_bytes: int) -> None:
    """Check for an entry at the first batch after each interval, with the largest timestamp."""
    data = (folder / group.files[0]).read_bytes()
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest, since = (-1, group.sources[0]), 0

    def note() -> None:
        if largest[0] > (times[-1] if times else (-1, -1))[0]:
            times.append(largest)

    for at, header in iter_batches(data):
        largest = later(largest, header)
        if since > interval_bytes:
            offsets.append((header.last_offset, at))
            note()
            since = 0
        since += header.size_bytes
    assert (group.max_timestamp, group.max_timestamp_offset) == largest
    note()
    paths = list(indexed(group, folder))
    found = OffsetIndex(paths[0], group.sources[0], Files())
    assert [found.at(number) for number in range(found.count)] == offsets
    time_index = TimeIndex(paths[1], group.sources[0], Files())
    assert [time_index.at(number) for number in range(time_index.count)] == times


def later(largest: tuple[int, int], header: BatchHeader) -> tuple[int, int]:
    is_later = header.max_timestamp > largest[0]
    return (header.max_timestamp, header.last_offset) if is_later else largest


@pytest.mark.parametrize("seed", range(24))
def test_pass_leaves_the_records_that_a_plain_list_leaves(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    config = replace(CONFIG, segment_bytes=chance.choice([500, 900]), index_interval_bytes=1)
    log = open_log(tmp_path / "t-0", config)
    writer = Writer(log)
    writer.write([Batch([(1, 5)], Compression.NONE, None, False), *steps(chance)])
    writer.close_transactions()
    log.roll(NOW_MS)
    log.close()
    bases = [segment.base_offset for segment in log.segments][:-1]
    task = replace(
        task_for(log, first_dirty=chance.choice([0, *bases]), now_ms=NOW_MS),
        read_bytes=chance.choice([1, 61, 100, 300, 1 << 20]),
        segment_bytes=chance.choice([500, 1200, 10**6]),
        segment_index_bytes=chance.choice([24, 60, 10**6]),
        index_interval_bytes=chance.choice([0, 100, 250, 4096]),
    )
    wanted, groups_wanted = expected(log, task), fitting(task)
    changed_ns = {base: 10**18 + chance.randrange(10**9) for base, _ in task.segments}
    for base, at_ns in changed_ns.items():
        os.utime(log.dir / f"{base:020}.log", ns=(at_ns, at_ns))
    disk = Durable()
    *answers, done = clean(task, disk)
    assert isinstance(done, PassDone)
    groups = [answer for answer in answers if isinstance(answer, GroupCleaned)]
    assert [group.sources for group in groups] == groups_wanted
    assert rewritten(task, groups) == wanted
    for group in groups:
        check_indexes(group, log.dir, task.index_interval_bytes)
        filled = {name for name in group.files if (log.dir / name).stat().st_size}
        assert filled <= disk.names, "all of it is durable"
        assert (log.dir / group.files[0]).stat().st_mtime_ns == changed_ns[group.sources[-1]]
    dirty = {key for offset, key in wanted if offset >= task.first_dirty}
    assert (done.first_offset, done.keys) == (task.first_dirty, len(dirty))
    assert done.bytes_written == sum(group.size_bytes for group in groups)
    assert 0 <= done.index_ms + done.rewrite_ms < 60_000
