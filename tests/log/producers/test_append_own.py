"""`append_own` appends a coordinator's batch faster than `append`, with the same result."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.codecs.batches import Compression, build_pairs
from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, Origin
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, OpenLog, ReadAll

CONFIGS = {
    "plain": log_config(index_interval_bytes=0),
    "small segments": log_config(index_interval_bytes=0, segment_bytes=400),
    "flushed": log_config(index_interval_bytes=0, flush_messages=2),
    "stamped": log_config(message_timestamp_type="LogAppendTime"),
    "recompressed": log_config(compression_type="gzip"),
}


def state(log: Log) -> list[object]:
    return [
        log.log_end_offset,
        log.recovery_point,
        log.epochs.entries,
        log.producers.end_offset,
        log.recompressed_records,
        [
            (segment.base_offset, segment.size_bytes, segment.max_timestamp)
            for segment in log.segments
        ],
    ]


@pytest.mark.parametrize("name", CONFIGS)
def test_append_own_has_the_result_of_append(
    name: str, open_log: OpenLog, tmp_path: Path, rng: random.Random, read_all: ReadAll
) -> None:
    logs = []
    for way in ("own", "thorough"):
        directory = tmp_path / way / "t-0"
        directory.mkdir(parents=True)
        logs.append(open_log(CONFIGS[name], directory=directory))
    own, thorough = logs
    for step in range(30):
        now_ms, leader_epoch = NOW_MS + step, step // 10
        pairs = [(b"k", rng.choice((None, b"v" * rng.randrange(60)))) for _ in range(1 + step % 3)]
        codec = rng.choice((Compression.NONE, Compression.ZSTD))
        batch = build_pairs(pairs, now_ms, compression=codec, base_sequence=0)
        copy = batch.copy()
        own.append_own(batch, len(pairs), leader_epoch=leader_epoch, now_ms=now_ms)
        thorough.append(copy, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
        assert state(own) == state(thorough)
    contents = [[segment.path.read_bytes() for segment in log.segments] for log in logs]
    assert contents[0] == contents[1]
    assert read_all(own) == read_all(thorough)


@pytest.mark.parametrize("offline", [True, False])
def test_append_own_that_is_refused_changes_nothing(open_log: OpenLog, *, offline: bool) -> None:
    """The log is offline, or the batch is larger than `max.message.bytes`."""
    log = open_log(log_config(max_message_bytes=100))
    if offline:
        log.take_offline()
    batch = build_pairs([(b"k", b"v" * (1 if offline else 100))], NOW_MS, base_sequence=0)
    with pytest.raises(LogError) as refused:
        log.append_own(batch, 1, leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.error is (
        ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.MESSAGE_TOO_LARGE
    )
    assert log.log_end_offset == 0
