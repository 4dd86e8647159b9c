"""A correct transaction index is kept when it is read; a wrong one is rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.codecs.batch_layout import LENGTH, LENGTH_POS, START
from kwire.codecs.control import ControlType, control_batch
from kwire.log import Log, Origin, aborted_in, aborted_transactions
from kwire.log.follower import append_as_follower
from kwire.log.index.txn_index import ENTRY, AbortedTxn
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, Append, MakeBatch, OpenLog
from tests.log.producers.test_producer_state import Producer

CONFIG = log_config(segment_bytes=500)
ABORTED = [(2, 1), (1, 0), (3, 5), (1, 11)]
"""(producer, first offset) in the order of their markers."""


def filled(open_log: OpenLog, make_batch: MakeBatch) -> Log:
    """Overlapping transactions in several segments: aborted, committed and open ones."""
    log = open_log(CONFIG)
    first, second, third = (Producer(log, make_batch, number) for number in (1, 2, 3))
    first.send(0, transactional=True)  # offset 0
    second.send(0, transactional=True)  # 1
    second.end(ControlType.ABORT)  # 2, while the first is open
    first.send(1, 2, transactional=True)  # 3, 4
    third.send(0, transactional=True)  # 5
    first.end(ControlType.ABORT)  # 6, while the third is open
    third.end(ControlType.ABORT)  # 7, while none is
    second.send(1, transactional=True)  # 8
    second.end(ControlType.COMMIT)  # 9
    second.send(2)  # 10
    first.send(3, transactional=True)  # 11
    log.roll(first.send(4, transactional=True).log_append_time_ms)  # 12
    first.end(ControlType.ABORT)  # 13
    assert len(list(log.segments)) > 2
    assert aborted_of(log) == ABORTED
    return log


def aborted_of(log: Log) -> list[tuple[int, int]]:
    return aborted_transactions(log, 0, log.log_end_offset)


def spoil(log_dir: Path, transaction: tuple[int, int], *, field: int, value: int) -> None:
    """Change a field of the only entry with that producer and first offset."""
    spoiled = 0
    for path in log_dir.glob("*.txnindex"):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), ENTRY.size):
            entry = list(ENTRY.unpack_from(data, at))
            if tuple(entry[1:3]) == transaction:
                entry[field] = value
                ENTRY.pack_into(data, at, *entry)
                spoiled += 1
        path.write_bytes(data)
    assert spoiled == 1


def test_correct_transaction_index_is_kept(
    open_log: OpenLog, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(open_log, make_batch).close()
    log = open_log(CONFIG, clean=True)
    assert aborted_of(log) == ABORTED
    assert "does not fit the log" not in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (1, 9),  # another producer
        (1, 3),  # one that has a transaction elsewhere
        (2, 1),  # begins where another's does
        (2, 2),  # begins with a marker
        (2, -1),
        (3, 5),  # ends where there is no marker
        (3, 9),  # ends with a marker that commits
        (3, 99),  # ends behind the log
        (4, 2),  # stable up to a marker
        (4, 10),  # stable up to a plain batch
        (4, 99),
    ],
)
def test_wrong_transaction_index_is_rebuilt(
    open_log: OpenLog,
    make_batch: MakeBatch,
    log_dir: Path,
    caplog: pytest.LogCaptureFixture,
    field: int,
    value: int,
) -> None:
    """The entry of the first transaction that producer 1 aborted is wrong."""
    filled(open_log, make_batch).close()
    spoil(log_dir, (1, 0), field=field, value=value)
    log = open_log(CONFIG, clean=True)
    assert aborted_of(log) == ABORTED
    assert "does not fit the log" in caplog.text
    log.close()
    caplog.clear()
    assert aborted_of(open_log(CONFIG, clean=True)) == ABORTED
    assert caplog.text == "", "it was written, too"


@pytest.mark.parametrize("transaction", ABORTED)
@pytest.mark.parametrize("kept", ["none", "the first", "all but the last"])
@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_transaction_index_is_rebuilt_from_any_snapshot(
    open_log: OpenLog,
    make_batch: MakeBatch,
    log_dir: Path,
    transaction: tuple[int, int],
    kept: str,
    damage: Callable[[Path], object],
) -> None:
    filled(open_log, make_batch).close()
    spoil(log_dir, transaction, field=1, value=9)
    snapshots = sorted(log_dir.glob("*.snapshot"))
    assert len(snapshots) > 2
    damaged = {"none": snapshots, "the first": snapshots[1:], "all but the last": snapshots[-1:]}
    for path in damaged[kept]:
        damage(path)
    assert aborted_of(open_log(CONFIG, clean=True)) == ABORTED


def test_transaction_aborted_after_the_region_is_not_listed(
    open_log: OpenLog, append: Append
) -> None:
    log = open_log(log_config(index_interval_bytes=0))
    for name in range(4):
        append(log, producer_id=name, producer_epoch=0, base_sequence=0, transactional=True)
        abort = control_batch(
            ControlType.ABORT, 0, producer_id=name, producer_epoch=0, timestamp=NOW_MS
        )
        log.append(abort, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    for name in range(4):
        region = log.read(2 * name, 1, max_offset=8, min_one_batch=True)
        assert region is not None
        assert aborted_in(log, region) == [(name, 2 * name)]


HELD = AbortedTxn(1, 0, 4, 5)


@pytest.mark.parametrize(
    "entry",
    [
        HELD,
        AbortedTxn(1, 0, 3, 4),  # a marker that is not there, in front of one of the same producer
        AbortedTxn(2, 1, 4, 5),  # another's transaction, but the marker of this one
        AbortedTxn(2, 1, 2, 0),  # one that was committed
        AbortedTxn(1, 0, 4, 3),  # stable up to what is not there
    ],
)
def test_wrong_index_is_rebuilt_beside_a_marker_and_a_gap(
    open_log: OpenLog, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture, entry: AbortedTxn
) -> None:
    """A compacted leader may send this log: offset 3 is missing."""
    log = open_log()
    for name in (1, 2):
        sent = make_batch(
            base_offset=name - 1,
            producer_id=name,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
            partition_leader_epoch=0,
        )
        append_as_follower(log, sent, leader_epoch=0, now_ms=NOW_MS)
    for name, offset, kind in ((2, 2, ControlType.COMMIT), (1, 4, ControlType.ABORT)):
        marker = control_batch(kind, 0, producer_id=name, producer_epoch=0, timestamp=NOW_MS)
        START.pack_into(marker, 0, offset, LENGTH.unpack_from(marker, LENGTH_POS)[0], 0)
        append_as_follower(log, marker, leader_epoch=0, now_ms=NOW_MS)
    index = log.segments.active.txn_index
    assert index.entries == [HELD]
    index.replace([entry])
    log.close()
    again = open_log(clean=True)
    assert aborted_transactions(again, 0, 5) == [(1, 0)]
    assert again.segments.active.txn_index.entries == [HELD]
    assert ("does not fit the log" in caplog.text) == (entry != HELD)
