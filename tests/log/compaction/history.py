"""Logs to clean: histories that hypothesis draws, written into a partition's folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kwire.codecs.batches import (
    BatchHeader,
    Compression,
    ControlType,
    Record,
    build,
    control_batch,
    iter_batches,
    records,
)
from kwire.log import Log, LogConfig, Origin
from kwire.log.compaction.task import CleaningTask
from kwire.log.directory.files import Files
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.log.configs import log_config

NOW_MS = 1_700_000_000_000
CONFIG = log_config(segment_bytes=2000, index_interval_bytes=512)
TOPIC_ID = b"0123456789abcdef"
DELETE_RETENTION_MS = 5_000


@dataclass(frozen=True)
class Batch:
    """Records as (key, value or None); `producer` None is one without an id."""

    pairs: list[tuple[int | None, int | None]]
    compression: Compression
    producer: int | None
    transactional: bool


@dataclass(frozen=True)
class End:
    """The producer's transaction ends."""

    producer: int
    commit: bool


@dataclass(frozen=True)
class Roll:
    """A new segment."""


Step = Batch | End | Roll

_KEYS = st.one_of(st.integers(0, 5), st.integers(0, 5), st.none())
_BATCHES = st.builds(
    Batch,
    st.lists(st.tuples(_KEYS, st.one_of(st.none(), st.integers(0, 90))), min_size=1, max_size=6),
    st.sampled_from([Compression.NONE, Compression.NONE, *Compression]),
    st.sampled_from([None, 1, 2, 3]),
    st.booleans(),
)
_ENDS = st.builds(End, st.sampled_from([1, 2, 3]), st.booleans())
STEPS = st.lists(st.one_of(_BATCHES, _BATCHES, _ENDS, st.just(Roll())), min_size=3, max_size=40)


def key_bytes(number: int) -> bytes:
    """A short or a long key."""
    return b"k%d" % number * (1 + 9 * (number % 2))


class Writer:
    """Appends steps to a log, keeping the producers' sequences and transactions in order."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.stamp = NOW_MS
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()

    def write(self, steps: list[Step]) -> None:
        for step in steps:
            self.stamp += 7
            match step:
                case Batch():
                    self._batch(step)
                case End(producer, commit):
                    self._end(producer, commit=commit)
                case Roll():
                    self.log.roll(self.stamp)

    def close_transactions(self) -> None:
        for producer in sorted(self._open):
            self._end(producer, commit=True)

    def _batch(self, step: Batch) -> None:
        made = [
            Record(
                number,
                self.stamp - number * 3 % 5,
                None if key is None else key_bytes(key),
                None if value is None else b"v" * value,
                [("h", b"x")] if value == 7 else [],
            )
            for number, (key, value) in enumerate(step.pairs)
        ]
        producer: dict[str, Any] = {}
        if step.producer is not None:
            transactional = step.transactional or step.producer in self._open
            producer = {
                "producer_id": step.producer,
                "producer_epoch": 0,
                "base_sequence": self._sequences.get(step.producer, 0),
                "transactional": transactional,
            }
            self._sequences[step.producer] = producer["base_sequence"] + len(made)
            if transactional:
                self._open.add(step.producer)
        batch = build(made, compression=step.compression, **producer)
        self.log.append(batch, leader_epoch=0, now_ms=self.stamp)

    def _end(self, producer: int, *, commit: bool) -> None:
        if producer not in self._open:
            return
        self._open.discard(producer)
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = control_batch(
            kind, 0, producer_id=producer, producer_epoch=0, timestamp=self.stamp
        )
        self.log.append(marker, leader_epoch=0, now_ms=self.stamp, origin=Origin.COORDINATOR)
        self.log.high_watermark_advanced(self.log.log_end_offset)


def open_log(directory: Path, config: LogConfig = CONFIG, *, clean: bool = False) -> Log:
    directory.mkdir(exist_ok=True)
    settings = SharedLogSettings(Files(), OpenFiles(100), verify_transactions=False)
    return load(directory, "t", 0, config, settings, now_ms=NOW_MS, topic_id=TOPIC_ID, clean=clean)


def task_for(
    log: Log, *, first_dirty: int = 0, now_ms: int, upper_bound: int | None = None
) -> CleaningTask:
    """Everything before the active segment (or `upper_bound`, where a segment begins)."""
    bound = log.segments.active.base_offset if upper_bound is None else upper_bound
    return CleaningTask(
        directory=str(log.dir),
        segments=[(s.base_offset, s.size_bytes) for s in log.segments if s.base_offset < bound],
        later_segments=[s.base_offset for s in log.segments if s.base_offset >= bound],
        first_dirty=first_dirty,
        end_offset=bound,
        upper_bound=bound,
        now_ms=now_ms,
        delete_retention_ms=DELETE_RETENTION_MS,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        producers=[
            (entry.producer_id, entry.last_offset, entry.epoch)
            for entry in log.producers.entries.values()
        ],
        map_bytes_max=10_000_000,
    )


@dataclass(frozen=True)
class Seen:
    """The fields of a batch that readers see; a base timestamp only counts as a delete horizon."""

    header: tuple[object, ...]
    horizon_ms: int | None
    records: list[Record]


def _seen(data: bytes, at: int, header: BatchHeader) -> Seen:
    fields = header._replace(length=0, crc=0, base_timestamp=0)
    horizon = header.base_timestamp if header.has_delete_horizon else None
    return Seen(tuple(fields), horizon, list(records(data, at)))


def batches_in(directory: Path) -> Iterator[tuple[str, Seen]]:
    """(file name, batch) of a folder's segments, in order."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for at, header in iter_batches(data):
            yield path.name, _seen(data, at, header)
        yield path.name, Seen((), None, [])


def txn_indexes_in(directory: Path) -> dict[str, bytes]:
    """The transaction indexes that are not empty."""
    found = {path.name: path.read_bytes() for path in directory.glob("*.txnindex")}
    return {name: data for name, data in found.items() if data}
