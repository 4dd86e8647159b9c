"""The cleaner's parts keep the contracts between them."""

from __future__ import annotations

import pytest

from kwire.codecs.batch_layout import HEADER_SIZE
from kwire.codecs.batches import (
    ControlType,
    EndTxnMarker,
    Record,
    build,
    control_batch,
    iter_batches,
    read_header,
    records,
)
from kwire.log.compaction.batch_filter import BatchFilter
from kwire.log.compaction.key_scan import BatchKeys, entries, picked, scan_keys, short_key
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.task import (
    Answer,
    CleaningTask,
    GroupCleaned,
    PassDone,
    PassFailed,
    decode_answer,
    encode_answer,
)
from kwire.log.compaction.transactions import CleanedTransactions
from tests.log.compaction.legacy_messages import message

TASK = CleaningTask(
    directory="/data/ü/t-0",
    segments=[(0, 100), (7, 2**33)],
    later_segments=[90, 2**40],
    first_dirty=3,
    end_offset=80,
    upper_bound=90,
    now_ms=1_700_000_000_000,
    delete_retention_ms=1,
    segment_bytes=2,
    segment_index_bytes=4,
    index_interval_bytes=5,
    producers=[(1, 2, 3), (2**60, -1, 0)],
    map_bytes_max=6,
)


def test_cleaning_task_is_encoded_in_one_line() -> None:
    line = TASK.encode()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert CleaningTask.decode(line) == TASK


@pytest.mark.parametrize(
    "answer",
    [
        GroupCleaned([0, 7], 2**33, ["a.log.cleaned", "a.index.cleaned"], 5, 6),
        PassDone(1, 2, 3, 4, 5, 6),
        PassFailed(28, "No space\nleft"),
    ],
)
def test_cleaning_answer_is_encoded_in_one_line(answer: Answer) -> None:
    line = encode_answer(answer)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_answer(line) == answer


@pytest.mark.parametrize(
    ("deletes_stay", "kept"), [(True, [b"a", b"b", b"c", b"d"]), (False, [b"a", b"c", b"d"])]
)
def test_old_tombstones_of_old_formats_are_removed(deletes_stay: bool, kept: list[bytes]) -> None:
    """They are removed from the part that this pass cleans. Other records stay at any age."""
    first = [(b"a", b"1"), (b"b", None), (b"k", b"written again")]
    last = [(b"c", None), (b"d", b"2")]
    offsets = OffsetMap(10, TASK.map_bytes_max)
    offsets.add(BatchKeys([b"k"], range(9, 10), has_nulls=False), 9, 9)
    offsets.freeze()
    batch_filter = BatchFilter(TASK, offsets, CleanedTransactions())
    found = []
    for base, pairs in ((0, first), (10, last)):
        for offset, (key, value) in enumerate(pairs, base):
            data = message(offset, 1, 0, TASK.now_ms, key, value)
            left = batch_filter.apply(data, 0, read_header(data), legacy_deletes_stay=deletes_stay)
            found += [record.key for _, header in iter_batches(left) for record in records(left)]
    assert found == kept


@pytest.mark.parametrize("offsets", [[0, 1, 2], [0, 2, 9], [4]])
def test_key_scan_returns_true_offsets_in_a_batch_with_gaps(offsets: list[int]) -> None:
    made = [Record(100 + offset, 0, b"k%d" % offset, b"v") for offset in offsets]
    data = bytes(build(made, base_offset=100, keep_offsets=True, last_offset=109))
    found = scan_keys(data, HEADER_SIZE, len(data), read_header(data))
    assert found.keys == [record.key for record in made]
    assert list(found.offsets) == [record.offset for record in made]


SIZES = [0, 1, 62, 63, 64, 65, 130, 8_000, 9_000, 20_000]


