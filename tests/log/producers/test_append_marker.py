"""`append_marker` appends a transaction's marker faster than `append`, with the same result."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from kwire.codecs.batches import ControlType, Record, build, control_batch, read_header
from kwire.codecs.control import EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    Log,
    LogError,
    MarkerBatch,
    Origin,
    aborted_transactions,
    append_markers,
)
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, OpenLog, ReadAll

PRODUCERS = (7, 8)
CONFIGS = {
    "plain": log_config(index_interval_bytes=0),
    "small segments": log_config(index_interval_bytes=0, segment_bytes=400),
    "flushed": log_config(index_interval_bytes=0, flush_messages=2),
    "stamped": log_config(message_timestamp_type="LogAppendTime"),
}


class Marker:
    """A marker that may be stale, by its producer's epoch or by its coordinator's."""

    def __init__(self, rng: random.Random, log: Log) -> None:
        producer_id = rng.choice((*PRODUCERS, 9))
        known = log.producers.entries.get(producer_id)
        epoch = known.epoch if known else 0
        self.kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
        self.coordinator_epoch = rng.choice((3, 3, 3, 3, 4, 2))
        self.transaction_version = rng.choice((0, 1, 2))
        self.batch = control_batch(
            self.kind,
            self.coordinator_epoch,
            producer_id=producer_id,
            producer_epoch=max(epoch + rng.choice((0, 0, 0, 1, -1)), 0),
            timestamp=NOW_MS - rng.randrange(100),
        )

    def batched(self) -> MarkerBatch:
        return MarkerBatch(
            self.batch,
            read_header(self.batch),
            EndTxnMarker(self.kind, self.coordinator_epoch),
            self.transaction_version,
        )

    def quickly(self, log: Log, leader_epoch: int) -> None:
        log.append_marker(
            bytearray(self.batch),
            read_header(self.batch),
            EndTxnMarker(self.kind, self.coordinator_epoch),
            leader_epoch=leader_epoch,
            now_ms=NOW_MS,
            transaction_version=self.transaction_version,
        )

    def thoroughly(self, log: Log, leader_epoch: int) -> None:
        log.append(
            bytearray(self.batch),
            leader_epoch=leader_epoch,
            now_ms=NOW_MS,
            origin=Origin.COORDINATOR,
            transaction_version=self.transaction_version,
        )


def send(log: Log, producer_id: int, size: int, leader_epoch: int) -> None:
    entry = log.producers.entries.get(producer_id)
    batch = build(
        [Record(0, NOW_MS, b"k", b"v" * size)],
        producer_id=producer_id,
        producer_epoch=entry.epoch if entry else 0,
        base_sequence=entry.next_sequence if entry else 0,
        transactional=True,
    )
    log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


def state(log: Log) -> list[object]:
    producers = log.producers
    return [
        [
            (e.producer_id, e.epoch, e.txn_first_offset, e.coordinator_epoch, e.last_timestamp)
            for e in producers.entries.values()
        ],
        list(producers.ongoing.items()),
        producers.unreplicated,
        producers.end_offset,
        log.first_unstable_offset,
        log.log_end_offset,
        log.recovery_point,
        log.epochs.entries,
        [(segment.base_offset, segment.size_bytes) for segment in log.segments],
        aborted_transactions(log, 0, log.log_end_offset),
    ]


def refusal(attempt: object, *arguments: object) -> ErrorCode | None:
    assert callable(attempt)
    try:
        attempt(*arguments)
    except LogError as refused:
        return refused.error
    return None


@pytest.mark.parametrize("name", CONFIGS)
def test_append_marker_has_the_result_of_append(
    name: str, open_log: OpenLog, tmp_path: Path, rng: random.Random, read_all: ReadAll
) -> None:
    logs = []
    for way in ("quick", "thorough"):
        directory = tmp_path / way / "t-0"
        directory.mkdir(parents=True)
        logs.append(open_log(CONFIGS[name], directory=directory))
    quick, thorough = logs
    refused = 0
    for step in range(120):
        leader_epoch = step // 40
        if rng.random() < 0.5:
            producer_id, size = rng.choice(PRODUCERS), rng.randrange(60)
            for log in logs:
                send(log, producer_id, size, leader_epoch)
        else:
            marker = Marker(rng, quick)
            error = refusal(marker.quickly, quick, leader_epoch)
            assert error == refusal(marker.thoroughly, thorough, leader_epoch)
            refused += error is not None
        if rng.random() < 0.2:
            for log in logs:
                log.high_watermark_advanced(log.log_end_offset)
        assert state(quick) == state(thorough)
    assert refused > 5
    contents = [[segment.path.read_bytes() for segment in log.segments] for log in logs]
    assert contents[0] == contents[1]
    again = open_log(CONFIGS[name], directory=quick.dir)  # and after a kill
    assert again.log_end_offset == quick.log_end_offset
    assert state(again)[1] == state(quick)[1]
    assert read_all(again) == read_all(quick)


@pytest.mark.parametrize("name", [*CONFIGS, "small index"])
def test_append_markers_has_the_result_of_append_for_each(
    name: str, open_log: OpenLog, tmp_path: Path, rng: random.Random
) -> None:
    """Some groups have two markers of one producer, which cannot share a write."""
    config = CONFIGS.get(name) or log_config(index_interval_bytes=0, segment_index_bytes=120)
    logs = []
    for way in ("together", "thorough"):
        directory = tmp_path / way / "t-0"
        directory.mkdir(parents=True)
        logs.append(open_log(config, directory=directory))
    together, thorough = logs
    refused = appended = 0
    for step in range(60):
        leader_epoch = step // 20
        for producer_id in PRODUCERS:
            if rng.random() < 0.7:
                size = rng.randrange(9)
                for log in logs:
                    send(log, producer_id, size, leader_epoch)
        markers = [Marker(rng, together) for _ in range(rng.randrange(1, 4))]
        errors = append_markers(
            together, [m.batched() for m in markers], leader_epoch=leader_epoch, now_ms=NOW_MS
        )
        expected = [refusal(m.thoroughly, thorough, leader_epoch) for m in markers]
        assert errors == [error or ErrorCode.NONE for error in expected]
        refused += sum(error is not ErrorCode.NONE for error in errors)
        appended += len(errors)
        if rng.random() < 0.2:
            for log in logs:
                log.high_watermark_advanced(log.log_end_offset)
        assert state(together) == state(thorough)
    assert 5 < refused < appended
    for log in logs:
        log.close()
    assert files_of(together) == files_of(thorough)


def files_of(log: Log) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(log.dir.iterdir())}


def test_markers_that_the_disk_refuses_change_nothing(
    open_log: OpenLog, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    send(log, 7, 1, 0)
    send(log, 8, 1, 0)
    before = state(log)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(log.storage.files, "pwrite", full, raising=False)
    markers = [Marker(rng, log) for _ in range(9)]
    one_each = list({m.batched().header.producer_id: m.batched() for m in markers}.values())
    errors = append_markers(log, one_each, leader_epoch=0, now_ms=NOW_MS)
    assert ErrorCode.KAFKA_STORAGE_ERROR in errors
    assert ErrorCode.NONE not in errors
    assert state(log) == before


def test_append_marker_to_an_offline_log_is_refused(open_log: OpenLog, rng: random.Random) -> None:
    log = open_log()
    log.take_offline()
    marker = Marker(rng, log)
    assert refusal(marker.quickly, log, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_end_offset == 0
