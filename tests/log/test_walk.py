"""A random walk over a log: after each step, the log gives the answers of a plain list.

And what the same files tell that are opened after a kill, or made anew by a scan, and what a
follower tells that was sent the same bytes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.batches import Compression, ControlType, Record, build, control_batch, read_header
from kwire.codecs.control import EndTxnMarker
from kwire.log import (
    Log,
    Origin,
    aborted_in,
    append_as_follower,
    delete_expired_segments,
    delete_records,
    truncate_to,
)
from kwire.log.segment import Segment
from tests.log.configs import log_config
from tests.log.contents import (
    contents_of,
    opened,
    problems,
    reopened,
)

NOW_MS = 1_700_000_000_000
STEPS = 16
PRODUCERS = (0, 1, 2**40)


@dataclass(frozen=True)
class Written:
    """A batch as it was sent, and its offset."""

    first: int
    epoch: int
    records: tuple[tuple[int, bytes], ...]
    """(timestamp, value); a marker's one is left out."""
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    marker: ControlType | None = None
    stamp: int = -1
    """The largest timestamp."""

    @property
    def count(self) -> int:
        return len(self.records) or 1

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass
class Producer:
    """The state of a producer after a list of batches."""

    epoch: int = 0
    next_sequence: int = 0
    last: tuple[int, ...] = ()
    """(last sequence, last offset, how many more it has than one)"""
    stamp: int = -1
    began: int = -1


@dataclass
class Fold:
    """The state after a list of batches."""

    producers: dict[int, Producer] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker)"""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Of transactions that ended: (first offset, offset of the marker)."""

    @classmethod
    def of(cls, written: list[Written]) -> Fold:
        fold = cls()
        for each in written:
            if each.producer_id >= 0:
                fold._add(each)
        return fold

    def _add(self, batch: Written) -> None:
        known = self.producers.setdefault(batch.producer_id, Producer())
        if batch.producer_epoch != known.epoch:
            known.epoch, known.next_sequence, known.last = batch.producer_epoch, 0, ()
        known.stamp = batch.stamp
        if batch.marker is None:
            last_sequence = batch.sequence + batch.count - 1
            known.next_sequence = last_sequence + 1
            known.last = (last_sequence, batch.end - 1, batch.count - 1)
            if batch.transactional and known.began < 0:
                known.began = batch.first
        elif known.began >= 0:
            self.spans.append((known.began, batch.first))
            if batch.marker is ControlType.ABORT:
                self.aborted.append((batch.producer_id, known.began, batch.first))
            known.began = -1

    def open(self) -> dict[int, int]:
        """First offset of each open transaction, and its producer."""
        began = {each.began: name for name, each in self.producers.items() if each.began >= 0}
        return dict(sorted(began.items()))


