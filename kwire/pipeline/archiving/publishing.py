"""Publishes an archive's files to readers, and joins small files before and after that."""

from __future__ import annotations

import ctypes
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from operator import add
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from kwire.pipeline.archiving.directory import ArchiveDirectory, Move, Piece, State
from kwire.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

RENAME_EXCHANGE = 2
AT_FDCWD = -100
"""The flag of Linux's renameat2(2) that exchanges two names atomically."""

DATES_AT_ONCE = 64
"""The number of dates that are compacted under one lock, while other jobs wait."""


@dataclass(frozen=True)
class Published:
    """The files that were published, or that replaced smaller ones.

    files        Number of new files.
    records      Number of records in them.
    size_bytes   Their size.
    joined       Number of published files that they replaced.
    """

    files: int = 0
    records: int = 0
    size_bytes: int = 0
    joined: int = 0

    def plus(self, other: Published) -> Published:
        """The sum of both."""
        return Published(*map(add, astuple(self), astuple(other)))


Merge = tuple[tuple[str, ...], str]
"""The absolute paths of files, and the path of the file that they are joined to."""


def publish(spark: SparkSession, directory: Path, file_size_bytes: int) -> Published:
    """Publish all records of the archive, so that readers see them."""
    archive = ArchiveDirectory(directory)
    with archive.locked() as state:
        if not state.pieces:
            return Published()
        after = publication(spark, archive, state, file_size_bytes, oldest=float("inf"))
        archive.commit(after)
        archive.sweep(after)
    return Published(
        files=len(after.moves),
        records=sum(move.records for move in after.moves),
        size_bytes=sum(move.size_bytes for move in after.moves),
    )


def publication(
    spark: SparkSession,
    archive: ArchiveDirectory,
    state: State,
    file_size_bytes: int,
    oldest: float,
) -> State:
    """Return the state in which the pieces that fill a file, or have waited since `oldest`, are
    published.

    The pieces of one file are joined here.  Readers see the new files once the caller has stored
    the returned state.
    """
    waiting: list[Piece] = []
    moves: list[Move] = []
    merges: list[Merge] = []
    for _, group in groupby(sorted(state.pieces, key=_group), _group):
        for pieces in bins(list(group), _piece_size, file_size_bytes):
            full = sum(map(_piece_size, pieces)) >= file_size_bytes
            if not full and min(piece.since for piece in pieces) > oldest:
                waiting += pieces
                continue
            source = pieces[0].path
            if len(pieces) > 1:
                source = archive.relative(archive.pieces / f"_{uuid.uuid4().hex}.piece")
                sources = tuple(str(archive.root / piece.path) for piece in pieces)
                merges.append((sources, str(archive.root / source)))
            target = archive.visible(
                *pieces[0].group, _name(state.batch, len(state.moves) + len(moves))
            )
            records = sum(piece.records for piece in pieces)
            moves.append(Move(source, target, records, sum(map(_piece_size, pieces))))
    sizes = merged(spark, merges)
    moves = [
        replace(move, size_bytes=sizes.get(str(archive.root / move.source), move.size_bytes))
        for move in moves
    ]
    return replace(state, moves=tuple(moves), pieces=tuple(waiting))


def merged(spark: SparkSession, merges: Sequence[Merge]) -> dict[str, int]:
    """Join files on Spark's workers.  Returns the size in bytes of each new file."""
    if not merges:
        return {}
    from kwire.pipeline.archiving.pieces import merge_one

    shipped()
    context = spark.sparkContext
    slices = min(len(merges), 4 * context.defaultParallelism)
    return dict(context.parallelize(merges, slices).map(merge_one).collect())


def shipped() -> None:
    """Make Spark send the module `pieces` to its workers by value, because they may lack kwire."""
    from pyspark import cloudpickle

    from kwire.pipeline.archiving import pieces

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(pieces)


