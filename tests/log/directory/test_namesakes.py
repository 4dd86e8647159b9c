"""A topic that is created again under the name of a deleted one shares nothing with it.

The checkpoints of a log directory have the names of topics, but not their ids.  Hypothesis creates
and deletes topics, moves partitions between two directories, removes a disk and restores it, and
stops or kills the broker or cuts the power in the middle of any of these.
"""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.log import Intervals, Log, LogManager, delete_records, epoch_for
from kwire.log.directory.files import OpenFile
from kwire.log.directory.locking import LOCK
from kwire.log.recovery.loader import ZERO_UUID
from kwire.log.upkeep.job import Job
from tests.log.configs import log_config
from tests.log.crashing_disk import CrashingDisk, PowerCut

START_MS = 1_700_000_000_000
NEVER_MS = 1 << 40
CONFIG = log_config(
    segment_bytes=400, index_interval_bytes=0, retention_ms=-1, file_delete_delay_ms=NEVER_MS
)
OFTEN = Intervals(0, 0, 0, 0, 0)
GONE = OSError(errno.EIO, "the disk is away")


class Disks(CrashingDisk):
    """The directories `a` and `b`; one of them may be away."""

    away: Path | None = None

    def open(self, path: Path | str) -> OpenFile:
        if self.away is not None and Path(path) == self.away / LOCK:
            raise GONE
        return super().open(path)

    def survivor(self, target: Path, chance: random.Random) -> Disks:
        disk = self.left(target, chance)
        disk.__class__ = Disks
        assert isinstance(disk, Disks)
        return disk


@dataclass
class Topic:
    """One topic with its id and the expected records of its only partition."""

    id: bytes
    first_epoch: int
    written: list[int] = field(default_factory=list)  # the epoch of each record
    acknowledged: int = 0
    most: int = 0  # that it ever held: a power cut may leave less, but not a lower high watermark
    durable: int = 0
    start: int = 0
    cleaned: int = 0

    def value(self, offset: int) -> bytes:
        return b"%s %d" % (self.id, offset)


