"""An archive on disk after an interruption at any moment, without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kwire.pipeline.archiving import pieces as pieces_module
from kwire.pipeline.archiving.archive_settings import Archive
from kwire.pipeline.archiving.directory import (
    ArchiveBroken,
    ArchiveDirectory,
    Lost,
    Move,
    Piece,
    State,
)
from kwire.pipeline.archiving.pieces import HEADERS, Pieces, merge, write_pieces
from kwire.pipeline.archiving.publishing import bins, exchange
from kwire.pipeline.archiving.run import ArchiveBatches
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka, Topics

DAY_MS = 86_400_000


@pytest.fixture
def archive(tmp_path: Path) -> ArchiveDirectory:
    made = ArchiveDirectory(tmp_path / "archive")
    made.create()
    return made


def hidden(archive: ArchiveDirectory, name: str) -> str:
    (archive.pieces / name).write_text(name)
    return archive.relative(archive.pieces / name)


def moves(archive: ArchiveDirectory, count: int) -> tuple[Move, ...]:
    return tuple(
        Move(
            hidden(archive, f"_{n}.piece"), archive.visible("t", "2026-03-01", f"{n}.parquet"), 1, 1
        )
        for n in range(count)
    )


class Cut(Exception):
    """Raised where the process would be killed."""


@pytest.mark.parametrize("left", range(4))
def test_next_lock_holder_finishes_interrupted_renames(
    archive: ArchiveDirectory, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The process is killed before each rename: of the state, and of three files."""
    state = State("q", 3, moves(archive, 3))
    rename, done = os.replace, 0

    def cut(source: Any, target: Any) -> None:  # noqa: ANN401 - paths
        nonlocal done
        if done == left:
            raise Cut
        done += 1
        rename(source, target)

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(Cut), archive.locked():
        archive.commit(state)
    monkeypatch.undo()
    assert archive.read() == (state if left else State())
    assert len(archive.files()) == max(0, left - 1)
    with archive.locked() as found:
        archive.sweep(found)
    names = [path.read_text() for path in archive.files()]
    assert names == ([f"_{n}.piece" for n in range(3)] if left else [])
    assert list(archive.pieces.iterdir()) == []


def test_sweep_removes_files_that_the_state_does_not_name(archive: ArchiveDirectory) -> None:
    piece = Piece("t", "2026-03-01", hidden(archive, "_kept.piece"), 1, 1, {"0": [0, 0]}, 0.0)
    state = State("q", 1, (), (piece,), (Lost("t", 0, 1, 2, 1),))
    hidden(archive, "_litter.piece")
    (archive.pieces / "half").mkdir()
    (archive.pieces / "half" / "file").touch()
    with archive.locked():
        archive.commit(state)
        archive.sweep(state)
    assert [path.name for path in archive.pieces.iterdir()] == ["_kept.piece"]
    assert archive.read() == state


def test_unreadable_state_raises_archive_broken(archive: ArchiveDirectory) -> None:
    (archive.hidden / "state.json").write_text("{")
    with pytest.raises(ArchiveBroken, match=r"state\.json cannot be read"):
        archive.read()
    elsewhere = ArchiveDirectory(archive.root / "elsewhere")
    with pytest.raises(ArchiveBroken, match="is not an archive"), elsewhere.locked():
        pass


def batches(archive: ArchiveDirectory, query: str) -> ArchiveBatches:
    archive.checkpoint.mkdir(exist_ok=True)
    (archive.checkpoint / "metadata").write_text(json.dumps({"id": query}))
    return ArchiveBatches(archive, Archive(Kafka(), Topics(("t",)), archive.root))


def test_archived_batch_is_not_written_again(archive: ArchiveDirectory) -> None:
    with archive.locked():
        archive.commit(State("q", 5))
    untouched: Any = None
    batches(archive, "q").write(untouched, 5)
    with pytest.raises(ArchiveBroken, match="asks for batch 4 after batch 5"):
        batches(archive, "q").write(untouched, 4)
    with pytest.raises(ArchiveBroken, match="with another checkpoint"):
        batches(archive, "other").write(untouched, 6)


