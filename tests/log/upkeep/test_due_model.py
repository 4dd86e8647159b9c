"""Rounds of upkeep over random steps do exactly the work that a plain model says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kwire.codecs.batches import Record, build
from kwire.log import Log, LogManager, delete_records
from kwire.log.config import LONG_MAX
from kwire.log.directory.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kwire.log.directory.files import FleetingFiles
from kwire.log.upkeep.job import Job, run_all
from kwire.log.upkeep.maintenance import Intervals
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, TOPIC_ID

INTERVALS = Intervals(
    log_retention_check_interval_ms=60,
    log_flush_offset_checkpoint_interval_ms=20,
    log_flush_start_offset_checkpoint_interval_ms=30,
    replica_high_watermark_checkpoint_interval_ms=5,
    producer_id_expiration_check_interval_ms=70,
)
CHECKPOINT_MS = {RECOVERY_POINTS: 20, LOG_START_OFFSETS: 30, HIGH_WATERMARKS: 5}
CONFIG = log_config(file_delete_delay_ms=25, retention_ms=-1)
EXPIRATION_MS = 100


@dataclass
class Known:
    """The facts about one log that the rules need."""

    bases: list[int] = field(default_factory=lambda: [0])
    end: int = 0
    start: int = 0
    durable: int = 0
    flushed_ms: int = NOW_MS
    flush_ms: int = LONG_MAX
    gone: list[int] = field(default_factory=list)
    """When the files of each segment that went are to be removed."""
    producers: dict[int, int] = field(default_factory=dict)
    """The last timestamp of each."""

    @property
    def must_flush(self) -> bool:
        return self.end > self.durable and (
            self.durable < self.bases[-1] or self.durable < self.start
        )

    def flush_is_due(self, now_ms: int) -> bool:
        late = self.end > self.durable and now_ms - self.flushed_ms >= self.flush_ms
        return self.must_flush or late


class Walk:
    """A manager of two logs, and the facts about them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = NOW_MS
        self.folder = folder
        self.manager = LogManager(
            [folder],
            defaults=CONFIG,
            clock=lambda: self.now_ms,
            intervals=INTERVALS,
            files=FleetingFiles(),
            producer_id_expiration_ms=EXPIRATION_MS,
        )
        self.manager.load()
        self.logs = [self.manager.create("t", TOPIC_ID, number) for number in range(2)]
        self.known = [Known() for _ in self.logs]
        self.done_ms = {name: NOW_MS for name in ("retention", "producers", *CHECKPOINT_MS)}
        self.stale = set(CHECKPOINT_MS)
        self.changed = True

    def step(self) -> None:
        """Do a random step with one of the logs, if it is possible."""
        number = self.chance.randrange(2)
        log, known = self.logs[number], self.known[number]
        chosen = self.chance.choice(["append", "append", "roll", "flush", "delete", "flush.ms"])
        match chosen:
            case "append":
                self.append(log, known)
            case "roll" if known.end > known.bases[-1]:
                log.roll(self.now_ms)
                known.bases.append(known.end)
            case "flush" if known.end > known.durable:
                flush = log.prepare_flush(self.now_ms)
                assert flush is not None
                flush.run()
                log.flushed(flush)
                known.durable, known.flushed_ms = known.end, self.now_ms
            case "delete":
                known.start = self.chance.randint(known.start, known.end)
                delete_records(log, known.start, known.end)
            case "flush.ms":
                known.flush_ms = self.chance.choice([0, 7, 15, LONG_MAX, LONG_MAX])
                log.update_config(replace(CONFIG, flush_ms=known.flush_ms))
            case _:
                return
        self.changed = True

    def append(self, log: Log, known: Known) -> None:
        name = self.chance.randrange(3)
        entry = log.producers.entries.get(name)
        batch = build(
            [Record(0, self.now_ms, b"k", b"v")] * self.chance.randint(1, 3),
            producer_id=name,
            producer_epoch=0,
            base_sequence=entry.next_sequence if entry else 0,
        )
        known.end = log.append(batch, leader_epoch=0, now_ms=self.now_ms).last_offset + 1
        known.producers[name] = self.now_ms

    def is_time(self, name: str, interval_ms: int) -> bool:
        is_time = self.now_ms - self.done_ms[name] >= interval_ms
        if is_time:
            self.done_ms[name] = self.now_ms
        return is_time

    def round(self) -> None:
        """Advance the time, and run upkeep."""
        self.now_ms += self.chance.choice([0, 1, 4, 5, 11])
        jobs = self.manager.maintain(self.now_ms, lambda log: log.log_end_offset - 1)
        if self.is_time("retention", INTERVALS.log_retention_check_interval_ms):
            for known in self.known:
                self.retain(known)
        if self.is_time("producers", INTERVALS.producer_id_expiration_check_interval_ms):
            for known in self.known:
                known.producers = {
                    name: at
                    for name, at in known.producers.items()
                    if at > self.now_ms - EXPIRATION_MS
                }
        for log, known in zip(self.logs, self.known, strict=True):
            assert log.producers.entries.keys() == known.producers.keys()
            assert (log.log_start_offset, log.log_end_offset) == (known.start, known.end)
        self.check_jobs(jobs)

    def retain(self, known: Known) -> None:
        """Remove segments before the log start and below the high watermark."""
        while len(known.bases) > 1 and known.bases[1] <= min(known.start, known.end - 1):
            del known.bases[0]
            known.gone.append(self.now_ms + CONFIG.file_delete_delay_ms)
            self.changed = True

    def check_jobs(self, jobs: list[Job]) -> None:
        """Each job must be due; after they have run, everything must be up to date."""
        flushing = [known.flush_is_due(self.now_ms) for known in self.known]
        removing = [any(due <= self.now_ms for due in known.gone) for known in self.known]
        if self.changed:
            self.stale |= set(CHECKPOINT_MS)
        self.changed = any(flushing)
        writing = {
            name
            for name, interval_ms in CHECKPOINT_MS.items()
            if name in self.stale and self.is_time(name, interval_ms)
        }
        self.stale -= writing
        assert len(jobs) == sum(flushing) + sum(removing) + len(writing)
        run_all(jobs)
        for log, known, flushes in zip(self.logs, self.known, flushing, strict=True):
            if flushes:
                known.durable, known.flushed_ms = known.end, self.now_ms
            assert log.recovery_point == known.durable
            known.gone = [due for due in known.gone if due > self.now_ms]
            assert len(list(log.dir.glob("*.log.deleted"))) == len(known.gone)
            assert [segment.base_offset for segment in log.segments] == known.bases
        for name in writing:
            assert (self.folder / name).read_text() == self.lines(name)

    def lines(self, name: str) -> str:
        """The lines of a checkpoint, which are collected when the flushes are done."""
        found = []
        for number, known in enumerate(self.known):
            start = min(known.start, known.durable)
            offset = {
                RECOVERY_POINTS: known.durable,
                HIGH_WATERMARKS: known.end - 1,
                LOG_START_OFFSETS: start,
            }[name]
            if name != LOG_START_OFFSETS or start > known.bases[0]:
                found.append(f"t {number} {offset}\n")
        return f"0\n{len(found)}\n{''.join(found)}"


@pytest.fixture
def walk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Walk]:
    made = Walk(tmp_path, request.param)
    yield made
    made.manager.close()


@pytest.mark.parametrize("walk", range(12), indirect=True)
def test_maintenance_does_the_due_work_of_the_model(walk: Walk) -> None:
    for _ in range(60):
        for _ in range(walk.chance.randrange(3)):
            walk.step()
        walk.round()
