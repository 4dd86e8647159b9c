"""Any sequence of operations leaves a log that reads like a list of records."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.codecs.batches import Compression, Record, build, iter_batches, records
from kwire.log import (
    Log,
    delete_expired_segments,
    delete_records,
    offset_for_timestamp,
    truncate_to,
)
from kwire.log.directory.files import Files
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.log.configs import log_config

NOW_MS = 1_700_000_000_000


class LogModel(RuleBasedStateMachine):
    """`records` is what the log must hold from `start` on: (offset, timestamp, value)."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp()) / "t-0"
        self.directory.mkdir()
        self.records: list[tuple[int, int, bytes]] = []
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.epoch = 0
        self.sequence = 0
        self.epochs: list[tuple[int, int]] = []
        self.config = log_config(segment_bytes=500, index_interval_bytes=0)
        self.log = self.open()

    def teardown(self) -> None:
        shutil.rmtree(self.directory.parent)

    def open(self, *, clean: bool = True) -> Log:
        return load(
            self.directory,
            "t",
            0,
            self.config,
            SharedLogSettings(Files(), OpenFiles(2)),
            now_ms=NOW_MS,
            clean=clean,
            recovery_point=self.flushed,
            log_start_offset=self.start,
        )

    @initialize(interval=st.sampled_from([0, 100, 4096]), size=st.sampled_from([250, 500, 10**6]))
    def configure(self, interval: int, size: int) -> None:
        self.config = log_config(segment_bytes=size, index_interval_bytes=interval)
        self.log.update_config(self.config)

    @rule(
        values=st.lists(st.binary(max_size=20), min_size=1, max_size=4),
        age=st.integers(-50, 50),
        compression=st.sampled_from([Compression.NONE, Compression.GZIP]),
    )
    def append(self, values: list[bytes], age: int, compression: Compression) -> None:
        stamps = [NOW_MS + age + number for number in range(len(values))]
        made = [
            Record(0, stamp, b"k", value, []) for stamp, value in zip(stamps, values, strict=True)
        ]
        batch = build(
            made,
            compression=compression,
            producer_id=1,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        result = self.log.append(batch, leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (result.first_offset, result.duplicate) == (self.end, False)
        again = self.log.append(bytearray(batch_again(batch)), leader_epoch=0, now_ms=NOW_MS)
        assert (again.first_offset, again.duplicate) == (self.end, True)
        for stamp, value in zip(stamps, values, strict=True):
            self.records.append((self.end, stamp, value))
            self.end += 1
        self.sequence += len(values)
        if not self.epochs or self.epochs[-1][0] != self.epoch:
            self.epochs = self.with_records(self.epochs, result.first_offset)
            self.epochs.append((self.epoch, result.first_offset))

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.recovery_point
        assert self.flushed == self.end

    @rule(late=st.integers(1, 30))
    def truncate(self, late: int) -> None:
        offset = max(self.end - late, 0)
        if offset < self.end:
            # A cut in the middle of a batch takes all of it, which the list does not know of.
            bounds = {0, self.end, *self.batch_bounds()}
            offset = max(bound for bound in bounds if bound <= offset)
        truncate_to(self.log, offset, NOW_MS)
        self.records = [record for record in self.records if record[0] < offset]
        self.start, self.end = min(self.start, offset), min(self.end, offset)
        self.flushed = min(self.flushed, self.end)
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        # What the producer is known for went with its batches: it goes on behind what is left.
        entry = self.log.producers.entries.get(1)
        self.sequence = entry.next_sequence if entry else 0

    def batch_bounds(self) -> set[int]:
        return {
            header.base_offset for segment in self.log.segments for _, header in segment.headers()
        }

    @rule(many=st.integers(0, 30))
    def delete_records(self, many: int) -> None:
        self.start = delete_records(self.log, min(self.start + many, self.end), self.end)
        self.records = [record for record in self.records if record[0] >= self.start]
        self.cut_epochs()

    @rule(size=st.integers(0, 2000))
    def retain(self, size: int) -> None:
        self.log.update_config(
            log_config(
                segment_bytes=self.config.segment_bytes,
                index_interval_bytes=self.config.index_interval_bytes,
                retention_bytes=size,
                retention_ms=-1,
            )
        )
        delete_expired_segments(self.log, NOW_MS, self.end)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        assert not self.records or self.start <= self.end
        self.records = [record for record in self.records if record[0] >= self.start]
        self.cut_epochs()

    def cut_epochs(self) -> None:
        covered = [entry for entry in self.epochs if entry[1] <= self.start]
        if covered:
            self.epochs = [
                (covered[-1][0], self.start),
                *(entry for entry in self.epochs if entry[1] > self.start),
            ]

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.flushed = self.log.recovery_point
        self.log = self.open()

    @rule()
    def kill_and_start(self) -> None:
        self.log = self.open(clean=False)

    @staticmethod
    def with_records(epochs: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
        """As in Kafka, an epoch without a record may be forgotten by a restart."""
        return [entry for entry in epochs if entry[1] < end]

    @precondition(lambda self: self.records)
    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 600))
    def fetch(self, share: float, max_bytes: int) -> None:
        offset = self.start + int(share * (self.end - 1 - self.start))
        region = self.log.read(offset, max_bytes, max_offset=self.end, min_one_batch=True)
        assert region is not None
        data = region.read()
        found = [
            record
            for position, header in iter_batches(data)
            for record in records(data, position)
            if record.offset >= offset
        ]
        wanted = [record for record in self.records if record[0] >= offset]
        assert found
        assert [(r.offset, r.timestamp, r.value) for r in found] == wanted[: len(found)]

    @rule(age=st.integers(-55, 60))
    def look_up(self, age: int) -> None:
        found = offset_for_timestamp(self.log, NOW_MS + age)
        late = [record for record in self.records if record[1] >= NOW_MS + age]
        if found is None:
            # The one segment that Kafka searches may have lost its late records to the start.
            assert not late or self.start > self.log.segments.first.base_offset
        elif late:
            assert (found.offset, found.timestamp) == late[0][:2]

    @invariant()
    def holds_the_records(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        found_epochs = self.with_records(log.epochs.entries, self.end)
        assert found_epochs == self.with_records(self.epochs, self.end)
        found = []
        offset = self.start
        while region := log.read(offset, 10**6, max_offset=self.end, min_one_batch=True):
            data = region.read()
            for position, header in iter_batches(data):
                found += [
                    (r.offset, r.timestamp, r.value)
                    for r in records(data, position)
                    if r.offset >= self.start
                ]
                offset = header.last_offset + 1
        assert found == self.records


def batch_again(batch: bytearray) -> bytes:
    """The batch as a client sends it again, without offset and epoch."""
    return bytes(8) + bytes(batch[8:12]) + b"\xff" * 4 + bytes(batch[16:])


TestLogModel = pytest.mark.slow(LogModel.TestCase)
TestLogModel.settings = settings(max_examples=60, stateful_step_count=30)