class Namesakes(RuleBasedStateMachine):
    """The metadata, and the logs, which must follow them."""

    @initialize(seed=st.integers(0, 2**32))
    def set_up(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.base = Path(tempfile.mkdtemp())
        self.cuts = 0
        self.now_ms = START_MS
        self.epoch = 0
        self.ids = 0
        self.topics: dict[str, Topic] = {}
        self.jobs: list[Job] = []
        (self.base / "0").mkdir()
        self.disk = Disks(self.base / "0")
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "base"):
            self.forget_process()
            shutil.rmtree(self.base)

    # The broker's part

    def open(self) -> None:
        self.manager = LogManager(
            [self.disk.root / "a", self.disk.root / "b"],
            defaults=CONFIG,
            files=self.disk,
            clock=lambda: self.now_ms,
            intervals=OFTEN,
            verify_transactions=False,
            closing_threads_max=1,
        )
        self.manager.identify(1, "cluster")
        ids = {name: topic.id for name, topic in self.topics.items()}
        self.manager.load(None, ids.get)
        for name, topic in self.topics.items():
            log = self.manager.logs.get((name, 0))
            if log is not None and log.topic_id == ZERO_UUID and not self.manager.offline_dirs:
                log.adopt_topic_id(topic.id)
            elif log is None and not self.manager.offline_dirs:
                self.manager.create(name, topic.id, 0, CONFIG)

    def create(self, name: str, topic: Topic) -> None:
        if (name, 0) in self.manager.logs:  # found at the start, and in no metadata
            self.manager.set_aside((name, 0))
        self.manager.create(name, topic.id, 0, CONFIG)

    def forget_process(self) -> None:
        self.jobs.clear()
        for directory in self.manager.online_dirs:
            directory.unlock()

    def crash(self, *, power: bool) -> None:
        """The end, and a new start; the power does not go as well while a disk is away.

        What was never flushed may have lost its topic id then, and nothing tells whose it was.
        """
        power = power and not (self.disk.away or self.manager.offline_dirs)
        self.note_what_is_durable()
        self.forget_process()
        self.disk.cut_after(None)
        if power:
            self.cuts += 1
            self.disk = self.disk.survivor(self.base / str(self.cuts), self.chance)
            for topic in self.topics.values():
                topic.acknowledged = min(topic.acknowledged, topic.durable)
        self.open()
        self.compare()

    def carry_out(self, work: Callable[[], None], ending: tuple[bool, int] | None) -> None:
        """Do a step; `ending` cuts the power or kills the process after some disk changes."""
        power, changes = ending or (False, None)
        self.disk.cut_after(changes)
        try:
            work()
        except PowerCut:
            self.crash(power=power)
        self.disk.cut_after(None)

    # What happens

    names = st.sampled_from(["t", "t", "u"])
    ending = st.none() | st.none() | st.none() | st.tuples(st.booleans(), st.integers(0, 25))

    def make(self, name: str) -> None:
        if name not in self.topics:
            self.ids += 1
            topic = self.topics[name] = Topic(b"%016d" % self.ids, self.epoch)
            self.create(name, topic)

    def log_of(self, name: str) -> tuple[Log, Topic] | None:
        log = self.manager.logs.get((name, 0))
        if log is None or name not in self.topics or log.topic_id == ZERO_UUID:
            return None
        return log, self.topics[name]

    @rule(name=names, ending=ending)
    def delete(self, name: str, ending: tuple[bool, int] | None) -> None:
        def delete() -> None:
            if self.topics.pop(name, None) and (name, 0) in self.manager.logs:
                self.manager.delete(name, 0)

        self.carry_out(delete, ending)

    @rule(name=names, count=st.integers(1, 8), size=st.integers(1, 3), ending=ending)
    def append(self, name: str, count: int, size: int, ending: tuple[bool, int] | None) -> None:
        """Append to the topic, which is created if it does not exist."""

        def append() -> None:
            self.make(name)
            for _ in range(count):
                self.append_one(name, size)

        self.carry_out(append, ending)

    @rule(
        name=names,
        size=st.integers(1, 3),
        used=st.booleans(),
        and_then=st.sampled_from(["", "kill", "kill", "power"]),
    )
    def anew(self, name: str, size: int, used: bool, and_then: str) -> None:
        """Delete the topic and create it again, as clients do to empty it."""
        if used:
            self.append(name, 6, size, None)
            self.flush(name, None)
            self.delete_records(name, 0.7)
            self.maintain()
        self.delete(name, None)
        self.append(name, 3, size, None)
        if and_then:
            self.crash(power=and_then == "power")

    def append_one(self, name: str, size: int) -> None:
        found = self.log_of(name)
        if found is None:
            return
        log, topic = found
        end = log.log_end_offset
        topic.written[end:] = [self.epoch] * size
        batch = build(
            [Record(0, self.now_ms, b"k", topic.value(end + at), []) for at in range(size)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=end,
        )
        log.append(batch, leader_epoch=self.epoch, now_ms=self.now_ms)
        log.high_watermark_advanced(log.log_end_offset)
        topic.acknowledged = log.log_end_offset
        topic.most = max(topic.most, topic.acknowledged)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule(name=names, ending=ending)
    def flush(self, name: str, ending: tuple[bool, int] | None) -> None:
        if found := self.log_of(name):
            self.carry_out(found[0].flush, ending)
            self.note_what_is_durable()

    def note_what_is_durable(self) -> None:
        for name in self.topics:
            if found := self.log_of(name):
                log, topic = found
                topic.durable = max(topic.durable, log.recovery_point)

    @rule(name=names, share=st.floats(0, 1))
    def delete_records(self, name: str, share: float) -> None:
        if found := self.log_of(name):
            log, topic = found
            offset = max(log.log_start_offset, int(share * log.log_end_offset))
            topic.start = max(topic.start, offset)
            delete_records(log, offset, log.log_end_offset)

    @rule(name=names)
    def compacted(self, name: str) -> None:
        """The log as if compacted up to its last segment."""
        if found := self.log_of(name):
            log, topic = found
            log.first_dirty_offset = topic.cleaned = log.segments.active.base_offset
            self.manager.maintenance.cleaner_offsets_changed = True

    @rule()
    def maintain(self) -> None:
        self.maintenance_begins()
        self.maintenance_goes_on(len(self.jobs), None)

    @rule()
    def maintenance_begins(self) -> None:
        self.jobs += self.manager.maintain(self.now_ms)

    @precondition(lambda self: self.jobs)
    @rule(many=st.integers(1, 12), ending=ending)
    def maintenance_goes_on(self, many: int, ending: tuple[bool, int] | None) -> None:
        """Jobs run in a thread, so much may have happened since they were prepared."""

        def go_on() -> None:
            for _ in range(min(many, len(self.jobs))):
                job = self.jobs.pop(0)
                job.run()
                job.finish()
            self.note_what_is_durable()

        self.carry_out(go_on, ending)

    @rule(name=names, ending=ending)
    def move(self, name: str, ending: tuple[bool, int] | None) -> None:
        def move() -> None:
            log = self.manager.logs.get((name, 0))
            for directory in self.manager.online_dirs:
                if log is not None and directory.path != log.dir.parent:
                    self.manager.moves.move((name, 0), str(directory.path))
                    return

        self.carry_out(move, ending)

    @precondition(lambda self: self.manager.moves.copies)
    @rule(turns=st.integers(1, 8), ending=ending)
    def move_goes_on(self, turns: int, ending: tuple[bool, int] | None) -> None:
        def go_on() -> None:
            for key in list(self.manager.moves.copies) * turns:
                if key in self.manager.moves.copies and key in self.manager.logs:
                    self.turn(key)
            self.note_what_is_durable()

        self.carry_out(go_on, ending)

    def turn(self, key: tuple[str, int]) -> None:
        """One turn of upkeep, as kwire's task gives it."""
        moves = self.manager.moves
        if moves.copy_some(key):
            return
        flush = moves.prepare_flush(key)
        if flush is not None:
            flush.run()
            moves.copies[key].log.flushed(flush)
        else:
            moves.swap(key)

    @precondition(lambda self: len(self.manager.online_dirs) == 2)
    @rule(which=st.sampled_from([0, 1]))
    def a_disk_fails(self, which: int) -> None:
        self.manager.dirs.dir_failed(self.manager.online_dirs[which], GONE)

    @rule(power=st.booleans(), away=st.sampled_from([""] * 6 + ["a", "b"]))
    def end_at_once(self, power: bool, away: str) -> None:
        self.disk.away = None
        if power:
            self.crash(power=True)
        self.start_without(away)

    def start_without(self, away: str) -> None:
        self.forget_process()
        self.disk.away = self.disk.root / away if away else None
        self.open()
        self.compare()

    @rule(away=st.sampled_from([""] * 6 + ["a", "b"]), ending=ending)
    def stop(self, away: str, ending: tuple[bool, int] | None) -> None:
        def stop() -> None:
            self.manager.close()
            for name, topic in self.topics.items():
                if self.log_of(name):
                    topic.durable = topic.acknowledged
            self.start_without(away)

        self.carry_out(stop, ending)

    # What must hold

    def compare(self) -> None:
        for name, topic in self.topics.items():
            found = self.log_of(name)
            if found is None:
                assert self.manager.offline_dirs, name
                continue
            log, _ = found
            assert log.topic_id == topic.id
            end = log.log_end_offset
            assert topic.acknowledged <= end <= len(topic.written), name
            assert log.log_start_offset <= topic.start
            assert (log.first_dirty_offset or 0) <= topic.cleaned
            assert self.manager.high_watermarks.get((name, 0), 0) <= topic.most
            assert log.recovery_point <= topic.durable
            topic.acknowledged = end
            topic.durable = min(topic.durable, end)
            del topic.written[end:]
            check(log, topic)


def check(log: Log, topic: Topic) -> None:
    at, end = log.log_start_offset, log.log_end_offset
    if at < end:
        assert log.producers.entries[1].next_sequence == end
        assert log.epochs.latest_epoch == topic.written[-1]
    while region := log.read(at, 1 << 20, max_offset=end, min_one_batch=True):
        data = region.read()
        for position, header in iter_batches(data):
            assert header.base_offset <= at, "no hole"
            for record in records(data, position):
                assert record.value == topic.value(record.offset)
            assert epoch_for(log, at) == topic.written[at]
            at = header.last_offset + 1
    assert at == end


NamesakesTest = pytest.mark.slow(Namesakes.TestCase)
NamesakesTest.settings = settings(max_examples=25, stateful_step_count=40)