class Walk:
    """A log, its follower, and the batches that both must have."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.config = log_config(
            segment_bytes=self.chance.choice([350, 700, 10**6]),
            index_interval_bytes=self.chance.choice([0, 1, 150, 4096]),
            segment_index_bytes=self.chance.choice([40, 10**6]),
            segment_ms=self.chance.choice([20, 10**9]),
            flush_messages=self.chance.choice([1, 5, 10**9, 10**9]),
            message_timestamp_type=self.chance.choice(["CreateTime"] * 3 + ["LogAppendTime"]),
            file_delete_delay_ms=0,
            retention_ms=-1,
            segment_jitter_ms=0,
        )
        self.log, self.copy = (self._open(directory / name / "t-0") for name in ("led", "follows"))
        self.written: list[Written] = []
        self.start = self.epoch = 0
        self.stamp = NOW_MS
        self.has_all_entries = self.config.index_interval_bytes == 0

    def _open(self, directory: Path) -> Log:
        directory.mkdir(parents=True)
        return opened(directory, self.config, now_ms=NOW_MS)

    @property
    def end(self) -> int:
        return self.written[-1].end if self.written else self.start

    def step(self) -> str:
        """Do one random step; its name."""
        steps = {
            self.data: 8,
            self.end_transaction: 4,
            self.repeat: 1,
            self.roll: 1,
            self.elect: 1,
            self.flush: 1,
            self.truncate: 1,
            self.delete: 1,
            self.retain: 1,
            self.stop: 1,
            self.kill: 1,
        }
        (chosen,) = self.chance.choices(list(steps), list(steps.values()))
        self.stamp += self.chance.randint(-3, 6)
        if chosen in (self.truncate, self.stop, self.kill):
            self.has_all_entries = False
        ends = self.log.log_end_offset, self.copy.log_end_offset
        for log in (self.log, self.copy):
            log.upkeep.clear()
        chosen()
        self.log.high_watermark_advanced(self.end)
        self.follow()
        for log, end in zip((self.log, self.copy), ends, strict=True):
            assert log.log_end_offset <= end or log in log.upkeep, "it puts itself down as changed"
        self.check_list(self.contents())
        if chosen in (self.truncate, self.retain, self.kill):
            self.check_others()
        return chosen.__name__

    # What clients do

    def data(self) -> None:
        fold = Fold.of(self.written)
        name = self.chance.choice([-1, *PRODUCERS])
        spread = 0 if self.config.log_append_time else 2
        made = tuple(
            (
                self.stamp + self.chance.randint(-spread, spread),
                bytes(self.chance.choices(b"abc", k=each)),
            )
            for each in self.chance.choices(range(30), k=self.chance.randint(1, 4))
        )
        sent = Written(self.end, self.epoch, made, stamp=max(stamp for stamp, _ in made))
        if name >= 0:
            known = fold.producers.get(name, Producer())
            found = self.log.producers.entries.get(name)
            in_transaction = known.began >= 0
            is_newer = not in_transaction and self.chance.random() < 0.1
            epoch = known.epoch + is_newer
            sequence = 0 if is_newer or found is None else found.next_sequence
            flag = in_transaction or self.chance.random() < 0.5
            sent = Written(
                sent.first, self.epoch, made, name, epoch, sequence, flag, stamp=sent.stamp
            )
        compression = self.chance.choice([Compression.NONE, Compression.NONE, Compression.GZIP])
        self.append(self._batch(sent, compression), sent)

    def append(self, batch: bytearray, sent: Written, origin: Origin = Origin.CLIENT) -> None:
        """Append a batch and check the result; it is flushed as `flush.messages` requires."""
        durable = self.log.recovery_point
        size = len(batch)
        result = self.log.append(batch, leader_epoch=self.epoch, now_ms=self.stamp, origin=origin)
        stamp = self.stamp if self.config.log_append_time else -1
        assert result == (sent.first, sent.end - 1, stamp, self.start, False, sent.count, size)
        is_due = sent.end - durable >= self.config.flush_messages
        assert self.log.recovery_point == (sent.end if is_due else durable)
        self.written.append(sent)

    def _batch(self, sent: Written, compression: Compression = Compression.NONE) -> bytearray:
        """A batch as a client sends it, with the client's time."""
        late = 7 if self.config.log_append_time else 0
        made = [Record(0, stamp - late, b"k", value, []) for stamp, value in sent.records]
        return build(
            made,
            compression=compression,
            producer_id=sent.producer_id,
            producer_epoch=sent.producer_epoch,
            base_sequence=sent.sequence,
            transactional=sent.transactional,
        )

    def end_transaction(self) -> None:
        under_way = Fold.of(self.written).open()
        if not under_way:
            return self.data()
        name = self.chance.choice(list(under_way.values()))
        epoch = self.log.producers.entries[name].epoch
        kind = self.chance.choice([ControlType.COMMIT, ControlType.ABORT, ControlType.ABORT])
        marker = control_batch(
            kind, 0, producer_id=name, producer_epoch=epoch, timestamp=self.stamp
        )
        sent = Written(
            self.end,
            self.epoch,
            (),
            name,
            epoch,
            transactional=True,
            marker=kind,
            stamp=self.stamp,
        )
        if self.chance.random() < 0.5:
            return self.append(marker, sent, Origin.COORDINATOR)
        self.log.append_marker(
            marker,
            read_header(marker),
            EndTxnMarker(kind, 0),
            leader_epoch=self.epoch,
            now_ms=self.stamp,
            transaction_version=0,
        )
        self.written.append(sent)

    def repeat(self) -> None:
        """The last batch of a producer is sent again."""
        last = {
            each.producer_id: each
            for each in self.written
            if each.producer_id >= 0 and each.marker is None and each.first >= self.start
        }
        for name, sent in last.items():
            if self.log.producers.entries[name].batches:
                again = self._batch(sent)
                result = self.log.append(again, leader_epoch=self.epoch, now_ms=self.stamp)
                assert result[:2] == (sent.first, sent.end - 1)
                assert result[3:] == (self.start, True, sent.count, len(again))

    # What happens to a log

    def roll(self) -> None:
        self.log.roll(self.stamp)

    def elect(self) -> None:
        self.epoch += self.chance.randint(1, 2)

    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end
        assert problems(self.log) == []

    def truncate(self) -> None:
        """Truncate to a later leader's end, but not into a transaction that spans the log start."""
        least = max(
            [m + 1 for first, m in Fold.of(self.written).spans if first < self.start], default=0
        )
        places = [each.end for each in self.written if each.end >= max(least, self.start)]
        offset = self.chance.choice(places[-5:] or [self.end])
        assert truncate_to(self.log, offset, self.stamp) == (offset < self.end)
        assert not truncate_to(self.log, offset, self.stamp), "there is nothing left to cut"
        truncate_to(self.copy, offset, self.stamp)
        self.written = [each for each in self.written if each.end <= offset]
        self.epoch += 1

    def delete(self) -> None:
        """Delete records up to an offset that is in no transaction."""
        fold = Fold.of(self.written)
        limit = min([self.end, *fold.open()])
        places = [
            offset
            for offset in range(self.start, limit + 1)
            if not any(first < offset <= marker for first, marker in fold.spans)
        ]
        self.start = self.chance.choice(places or [self.start])
        assert delete_records(self.log, self.start, self.end) == self.start

    def retain(self) -> None:
        """Remove the segments before the log start."""
        following = [segment.base_offset for segment in self.log.segments][1:]
        gone = sum(base <= self.start for base in following)
        assert delete_expired_segments(self.log, self.stamp, self.end) == gone

    def stop(self) -> None:
        before = self.contents()
        self.log.close()
        assert problems(self.log) == []
        self.log = opened(self.log.dir, self.config, now_ms=NOW_MS, clean=True, start=self.start)
        assert self.log.recovery_point == self.end
        assert self.contents() == before

    def kill(self) -> None:
        self.log = opened(
            self.log.dir,
            self.config,
            now_ms=NOW_MS,
            recovery_point=self.log.recovery_point,
            start=self.start,
        )

    def follow(self) -> None:
        """The follower fetches all; it rolls by itself, and deletes up to the given offset."""
        copy, log = self.copy, self.log
        if copy.log_end_offset < self.start:
            truncate_to(copy, 0, self.stamp)
        while copy.log_end_offset < log.log_end_offset:
            region = log.read(
                max(copy.log_end_offset, self.start), 250, max_offset=self.end, min_one_batch=True
            )
            assert region is not None
            sent = append_as_follower(
                copy, bytearray(region.read()), leader_epoch=self.epoch, now_ms=self.stamp
            )
            assert sent is not None
        copy.increment_log_start_offset(self.start)
        copy.high_watermark_advanced(self.end)

    # Its contents

    def contents(self) -> dict[str, Any]:
        return contents_of(self.log, range(self.stamp - 40, self.stamp + 12, 3))

    def check_others(self) -> None:
        """Reopened copies and the follower must give the same answers."""
        seen = self.contents()
        for whole in (False, True):
            again = reopened(self.log, NOW_MS, whole=whole)
            again.high_watermark_advanced(self.end)
            assert problems(again) == []
            assert contents_of(again, seen["times"]) == seen, whole
        follows = contents_of(self.copy, seen["times"])
        same = ("headers", "places", "epoch of each", "producers", "open", "latest time", "aborted")
        assert {name: follows[name] for name in same} == {name: seen[name] for name in same}
        assert seen["bounds"] == follows["bounds"]

    def check_list(self, seen: dict[str, Any]) -> None:
        fold = Fold.of(self.written)
        held = [each for each in self.written if each.end > self.start]
        unstable = next(iter(fold.open()), None)
        assert seen["bounds"] == (self.start, self.end, unstable)
        assert seen["open"] == fold.open()
        assert [
            (header.base_offset, header.records_count, header.partition_leader_epoch)
            for header in seen["headers"]
        ] == [(each.first, each.count, each.epoch) for each in held]
        listed = [
            (each.first + number, stamp, value)
            for each in held
            for number, (stamp, value) in enumerate(each.records)
        ]
        offset = self.chance.randint(self.start, self.end)
        if offset < self.end:
            self.check_read(offset, fold)
        self.check_times(seen, listed)
        self.check_producers(seen, fold, {each.producer_id for each in held})
        for number, found in enumerate(seen["aborted"]):
            wanted = [
                (name, first)
                for name, first, marker in fold.aborted
                if marker >= self.start + number
            ]
            assert found == sorted(wanted)
        self.check_epochs(seen, held)

    def check_read(self, offset: int, fold: Fold) -> None:
        """A read returns a region of one segment and the transactions aborted in it.

        An index of every batch tells that to the batch; else one too many may be named.  What is
        appended first to a segment that was opened again, or cut, has no entry.
        """
        max_bytes, bound = (
            self.chance.choice([0, 1, 90, 200, 10**6]),
            self.chance.choice([each.end for each in self.written if each.end > offset]),
        )
        segment = max((s for s in self.log.segments if s.base_offset <= offset), key=_base)
        inside = [*segment.headers()]
        first = next((at, each) for at, each in inside if each.last_offset >= offset)
        limit = [at + each.size_bytes for at, each in inside if each.last_offset < bound][-1]
        size = limit - first[0]
        whole = first[1].size_bytes
        for given, least in (
            (max(max_bytes, whole), True),
            (max_bytes * (max_bytes >= whole), False),
        ):
            region = self.log.read(offset, max_bytes, max_offset=bound, min_one_batch=least)
            found = (region.position, region.size_bytes) if region else (first[0], 0)
            assert found == (first[0], min(given, size)), (offset, max_bytes, bound, least)
        region = self.log.read(offset, max_bytes, max_offset=bound, min_one_batch=True)
        assert region is not None
        end = max(each.last_offset + 1 for at, each in inside if at < first[0] + region.size_bytes)
        named = aborted_in(self.log, region)
        assert len(named) == len(set(named))
        overlapping = [(name, began, m) for name, began, m in fold.aborted if m >= offset]
        needed = {(name, began) for name, began, _ in overlapping if began < end}
        assert needed <= set(named) <= {(name, began) for name, began, _ in overlapping}
        if self.has_all_entries:
            following = [each.end for each in self.written if each.first >= end]
            later = following[0] if following else self.end
            assert all(began < later for _, began in named)

    def check_times(self, seen: dict[str, Any], listed: list[tuple[int, int, bytes]]) -> None:
        """As in Kafka, only the first segment with such a timestamp is searched."""
        bases = [segment.base_offset for segment in self.log.segments]
        ends = [*bases[1:], self.end]
        for stamp, found in seen["times"].items():
            place = None
            for base, end in zip(bases, ends, strict=True):
                inside = [each for each in self.written if base <= each.first < end]
                if any(each.stamp >= stamp for each in inside):
                    place = self._first_in(inside, stamp)
                    break
            assert (found and (found.offset, found.timestamp)) == place, stamp

    def _first_in(self, inside: list[Written], stamp: int) -> tuple[int, int] | None:
        for each in inside:
            records = each.records or ((each.stamp, b""),)
            for number, (at, _) in enumerate(records):
                if at >= stamp and each.first + number >= self.start:
                    return each.first + number, at
        return None

    @staticmethod
    def check_producers(seen: dict[str, Any], fold: Fold, known: set[int]) -> None:
        wanted = {
            name: (
                each.epoch,
                each.stamp,
                each.began,
                each.next_sequence,
                [each.last] if each.last else [],
            )
            for name, each in fold.producers.items()
            if name in known
        }
        assert seen["producers"] == wanted

    def check_epochs(self, seen: dict[str, Any], held: list[Written]) -> None:
        first: dict[int, int] = {}
        for each in held:
            first.setdefault(each.epoch, max(each.first, self.start))
        assert seen["epochs"] == list(first.items())


def _base(segment: Segment) -> int:
    return segment.base_offset


@pytest.mark.parametrize("seed", range(30))
def test_log_gives_the_answers_of_a_plain_list_after_random_steps(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    walk = Walk(tmp_path, seed)
    for _ in range(STEPS):
        walk.step()
    walk.check_others()
    assert " index of " not in caplog.text, "a correct index was rebuilt"
