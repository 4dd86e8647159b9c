"""After any crash the logs have every promised record, and no record that was never written.

Hypothesis appends to a broker's logs, flushes, rolls and deletes, stops or kills the process and
cuts the power, also in the middle of any of these, on a disk that may lose what was not fsynced.
"""

from __future__ import annotations

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
from kwire.codecs.control import ControlType, control_batch
from kwire.log import (
    Intervals,
    Log,
    LogConfig,
    LogManager,
    aborted_transactions,
    delete_records,
    offset_for_timestamp,
)
from kwire.log.origin import Origin
from kwire.log.recovery.loader import ZERO_UUID
from kwire.log.upkeep.flush import Flush
from kwire.log.upkeep.job import run_all
from tests.log.configs import DEFAULTS, log_config
from tests.log.crashing_disk import CrashingDisk, PowerCut

START_MS = 1_700_000_000_000
CONFIG = log_config(segment_bytes=400, index_interval_bytes=0, retention_ms=-1)
EAGER = log_config(segment_bytes=400, index_interval_bytes=0, retention_ms=-1, flush_messages=1)
OFTEN = Intervals(0, 0, 0, 0, 0)
PRODUCER, TRANSACTIONAL = 1, 2


@dataclass
class Batch:
    """A batch at one offset: a record, or a transaction's marker."""

    value: bytes
    timestamp: int
    epoch: int
    producer_id: int
    marker: ControlType | None = None


@dataclass
class Expected:
    """The batches of one partition, and which of them must survive a kill or a power cut."""

    topic_id: bytes
    config: LogConfig
    written: list[Batch] = field(default_factory=list)
    acknowledged: int = 0  # a killed process leaves this much
    promised: int = 0  # a power cut leaves this much
    start: int = 0  # records before it may be gone
    pending: Flush | None = None

    def next_sequence(self, producer_id: int, end: int) -> int:
        of_producer = [b for b in self.written[:end] if b.producer_id == producer_id]
        return sum(batch.marker is None for batch in of_producer)

    def open_since(self, end: int) -> int | None:
        """The first offset of the transaction that is open at `end`."""
        since = None
        for offset, batch in enumerate(self.written[:end]):
            if batch.producer_id == TRANSACTIONAL:
                since = None if batch.marker is not None else offset if since is None else since
        return since

    def aborted(self, end: int) -> list[tuple[int, int]]:
        """(first offset, marker's offset) of the aborted transactions."""
        return [
            (self.open_since(at) or 0, at)
            for at, batch in enumerate(self.written[:end])
            if batch.marker is ControlType.ABORT
        ]


