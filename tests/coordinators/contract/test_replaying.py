"""Replay of a log: which records a slice drops, and which it never drops."""

from __future__ import annotations

from random import Random

import pytest

from kwire.codecs.batches import Compression, ControlType, CorruptBatch, Record, build
from kwire.codecs.control import control_batch
from kwire.coordinators.contract.replaying import (
    ReplayedRecord,
    ReplayedTransactionEnd,
    ReplaySlice,
)

REPLACED = (b"r",)
"""How keys begin in these tests of which the last record counts."""


def batch(*records: tuple[bytes | None, bytes | None], **how: object) -> bytes:
    return bytes(build([Record(0, 0, key, value) for key, value in records], **how))  # type: ignore[arg-type] # as the test says


def left(data: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (each.key, each.value)
        for each in ReplaySlice(data, REPLACED)
        if isinstance(each, ReplayedRecord)
    ]


def test_slice_keeps_the_last_record_of_a_key_at_its_position() -> None:
    data = batch((b"r1", b"a"), (b"x", b"1")) + batch((b"r2", b"b"), (b"x", b"2"), (b"r1", b"c"))
    found = ReplaySlice(data, REPLACED)
    assert list(found) == [
        ReplayedRecord(-1, b"x", b"1"),
        ReplayedRecord(-1, b"r2", b"b"),
        ReplayedRecord(-1, b"x", b"2"),
        ReplayedRecord(-1, b"r1", b"c"),
    ]
    assert found.records == 5


def test_slice_keeps_tombstones_and_the_records_before_them() -> None:
    data = batch((b"r", b"a"), (b"r", None), (b"r", None), (b"r", b"b"), (b"r", b"c"), (b"r", None))
    assert left(data) == [(b"r", None), (b"r", None), (b"r", b"c"), (b"r", None)]


def test_slice_keeps_records_without_a_key() -> None:
    assert left(batch((None, b"a"), (b"", b"b"), (None, None))) == [
        (None, b"a"),
        (b"", b"b"),
        (None, None),
    ]


def test_slice_drops_no_record_across_transactional_records_and_markers() -> None:
    how = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    end = bytes(control_batch(ControlType.COMMIT, 0, producer_id=7, producer_epoch=0, timestamp=0))
    data = batch((b"r", b"1")) + batch((b"r", b"2"), (b"r", b"3"), **how)
    data += batch((b"r", b"4")) + end + batch((b"r", b"5"))
    assert list(ReplaySlice(data, REPLACED)) == [
        ReplayedRecord(-1, b"r", b"1"),
        ReplayedRecord(7, b"r", b"2"),
        ReplayedRecord(7, b"r", b"3"),
        ReplayedRecord(-1, b"r", b"4"),
        ReplayedTransactionEnd(7, True),
        ReplayedRecord(-1, b"r", b"5"),
    ]


def test_slice_reads_compressed_batches() -> None:
    data = batch((b"r", b"1"), (b"x", b"2"), compression=Compression.GZIP) + batch((b"r", b"3"))
    assert left(data) == [(b"x", b"2"), (b"r", b"3")]


def test_slice_reads_records_of_every_size(rng: Random) -> None:
    sizes = [0, 1, 5, 62, 63, 64, 127, 128, 300, 8190, 8191, 8192, 70_000]
    written = [
        (rng.randbytes(rng.choice(sizes)), rng.randbytes(rng.choice(sizes))) for _ in range(300)
    ]
    data = b"".join(batch(*written[start : start + 60]) for start in range(0, 300, 60))
    found = ReplaySlice(data, ())
    assert [(each.key, each.value) for each in found if isinstance(each, ReplayedRecord)] == written


def test_slice_raises_corrupt_batch_for_truncated_or_damaged_batches(rng: Random) -> None:
    """Any byte of the records may be another: they are read, or CorruptBatch is raised."""
    sound = batch((b"r1", b"a"), (b"r2", b"bb"), (b"x", None))
    told = 0
    for _ in range(2_000):
        spoiled = bytearray(sound)
        spoiled[rng.randrange(61, len(spoiled))] = rng.randrange(256)
        try:
            list(ReplaySlice(bytes(spoiled), REPLACED))
        except CorruptBatch:
            told += 1
    assert told > 100
    with pytest.raises(CorruptBatch):
        list(ReplaySlice(sound[:57] + (9).to_bytes(4, "big") + sound[61:], REPLACED))