def compact(spark: SparkSession, directory: Path, file_size_bytes: int) -> Published:
    """Join the small published files of each topic and date.

    All files of a date are replaced at once: its directory and a new one exchange their names
    (renameat2 with RENAME_EXCHANGE, on Linux's own file systems).  A reader that lists the archive
    before or after that sees each record once.  A reader that listed the date before and opens the
    files after that gets an error, because the old files are gone, and must list again; so no run
    compacts by itself.  If the process is killed, the old or the new directory is complete.
    """
    archive = ArchiveDirectory(directory)
    archive.require()
    dates = sorted(archive.root.glob("topic=*/date=*"))
    done = Published()
    for start in range(0, len(dates), DATES_AT_ONCE):
        with archive.locked() as state:
            archive.sweep(state)
            for one in _compacted(
                spark, archive, dates[start : start + DATES_AT_ONCE], file_size_bytes
            ):
                done = done.plus(one)
    return done


def _compacted(
    spark: SparkSession, archive: ArchiveDirectory, dates: Iterable[Path], file_size_bytes: int
) -> Iterator[Published]:
    """Replace the directories that have files to join."""
    plans = [plan for date in dates if (plan := Compaction.of(archive, date, file_size_bytes))]
    merged(spark, [merge for plan in plans for merge in plan.merges])
    for plan in plans:
        for path in plan.kept:
            os.link(path, plan.new / path.name)
        exchange(plan.new, plan.date)
        shutil.rmtree(plan.new)
        sizes = [os.path.getsize(plan.date / Path(target).name) for _, target in plan.merges]
        joined = sum(len(sources) for sources, _ in plan.merges)
        yield Published(files=len(sizes), size_bytes=sum(sizes), joined=joined)


@dataclass(frozen=True)
class Compaction:
    """The plan to compact the directory of one date.

    new      The directory that replaces it.
    merges   The files that are joined, with the path of each new file.
    kept     The other files.
    """

    date: Path
    new: Path
    merges: list[Merge]
    kept: list[Path]

    @staticmethod
    def of(archive: ArchiveDirectory, date: Path, file_size_bytes: int) -> Compaction | None:
        """The plan for a date, or None if it has no files to join."""
        files = sorted(date.iterdir())
        groups = bins([p for p in files if p.suffix == ".parquet"], _file_size, file_size_bytes)
        several = [paths for paths in groups if len(paths) > 1]
        if not several:
            return None
        new = archive.pieces / uuid.uuid4().hex
        new.mkdir()
        joined = {path for paths in several for path in paths}
        merges = [
            (tuple(str(path) for path in paths), str(new / _joined_name(paths[0])))
            for paths in several
        ]
        return Compaction(date, new, merges, [path for path in files if path not in joined])


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories atomically.

    Raises PipelineError if the file system does not support that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) != 0:
        error = os.strerror(ctypes.get_errno())
        raise PipelineError(f"{other} cannot be compacted: its file system answers {error!r}")


def bins(items: Sequence[T], size_of: Callable[[T], int], size_bytes: int) -> list[list[T]]:
    """Groups of items that make one file, in their order.  A large item is a group by itself."""
    groups: list[list[T]] = [[]]
    size = 0
    for item in items:
        if size >= size_bytes or size_of(item) >= size_bytes:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += size_of(item)
    return [group for group in groups if group]


def _group(piece: Piece) -> tuple[str, str]:
    return piece.group


def _piece_size(piece: Piece) -> int:
    return piece.size_bytes


def _file_size(path: Path) -> int:
    return path.stat().st_size


def _name(batch: int, number: int) -> str:
    """The name of a published file.  Names sort in the order of publication."""
    return f"{batch:08d}-{number:05d}-{uuid.uuid4().hex[:8]}.parquet"


def _joined_name(first: Path) -> str:
    """A new name for a file that replaces several; it sorts like the first of them."""
    return f"{first.stem[:-8]}{uuid.uuid4().hex[:8]}.parquet"
