"""A partition that Apache Kafka 4.3.1 wrote and closed (tests/log/data/apache-4.3.1).

Three segments (internal.segment.bytes=1200, index.interval.bytes=100): an idempotent producer
(1000), a batch of each codec, and transactions of producers 1001 and 1002 that overlap: two
aborted, one committed, one still open.  What is expected here was printed by DumpLogSegments.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import iter_batches
from kwire.codecs.uuids import uuid_text
from kwire.log import (
    Log,
    aborted_transactions,
    append_as_follower,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.log.index.txn_index import AbortedTxn
from tests.log.configs import log_config

if TYPE_CHECKING:
    from tests.log.conftest import OpenLog, ReadAll

GOLDEN = Path(__file__).parent / "data" / "apache-4.3.1"
CONFIG = log_config(segment_bytes=1200, index_interval_bytes=100)
STAMP = 1_700_000_000_000  # of the first record
INDEXES = ("*.index", "*.timeindex", "*.txnindex")
TOPIC_ID = "shFfnxmkSmmhZ4xv91SX-w"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden-0"))


def files_like(directory: Path, *patterns: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for pattern in patterns for path in directory.glob(pattern)
    }


@pytest.fixture(params=["stopped cleanly", "killed", "killed, indexes and snapshots lost"])
def log(request: pytest.FixtureRequest, golden: Path, open_log: OpenLog) -> Log:
    if request.param.endswith("lost"):
        for pattern in (*INDEXES, "*.snapshot"):
            for path in golden.glob(pattern):
                path.unlink()
    return open_log(
        CONFIG, directory=golden, clean=request.param == "stopped cleanly", topic_id=bytes(16)
    )


def test_all_records_of_apache_kafkas_log_are_read(log: Log, read_all: ReadAll) -> None:
    found = read_all(log)
    assert (log.log_start_offset, log.log_end_offset) == (0, 33)
    assert uuid_text(log.topic_id) == TOPIC_ID
    assert [r.offset for r in found] == [o for o in range(33) if o not in (24, 27, 29)]
    assert found[0].value == b"plain 0"
    assert found[6].value == b"gzip 0 " * 5
    assert found[21].value == b"zstd 3 " * 5
    assert found[21].headers == [("h", b"zstd")]
    assert found[-1].value == b"open"
    assert found[-1].timestamp == STAMP + 300


def test_indexes_equal_those_of_apache_kafka(log: Log, golden: Path) -> None:
    log.close()
    assert files_like(golden, *INDEXES) == files_like(GOLDEN, *INDEXES)


def test_producer_snapshots_equal_those_of_apache_kafka(log: Log, golden: Path) -> None:
    log.close()
    wanted = files_like(GOLDEN, "*.snapshot")
    found = files_like(golden, "*.snapshot")
    assert found == wanted


def test_producers_of_apache_kafkas_log_are_read(log: Log) -> None:
    found = {
        entry.producer_id: (entry.epoch, entry.last_sequence, entry.last_offset)
        for entry in log.producers.entries.values()
    }
    assert found == {1000: (0, 8, 31), 1001: (0, 2, 32), 1002: (0, 1, 26)}
    assert log.producers.entries[1001].txn_first_offset == 32
    assert log.producers.entries[1001].coordinator_epoch == 2
    assert log.producers.entries[1002].last_timestamp == 1795253615061


def test_aborted_transactions_of_apache_kafkas_log_are_listed(log: Log) -> None:
    assert aborted_transactions(log, 0, 33) == [(1001, 23), (1002, 22)]
    assert aborted_transactions(log, 25, 33) == [(1002, 22)]
    assert aborted_transactions(log, 30, 33) == []
    assert log.segments.active.txn_index.entries == [
        AbortedTxn(1001, 23, 24, 22),
        AbortedTxn(1002, 22, 29, 30),
    ]


def test_open_transaction_of_apache_kafkas_log_is_unstable(log: Log) -> None:
    log.high_watermark_advanced(33)
    assert log.first_unstable_offset == 32


@pytest.mark.parametrize(
    ("timestamp", "offset", "at"),
    [
        (0, 0, STAMP),
        (STAMP, 0, STAMP),
        (STAMP + 3, 3, STAMP + 3),
        (STAMP + 6, 6, STAMP + 100),
        (STAMP + 102, 8, STAMP + 102),
        (STAMP + 104, 22, STAMP + 200),
        (STAMP + 201, 23, STAMP + 201),
        (STAMP + 250, 24, 1795253615005),  # Kafka's own answers include the markers
        (1795253615051, 29, 1795253615061),
    ],
)
def test_timestamp_lookup_in_apache_kafkas_log_finds_its_offset(
    log: Log, timestamp: int, offset: int, at: int
) -> None:
    found = offset_for_timestamp(log, timestamp)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (offset, at, 0)


def test_largest_timestamp_of_apache_kafkas_log_is_found(log: Log) -> None:
    found = max_timestamp_offset(log)
    assert found is not None
    assert (found.offset, found.timestamp) == (29, 1795253615061)
    assert offset_for_timestamp(log, 1795253615062) is None


def test_follower_of_apache_kafkas_log_writes_the_same_files(
    open_log: OpenLog, log_dir: Path, golden: Path
) -> None:
    """The follower gets one batch at a time, and rolls and indexes where Apache Kafka did."""
    follower = open_log(CONFIG)
    for path in sorted(golden.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            batch = bytearray(data[position : position + header.size_bytes])
            append_as_follower(follower, batch, leader_epoch=0, now_ms=1795253615100)
    follower.close()
    wanted = files_like(GOLDEN, "*.log", *INDEXES, "*.snapshot", "leader-epoch-checkpoint")
    found = files_like(log_dir, "*.log", *INDEXES, "*.snapshot", "leader-epoch-checkpoint")
    assert sorted(found) == sorted(wanted)
    assert found == wanted
