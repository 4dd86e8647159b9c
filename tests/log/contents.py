"""Everything that a log answers about its contents, to compare with a plain list or another log."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kwire.codecs.batches import BatchHeader, iter_batches, records
from kwire.log import (
    Log,
    LogConfig,
    aborted_transactions,
    end_offset_for_epoch,
    epoch_for,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.log.directory.files import Files
from kwire.log.inspection.inspection import Inspector
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load

Contents = dict[str, Any]

INDEXES = (".index", ".timeindex", ".txnindex")


def opened(
    directory: Path,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool = False,
    recovery_point: int = 0,
    start: int = 0,
) -> Log:
    """The log in `directory`; few files are open at a time."""
    return load(
        directory,
        "t",
        0,
        config,
        SharedLogSettings(Files(), OpenFiles(3), verify_transactions=False),
        now_ms=now_ms,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=start,
    )


def reopened(log: Log, now_ms: int, *, whole: bool) -> Log:
    """A copy of the log, opened as by the broker that starts after this one was killed.

    If `whole`, it is scanned without indexes; otherwise from the recovery point.
    """
    copy = log.dir.with_name("copy-0")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(log.dir, copy)
    for path in copy.iterdir() if whole else ():
        if path.suffix in INDEXES or path.name == "leader-epoch-checkpoint":
            path.unlink()
    point = 0 if whole else log.recovery_point
    start = log.log_start_offset
    return opened(copy, log.config, now_ms=now_ms, recovery_point=point, start=start)


def contents_of(log: Log, stamps: Iterable[int]) -> Contents:
    """The answers as plain values; `stamps` are the times that are looked up."""
    start, end = log.log_start_offset, log.log_end_offset
    headers = batches(log)
    offsets = range(start, end)
    # As in Kafka, an epoch without a record may be forgotten by a restart.
    epochs = [entry for entry in log.epochs.entries if entry[1] < end]
    return {
        "bounds": (start, end, log.first_unstable_offset),
        "segments": [
            (
                segment.base_offset,
                segment.size_bytes,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                segment.first_batch_timestamp(),
                [tuple(entry) for entry in segment.txn_index.entries],
            )
            for segment in log.segments
        ],
        "headers": headers,
        "places": [read(log, offset, 1) for offset in offsets],
        "epochs": epochs,
        "ends of epochs": [
            end_offset_for_epoch(log, epoch) for epoch in range(max(dict(epochs), default=-1) + 1)
        ],
        "epoch of each": [epoch_for(log, offset) for offset in offsets],
        "times": {stamp: offset_for_timestamp(log, stamp) for stamp in stamps},
        "latest time": max_timestamp_offset(log),
        "aborted": [sorted(aborted_transactions(log, offset, end)) for offset in offsets],
        "producers": producers(log, {header.producer_id for header in headers}),
        "open": dict(log.producers.ongoing),
    }


def producers(log: Log, known: set[int]) -> dict[int, tuple[Any, ...]]:
    """Of those that have a batch here: a snapshot may know more, and knows their last batch only.

    (epoch, last timestamp, where the transaction began, next sequence, last batch); of that batch
    its time is left out, for which a snapshot has the producer's.
    """
    return {
        entry.producer_id: (
            entry.epoch,
            entry.last_timestamp,
            entry.txn_first_offset,
            entry.next_sequence,
            [batch[:3] for batch in entry.batches[-1:]],
        )
        for entry in log.producers.entries.values()
        if entry.producer_id in known
    }


def read(log: Log, offset: int, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """(offset, value) of the records of whole batches that a Fetch from `offset` gives."""
    region = log.read(offset, max_bytes, max_offset=log.log_end_offset, min_one_batch=True)
    data = b"" if region is None else region.read()
    found = [record for at, _ in iter_batches(data) for record in records(data, at)]
    return [(record.offset, record.value) for record in found]


def batches(log: Log) -> list[BatchHeader]:
    """The headers of all batches that end at or after the log's start."""
    found: list[BatchHeader] = []
    at, end = log.log_start_offset, log.log_end_offset
    while region := log.read(at, 1 << 20, max_offset=end, min_one_batch=True):
        found += [header for _, header in iter_batches(region.read())]
        at = found[-1].last_offset + 1
    return found


def problems(log: Log) -> list[str]:
    """What `kwire log verify` finds wrong in the files as they are."""
    inspector = Inspector()
    inspector.folder(log.dir)
    return [str(problem) for problem in inspector.problems]