def test_bins_keep_the_order_and_leave_large_ones_alone() -> None:
    def sizes(items: list[int]) -> list[list[int]]:
        return bins(items, int, 10)

    assert sizes([]) == []
    assert sizes([3, 3, 3]) == [[3, 3, 3]]
    assert sizes([4, 4, 4, 4]) == [[4, 4, 4], [4]]
    assert sizes([1, 20, 2, 3]) == [[1], [20], [2, 3]]
    assert sizes([10, 10]) == [[10], [10]]


def test_two_directories_take_each_others_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / path.name).touch()
    exchange(one, other)
    assert [path.name for path in other.iterdir()] == ["one"]
    assert [path.name for path in one.iterdir()] == ["other"]
    with pytest.raises(PipelineError, match=r"cannot be compacted: .*No such file"):
        exchange(tmp_path / "none", other)


def batch(partition: int, offsets: Iterable[int], timestamps: Iterable[int]) -> pa.RecordBatch:
    """A batch as Spark passes it to a task: timestamps are in microseconds."""
    rows = list(zip(offsets, timestamps, strict=True))
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * len(rows),
            "key": [None] * len(rows),
            "value": [b"%d" % offset for offset, _ in rows],
            "headers": pa.array([None] * len(rows), HEADERS),
            "timestamp": pa.array([stamp * 1000 for _, stamp in rows], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * len(rows), pa.int32()),
            "partition": pa.array([partition] * len(rows), pa.int32()),
            "offset": [offset for offset, _ in rows],
        }
    )


def test_dates_are_utc_from_before_1970_to_after_9999(tmp_path: Path) -> None:
    stamps = [-1, 0, DAY_MS - 1, DAY_MS, 253_402_300_799_999, 253_402_300_800_000]
    [found] = write_pieces([batch(0, range(6), stamps)], str(tmp_path), 1 << 20)
    rows = {row["date"]: row["records"] for row in found.to_pylist()}
    assert rows == {
        "1969-12-31": 1, "1970-01-01": 2, "1970-01-02": 1, "9999-12-31": 1, "10000-01-01": 1,
    }  # fmt: skip
    kept = [pq.read_table(row["path"])["timestamp"].cast(pa.int64()) for row in found.to_pylist()]
    assert sorted(stamp for column in kept for stamp in column.to_pylist()) == stamps


def test_task_keeps_the_order_in_every_file_in_limited_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "BUFFERED_BYTES", 20_000)
    monkeypatch.setattr(pieces_module, "OPEN_FILES", 3)
    pieces = Pieces(str(tmp_path), 1 << 20)
    for start in range(0, 5000, 100):
        numbers = range(start, start + 100)
        pieces.add(batch(2, numbers, (number % 7 * DAY_MS for number in numbers)))
        assert sum(pieces._sizes.values()) <= 20_000
        assert len(pieces._files) <= 3
    written = pieces.close()
    assert sum(one.records for one in written) == 5000
    seen: dict[str, list[int]] = {}
    for one in written:
        offsets = pq.read_table(one.path)["offset"].to_pylist()
        assert json.loads(one.offsets) == {"2": [offsets[0], offsets[-1]]}
        seen.setdefault(one.date, []).extend(offsets)
    assert all(offsets == sorted(offsets) for offsets in seen.values())
    assert sorted(offset for offsets in seen.values() for offset in offsets) == list(range(5000))


def test_files_are_merged_record_after_record(tmp_path: Path) -> None:
    rows = []
    for partition in range(3):
        [found] = write_pieces([batch(partition, range(100), [5] * 100)], str(tmp_path), 1 << 20)
        rows += found.to_pylist()
    target = tmp_path / "merged"
    records, size_bytes = merge([row["path"] for row in rows], str(target))
    assert (records, size_bytes) == (300, target.stat().st_size)
    found = pq.ParquetFile(target)
    assert found.metadata.num_row_groups == 1
    table = found.read()
    assert table["partition"].to_pylist() == [0] * 100 + [1] * 100 + [2] * 100
    assert table["offset"].to_pylist() == list(range(100)) * 3