class Crashes(RuleBasedStateMachine):
    """The logs of one directory, with their expected contents."""

    @initialize(seed=st.integers(0, 2**32))
    def set_up(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.base = Path(tempfile.mkdtemp())
        self.cuts = 0
        self.now_ms = START_MS
        self.epoch = 0
        self.topics: dict[str, Expected] = {}
        (self.base / "0").mkdir()
        self.disk = CrashingDisk(self.base / "0")
        self.open()

    def teardown(self) -> None:
        if hasattr(self, "base"):
            shutil.rmtree(self.base)

    # The broker's part

    def open(self) -> None:
        self.manager = LogManager(
            [self.disk.root],
            defaults=DEFAULTS,
            files=self.disk,
            clock=lambda: self.now_ms,
            intervals=OFTEN,
            verify_transactions=False,
            closing_threads_max=1,  # what a seed draws comes in the same order each time
        )
        self.manager.identify(1, "cluster")
        self.manager.load(lambda topic: self.topics[topic].config)
        for topic, expected in self.topics.items():
            log = self.manager.logs.get((topic, 0))
            if log is None:
                self.create(topic, expected)
            elif log.topic_id == ZERO_UUID:
                log.adopt_topic_id(expected.topic_id)
            self.log(topic).high_watermark_advanced(self.log(topic).log_end_offset)

    def create(self, topic: str, expected: Expected) -> None:
        self.manager.create(topic, expected.topic_id, 0, expected.config)

    def log(self, topic: str) -> Log:
        return self.manager.logs[topic, 0]

    def with_power(self, operation: Callable[[], None], cut_after: int | None) -> None:
        """Run an operation, in the middle of which the power may be cut."""
        self.disk.cut_after(cut_after)
        try:
            operation()
        except PowerCut:
            self.disk.cut_after(None)
            self.lose_power()
        else:
            self.disk.cut_after(None)

    def lose_power(self) -> None:
        self.forget_process()
        self.cuts += 1
        self.disk = self.disk.left(self.base / str(self.cuts), self.chance)
        self.open()
        self.compare(lambda expected: expected.promised)

    def forget_process(self) -> None:
        for directory in self.manager.online_dirs:
            directory.unlock()
        for expected in self.topics.values():
            expected.pending = None

    # What happens

    cut = st.none() | st.integers(0, 12)
    topic_names = st.sampled_from(["a", "b", "eager"])

    @rule(topic=topic_names, cut=cut)
    def make_topic(self, topic: str, cut: int | None) -> None:
        if topic not in self.topics:
            topic_id = bytes([len(self.topics) + 1]) * 16
            config = EAGER if topic == "eager" else CONFIG
            expected = self.topics[topic] = Expected(topic_id, config)
            self.with_power(lambda: self.create(topic, expected), cut)

    @precondition(lambda self: self.topics)
    @rule(
        data=st.data(),
        producer_id=st.sampled_from([-1, PRODUCER, TRANSACTIONAL]),
        moved_ms=st.integers(-5, 10),
        cut=cut,
        count=st.integers(1, 6),
    )
    def append(
        self, data: st.DataObject, producer_id: int, moved_ms: int, cut: int | None, count: int
    ) -> None:
        topic = data.draw(st.sampled_from(sorted(self.topics)))

        def appends() -> None:
            for _ in range(count):
                self.append_one(topic, producer_id, moved_ms)

        self.with_power(appends, cut)

    def append_one(self, topic: str, producer_id: int, moved_ms: int) -> None:
        log, expected = self.log(topic), self.topics[topic]
        end = log.log_end_offset
        batch = Batch(b"%d" % end, self.now_ms + moved_ms, self.epoch, producer_id)
        transactional = producer_id == TRANSACTIONAL
        sequence = expected.next_sequence(producer_id, end) if producer_id > 0 else -1
        made = build(
            [Record(0, batch.timestamp, b"k", batch.value, [])],
            producer_id=producer_id,
            producer_epoch=0 if producer_id > 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        self.write(log, expected, batch, made, Origin.CLIENT)

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), kind=st.sampled_from(ControlType), cut=cut)
    def end_transaction(self, data: st.DataObject, kind: ControlType, cut: int | None) -> None:
        topic = data.draw(st.sampled_from(sorted(self.topics)))
        log, expected = self.log(topic), self.topics[topic]
        if expected.open_since(log.log_end_offset) is None:
            return
        batch = Batch(b"", self.now_ms, self.epoch, TRANSACTIONAL, kind)
        made = control_batch(
            kind, 0, producer_id=TRANSACTIONAL, producer_epoch=0, timestamp=self.now_ms
        )
        self.with_power(lambda: self.write(log, expected, batch, made, Origin.COORDINATOR), cut)

    def write(
        self, log: Log, expected: Expected, batch: Batch, made: bytearray, origin: Origin
    ) -> None:
        end = log.log_end_offset
        expected.written[end:] = [batch]  # whether or not it gets there
        log.append(made, leader_epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        log.high_watermark_advanced(log.log_end_offset)
        expected.acknowledged = log.log_end_offset
        if expected.config.flush_messages == 1:
            expected.promised = log.log_end_offset

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule(ms=st.integers(1, 1000))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), cut=cut)
    def flush(self, data: st.DataObject, cut: int | None) -> None:
        topic = data.draw(st.sampled_from(sorted(self.topics)))

        def flush() -> None:
            self.log(topic).flush()
            self.topics[topic].promised = self.log(topic).log_end_offset

        self.with_power(flush, cut)

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), cut=cut)
    def flush_in_a_thread(self, data: st.DataObject, cut: int | None) -> None:
        """The flush does not promise records that are appended after its fsyncs."""
        topic = data.draw(st.sampled_from(sorted(self.topics)))
        log, expected = self.log(topic), self.topics[topic]

        def go_on() -> None:
            if expected.pending is None:
                expected.pending = log.prepare_flush()
                if expected.pending is not None:
                    expected.pending.run()
            else:
                log.flushed(expected.pending)
                expected.promised = max(expected.promised, expected.pending.end_offset)
                expected.pending = None

        self.with_power(go_on, cut)

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), cut=cut)
    def roll(self, data: st.DataObject, cut: int | None) -> None:
        topic = data.draw(st.sampled_from(sorted(self.topics)))
        self.with_power(lambda: self.roll_log(topic), cut)

    def roll_log(self, topic: str) -> None:
        self.log(topic).roll(self.now_ms)

    @precondition(lambda self: self.topics)
    @rule(data=st.data(), share=st.floats(0, 1))
    def delete_records(self, data: st.DataObject, share: float) -> None:
        topic = data.draw(st.sampled_from(sorted(self.topics)))
        log = self.log(topic)
        offset = max(log.log_start_offset, int(share * log.log_end_offset))
        self.topics[topic].start = max(self.topics[topic].start, offset)
        delete_records(log, offset, log.log_end_offset)

    @rule(cut=cut)
    def maintain(self, cut: int | None) -> None:
        def maintain() -> None:
            run_all(self.manager.maintain(self.now_ms))
            self.note_recovery_points()

        self.with_power(maintain, cut)

    def note_recovery_points(self) -> None:
        for topic, expected in self.topics.items():
            expected.promised = max(expected.promised, self.log(topic).recovery_point)

    @rule()
    def power_cut(self) -> None:
        self.lose_power()

    @rule()
    def kill(self) -> None:
        self.forget_process()
        self.open()
        self.compare(lambda expected: expected.acknowledged)

    @rule(cut=cut, and_then=st.booleans())
    def stop(self, cut: int | None, and_then: bool) -> None:
        """Stop cleanly and start; the power may be cut during the stop or after it."""

        def stop() -> None:
            self.manager.close()
            for expected in self.topics.values():
                expected.promised = expected.acknowledged
            if and_then:
                raise PowerCut
            self.open()
            self.compare(lambda expected: expected.acknowledged)

        self.with_power(stop, cut)

    # What must hold

    def compare(self, promised: Callable[[Expected], int]) -> None:
        for topic, expected in self.topics.items():
            log = self.log(topic)
            end = log.log_end_offset
            assert promised(expected) <= end <= len(expected.written), topic
            assert log.log_start_offset <= max(expected.start, 0)
            assert log.topic_id == expected.topic_id
            expected.acknowledged = end
            expected.promised = min(expected.promised, end)
            del expected.written[end:]
            check(log, expected)


