"""The files that a flush makes durable: all that a plain list names, and few others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.log import Log
from kwire.log.directory.files import Files
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.descriptors import path_of
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, TOPIC_ID

CONFIG = log_config(index_interval_bytes=0)


class Noting(Files):
    """Records the fsynced paths, without an fsync."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        self.names.append(Path(path_of(fd)).name)

    def taken(self) -> set[str]:
        found = set(self.names)
        self.names.clear()
        return found


def append(log: Log, count: int) -> None:
    made = [Record(0, NOW_MS + log.log_end_offset, b"k", b"v")] * count
    entry = log.producers.entries.get(5)
    batch = build(
        made,
        producer_id=5,
        producer_epoch=0,
        base_sequence=entry.next_sequence if entry else 0,
    )
    log.append(batch, leader_epoch=0, now_ms=NOW_MS)


def files_of(base: int, *suffixes: str) -> set[str]:
    return {f"{base:020d}{suffix}" for suffix in suffixes}


def plainly(
    bases: list[int], end: int, durable: int, rolled: set[int], snapshots: set[int], is_new: bool
) -> tuple[set[str], set[str]]:
    """The files that must be flushed, and those that may be, where the last flush ended."""
    wanted: set[str] = set()
    more: set[str] = set()
    for base, segment_end in zip(bases, [*bases[1:], end], strict=True):
        if segment_end > durable:
            wanted |= files_of(base, ".log")
        if base in rolled:
            wanted |= files_of(base, ".log", ".index", ".timeindex")
        if segment_end == durable:
            more |= files_of(base, ".log", ".index", ".timeindex")
        if base == durable:
            more.add("t-0")
    for offset in snapshots:
        wanted |= files_of(offset, ".snapshot")
    if snapshots or is_new:
        wanted.add("t-0")
    return wanted, more


@pytest.mark.parametrize("seed", range(20))
def test_flush_has_all_files_that_are_not_on_disk(tmp_path: Path, seed: int) -> None:
    """Segments from the recovery point on, and the indexes of those that have been rolled since;
    producer snapshots; names, where a file is new; at first what describes the partition, too."""
    chance = random.Random(seed)
    disk = Noting()
    folder = tmp_path / "t-0"
    folder.mkdir()
    settings = SharedLogSettings(disk, OpenFiles(100))
    log = load(folder, "t", 0, CONFIG, settings, now_ms=NOW_MS, topic_id=TOPIC_ID)
    snapshots: set[int] = set()
    rolled: set[int] = set()
    described = {tmp_path.name, "partition.metadata", "leader-epoch-checkpoint"}
    for _ in range(25):
        disk.taken()
        step = chance.choice(["append", "append", "roll", "flush"])
        end, durable = log.log_end_offset, log.recovery_point
        if step == "append":
            append(log, chance.choice([1, 1, 3]))
        elif step == "roll" and log.segments.active.size_bytes:
            rolled.add(log.segments.active.base_offset)
            log.roll(NOW_MS)
            snapshots.add(end)
        elif step == "flush" and end > durable:
            bases = [segment.base_offset for segment in log.segments]
            wanted, more = plainly(bases, end, durable, rolled, snapshots, bool(described))
            log.flush()
            found = disk.taken()
            assert wanted | described <= found <= wanted | described | more
            assert log.recovery_point == end
            for done in (described, snapshots, rolled):
                done.clear()
    log.flush()
    disk.taken()
    log.close()
    assert not files_of(log.segments.active.base_offset, ".log") & disk.taken(), "it is durable"
