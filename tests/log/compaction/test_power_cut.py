"""A power cut at any moment of a cleaning loses no last value and restores no older one.

The disk forgets or reorders what was not fsynced (`CrashingDisk`): contents, and the renames by
which a cleaned segment takes the place of those it was made from.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.log import Intervals, Log, LogManager
from kwire.log.compaction.settings import CleanerSettings
from kwire.log.compaction.worker_process import InThread
from kwire.log.upkeep.job import run_all
from tests.log.configs import log_config
from tests.log.crashing_disk import CrashingDisk, PowerCut

START_MS = 1_700_000_000_000
KEYS = 6
STEPS = 50
TOPIC_ID = b"0123456789abcdef"
SETTINGS = CleanerSettings()
OFTEN = Intervals(0, 0, 0, 0, 0)
CONFIG = log_config(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=500,
    index_interval_bytes=0,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)


@dataclass
class History:
    """One broker's compacted log, and what was written to it at each offset."""

    base: Path
    chance: random.Random
    now_ms: int = START_MS
    written: list[tuple[bytes, bytes | None] | None] = field(default_factory=list)
    """None: a power cut took it, though not what follows (see Loader._is_gap)."""
    promised: int = 0
    cuts: int = 0
    swaps_cut: int = 0

    def begin(self) -> None:
        (self.base / "0").mkdir()
        self.disk = CrashingDisk(self.base / "0")
        self.open()
        self.manager.create("t", TOPIC_ID, 0)

    def open(self) -> None:
        self.manager = LogManager(
            [self.disk.root],
            defaults=CONFIG,
            files=self.disk,
            clock=lambda: self.now_ms,
            intervals=OFTEN,
            closing_threads_max=1,
        )
        self.manager.identify(1, "cluster")
        self.manager.load()
        self.manager.cleaner.start_worker = lambda: InThread(self.disk)

    @property
    def log(self) -> Log:
        return self.manager.logs["t", 0]

    def step(self) -> None:
        work = self.chance.choice([self.append] * 4 + [self.flush, self.clean, self.clean])
        self.disk.cut_after(self.chance.choice([None, self.chance.randrange(40)]))
        try:
            work()
        except PowerCut:
            self.lose_power()
        self.disk.cut_after(None)
        self.now_ms += self.chance.choice([1, 700])

    def append(self) -> None:
        for _ in range(self.chance.randrange(12)):
            key = b"k%d" % self.chance.randrange(KEYS)
            value = None if self.chance.random() < 0.3 else b"%d" % len(self.written) * 9
            self.written[self.log.log_end_offset :] = [(key, value)]
            batch = build([Record(0, self.now_ms, key, value, [])])
            self.log.append(batch, leader_epoch=0, now_ms=self.now_ms)

    def flush(self) -> None:
        run_all(self.manager.maintain(self.now_ms))
        self.log.flush()
        self.promised = self.log.recovery_point

    def clean(self) -> None:
        self.flush()
        cleaner = self.manager.cleaner
        found = cleaner.grab(self.now_ms, SETTINGS, lambda log: log.log_end_offset)
        if found is not None:
            with closing(found.jobs()) as jobs:
                for job in jobs:
                    run_all([job])
            cleaner.finished(found, self.now_ms, SETTINGS)
            assert found.failure is None
        run_all(self.manager.maintain(self.now_ms))

    def lose_power(self) -> None:
        for directory in self.manager.online_dirs:
            directory.unlock()
        self.cuts += 1
        self.disk.cut_after(None)
        self.disk = self.disk.left(self.base / str(self.cuts), self.chance)
        folder = self.disk.root / "t-0"
        self.swaps_cut += any(folder.glob("*.swap")) if folder.exists() else 0
        self.open()
        if ("t", 0) not in self.manager.logs:
            assert self.promised == 0
            self.manager.create("t", TOPIC_ID, 0)
        assert self.promised <= self.log.log_end_offset <= len(self.written)
        held = self.held()
        del self.written[self.log.log_end_offset :]
        for offset in range(self.promised, len(self.written)):
            if offset not in held:
                self.written[offset] = None

    def check(self) -> None:
        found = self.held()
        for offset, record in found.items():
            assert self.written[offset] == record, offset
        last = {record[0]: at for at, record in enumerate(self.written) if record is not None}
        newest = {key: at for at, (key, _) in sorted(found.items())}
        for key, at in last.items():
            if newest.get(key) != at:
                assert key not in newest, f"{key!r} at {newest[key]} came back: {at} was its last"
                assert self.written[at] == (key, None), f"{key!r} at {at} is lost"

    def held(self) -> dict[int, tuple[bytes, bytes | None]]:
        """The records that a consumer of the whole log gets."""
        log, found, at = self.log, dict[int, tuple[bytes, bytes | None]](), 0
        while region := log.read(at, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True):
            data = region.read()
            for position, header in iter_batches(data):
                for record in records(data, position):
                    if record.offset >= at:
                        assert record.offset not in found
                        found[record.offset] = record.key or b"", record.value
                at = max(at, header.last_offset + 1)
        return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "first_seed",
    [0, *(pytest.param(first, marks=pytest.mark.long) for first in (10, 20, 30))],
)
def test_power_cut_loses_no_key_and_restores_no_deleted_key(
    first_seed: int, tmp_path: Path
) -> None:
    histories = []
    for seed in range(first_seed, first_seed + 10):
        base = tmp_path / str(seed)
        base.mkdir()
        history = History(base, random.Random(seed))
        history.begin()
        for _ in range(STEPS):
            history.step()
            history.check()
        history.manager.close()
        histories.append(history)
    assert sum(history.cuts for history in histories) > 50
    assert any(history.swaps_cut for history in histories), "no power cut during a swap"