def check(log: Log, expected: Expected) -> None:
    """Check that records, indexes, producers, transactions and epochs match the written batches."""
    start, end = log.log_start_offset, log.log_end_offset
    check_records(log, expected)
    for offset in range(start, end):
        found = log.read(offset, 1, max_offset=end, min_one_batch=True)
        assert found is not None
        assert found.base_offset == offset
    for moment in {batch.timestamp for batch in expected.written[start:end]}:
        first = next(at for at in range(start, end) if expected.written[at].timestamp >= moment)
        answer = offset_for_timestamp(log, moment)
        assert answer is not None
        assert answer.offset == first
    aborted = [first for first, marker in expected.aborted(end) if marker >= start]
    assert [first for _, first in aborted_transactions(log, start, end)] == aborted
    epochs = dict(reversed([(b.epoch, at) for at, b in enumerate(expected.written[:end])]))
    for offset in range(max(start, expected.start), end):  # they forget what is deleted at once
        assert log.epochs.epoch_for(offset) == expected.written[offset].epoch
    for epoch, offset in log.epochs.entries:
        assert epochs[epoch] <= offset <= max(epochs[epoch], start, expected.start) or offset == end
    for producer_id in (PRODUCER, TRANSACTIONAL):
        check_producer(log, expected, producer_id)


def check_producer(log: Log, expected: Expected, producer_id: int) -> None:
    end = log.log_end_offset
    entry = log.producers.entries.get(producer_id)
    sequence = expected.next_sequence(producer_id, end)
    of_producer = [
        b.producer_id == producer_id for b in expected.written[log.log_start_offset : end]
    ]
    if any(of_producer):
        assert entry is not None
    if entry is not None and entry.batches:
        assert entry.next_sequence == sequence
    if producer_id == TRANSACTIONAL:
        since = expected.open_since(end)
        if since is not None and since >= log.log_start_offset:
            assert log.first_unstable_offset == since
        if since is None:
            assert log.first_unstable_offset is None


def check_records(log: Log, expected: Expected) -> None:
    at, end = log.log_start_offset, log.log_end_offset
    while region := log.read(at, 1 << 20, max_offset=end, min_one_batch=True):
        data = region.read()
        for position, header in iter_batches(data):
            if header.base_offset < at:
                continue
            assert header.base_offset == at, "no hole"
            batch = expected.written[at]
            assert header.is_control == (batch.marker is not None)
            if batch.marker is None:
                assert [record.value for record in records(data, position)] == [batch.value]
            at += 1
    assert at == end


CrashesTest = pytest.mark.slow(Crashes.TestCase)
CrashesTest.settings = settings(max_examples=20, stateful_step_count=40)