def sized(gone: tuple[int, ...] = ()) -> tuple[list[Record], bytes]:
    """Unique keys and values whose sizes are encoded in one, two or three bytes."""
    made = [
        Record(100 + number, 1000 + 70 * number, b"%d" % number + b"k" * key, b"v" * value)
        for number, (key, value) in enumerate((key, value) for key in SIZES for value in SIZES)
        if number not in gone
    ]
    options = {"base_offset": 100, "keep_offsets": True, "last_offset": 199}
    return made, bytes(build(made, **options))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("gone", [(), (7,), (0, 99)])
def test_key_scan_reads_keys_of_any_size(gone: tuple[int, ...]) -> None:
    made, data = sized(gone)
    found = scan_keys(data, HEADER_SIZE, len(data), read_header(data))
    assert found.keys == [short_key(record.key or b"") for record in made]
    assert list(found.offsets) == [record.offset for record in made]
    assert not found.has_nulls


STEPS = [0, 1, 62, 63, 64, 65, 127, 128, 129, 8_191, 8_192, 2**20]


@pytest.mark.parametrize("sign", [1, -1])
def test_key_scan_skips_timestamp_deltas_of_any_size(sign: int) -> None:
    """Deltas are relative to the first record's timestamp."""
    stamps = [10**12 + sign * step for step in STEPS]
    made = [
        Record(100 + number, stamp, b"\2\2%d" % number, b"v") for number, stamp in enumerate(stamps)
    ]
    data = bytes(build(made, base_offset=100))
    header = read_header(data)
    assert scan_keys(data, HEADER_SIZE, len(data), header).keys == [each.key for each in made]
    found = entries(data, HEADER_SIZE, len(data), len(made))
    assert [header.base_timestamp + each.timestamp_delta for each in found] == stamps
    again = picked(data, HEADER_SIZE, list(range(len(made))))
    assert again is not None
    assert [each[:5] for each in again] == [each[:5] for each in found]


@pytest.mark.parametrize("deltas", [[0], [99], [3, 4, 50], list(range(100))])
def test_picked_returns_the_records_at_the_given_deltas(deltas: list[int]) -> None:
    made, data = sized()
    found = picked(data, HEADER_SIZE, deltas)
    assert found is not None
    whole = entries(data, HEADER_SIZE, len(data), len(made))
    assert [each._replace(key=None) for each in found] == [
        whole[delta]._replace(key=None) for delta in deltas
    ]


def test_picked_is_none_for_a_batch_with_gaps() -> None:
    for kept in ([Record(101, 0, b"k", b"v")], [Record(100 + at, 0, b"k", b"v") for at in (0, 2)]):
        data = bytes(build(kept, base_offset=100, keep_offsets=True, last_offset=102))
        assert picked(data, HEADER_SIZE, list(range(len(kept)))) is None


@pytest.mark.parametrize(
    ("bytes_max", "room"),
    [
        (8 * 16 + 3 * (8 + 64), 2),
        ((8 + 16) * 16 + 4 * (8 + 64) - 1, 2),
        ((8 + 16) * 16 + 4 * (8 + 64), 3),
    ],
)
def test_offset_map_counts_the_larger_table_when_it_grows(bytes_max: int, room: int) -> None:
    """The fourth key doubles the table of 8 slots; both tables exist during the copy."""
    offsets = OffsetMap(10, bytes_max)
    assert offsets.has_room_for(10**9), "an empty one takes anything"
    offsets.add(BatchKeys([b"%023d" % 9], range(9, 10), has_nulls=False), 9, 0)
    assert [offsets.has_room_for(more) for more in range(room + 2)] == [True] * (room + 1) + [False]


def test_marker_of_a_transaction_without_records_is_empty() -> None:
    """This holds for commits and aborts. Control records of other types are no markers."""
    transactions = CleanedTransactions()
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        batch = control_batch(kind, 0, producer_id=7, producer_epoch=0, timestamp=0)
        header = read_header(batch)
        assert transactions.is_empty(header, EndTxnMarker(kind, 0))
        assert not transactions.is_empty(header, None)
    assert transactions.kept == []
    assert not transactions.has_open
