"""The layout of an archive on disk: the files for readers, and the hidden files of its writers.

    topic=orders/date=2026-03-01/00000007-5d41402a.parquet   the records, for any reader of Parquet
    _kwire/checkpoint/                                       Spark's: which offsets each batch has
    _kwire/pieces/                                           files that are not published yet
    _kwire/state.json                                        the last batch that is in the archive
    _kwire/lock                                              held while the state is changed

Readers list directories; nothing else tells them which files are complete.  So a file is published
by a rename when it is complete, and is neither changed nor removed afterwards.  A reader that lists
the archive at any moment finds each record at most once, and can open each file that it found.  Per
partition and date, the first offset of a published file follows the last one of the file before.

Spark's own file sink does not guarantee that.  Its tasks write into the directory itself, and only
readers that know its `_spark_metadata` log ignore the files of failed attempts.  With that log,
files cannot be joined, either.

A batch is committed when `state.json` names it.  That file is replaced by a rename; it has the
batch's number, its files, and the renames that publish them.  Files that were written before the
commit of an interrupted batch are removed by the next run.  Renames that were not done after a
commit are done by the next process that opens the archive.  Spark runs a batch again with the same
number if it does not know that it is done; a batch that the state names is not written again.

Small files are joined before they are published: the pieces of a topic and date wait in
`_kwire/pieces` until they are as large as a file should be, or old enough, or the run ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from kwire.pipeline.errors import PipelineError

HIDDEN = "_kwire"
"""Spark, pyarrow and Hive skip names that begin with an underscore; nothing in it ends in
`.parquet`, for readers that match names alone."""
LOCK_WAIT_S = 600.0
LOCK_POLL_S = 0.05


class ArchiveBroken(PipelineError):
    """The directory is not an archive, or not the archive that the checkpoint belongs to."""


@dataclass(frozen=True)
class Piece:
    """A file that is not published yet.

    offsets   First and last offset of each partition in the file.
    since     When it was written, in seconds since 1970.
    """

    topic: str
    date: str
    path: str
    records: int
    size_bytes: int
    offsets: dict[str, list[int]]
    since: float

    @property
    def group(self) -> tuple[str, str]:
        """What files may be joined within."""
        return self.topic, self.date


@dataclass(frozen=True)
class Move:
    """A rename of a hidden file to a name that readers see; both are relative to the archive."""

    source: str
    target: str
    records: int
    size_bytes: int


@dataclass(frozen=True)
class Lost:
    """Offsets from `first` to `end` (exclusive) that were deleted before the archive read them.

    batch   Number of the batch that would have read them.
    """

    topic: str
    partition: int
    first: int
    end: int
    batch: int


@dataclass(frozen=True)
class State:
    """The content of state.json.

    query    Id of the streaming query that owns the checkpoint; empty before the first batch.
    batch    Number of the last committed batch.
    moves    Renames that publish files: of that batch, or of the end of a run.
    pieces   Files that are committed and not published yet, in order.
    lost     Offsets that were lost, in runs that were allowed to continue without them.
    """

    query: str = ""
    batch: int = -1
    moves: tuple[Move, ...] = ()
    pieces: tuple[Piece, ...] = ()
    lost: tuple[Lost, ...] = ()


class ArchiveDirectory:
    """The files of an archive; a kill during any method leaves the archive consistent."""

    def __init__(self, root: Path) -> None:
        """Refers to the archive in the directory `root`, which need not exist yet."""
        self.root = root.absolute()
        self.hidden = self.root / HIDDEN
        self.pieces = self.hidden / "pieces"
        self.checkpoint = self.hidden / "checkpoint"
        self._state = self.hidden / "state.json"

    @property
    def uri(self) -> str:
        """The URI in Hadoop's form, in which nothing is escaped."""
        return f"file://{self.root}"

    def create(self) -> None:
        """Create the directory unless it exists."""
        self.pieces.mkdir(parents=True, exist_ok=True)

    def require(self) -> None:
        """Raise ArchiveBroken unless this is an archive."""
        if not self.hidden.is_dir():
            raise ArchiveBroken(f"{self.root} is not an archive of `kwire pipeline archive`")

    @contextmanager
    def locked(self) -> Iterator[State]:
        """The state, under a lock that allows to replace it.  All its renames are done before."""
        self.require()
        with (self.hidden / "lock").open("a") as file:
            self._lock(file.fileno())
            state = self.read()
            self._apply(state)
            yield state

    def _lock(self, descriptor: int) -> None:
        """Take the kernel's lock, which is released when the process ends in any way."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PipelineError(
                        f"another job has held the lock of {self.root} for {LOCK_WAIT_S:.0f} s"
                    ) from None
                time.sleep(LOCK_POLL_S)
            else:
                return

    def commit(self, state: State) -> None:
        """Store a new state and do its renames.  Only within `locked`."""
        new = self._state.with_suffix(".new")
        with new.open("w") as file:
            json.dump(asdict(state), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._state)
        self._apply(state)

    def visible(self, topic: str, date: str, name: str) -> str:
        """The path of a published file, relative to the archive."""
        return f"topic={topic}/date={date}/{name}"

    def topics(self) -> list[str]:
        """The topics that have published files."""
        return sorted({path.parts[-3].removeprefix("topic=") for path in self.files()})

    def files(self, topic: str = "*") -> list[Path]:
        """All published files, by topic, date and name."""
        return sorted(self.root.glob(f"topic={topic}/date=*/*.parquet"))

    def litter(self, state: State) -> Iterator[Path]:
        """Hidden files that the state does not name; interrupted jobs left them."""
        named = {piece.path for piece in state.pieces} | {move.source for move in state.moves}
        for path in self.pieces.iterdir():
            if self.relative(path) not in named:
                yield path

    def sweep(self, state: State) -> None:
        """Remove the litter.  Only within `locked`, and while no batch is being written."""
        for path in self.litter(state):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def relative(self, path: str | Path) -> str:
        """A path relative to the archive, as in the state."""
        return Path(path).relative_to(self.root).as_posix()

    def read(self) -> State:
        """The present state.  It is empty before the first batch."""
        try:
            text = self._state.read_text()
        except FileNotFoundError:
            return State()
        try:
            fields = json.loads(text)
            return State(
                fields["query"],
                fields["batch"],
                tuple(Move(**move) for move in fields["moves"]),
                tuple(Piece(**piece) for piece in fields["pieces"]),
                tuple(Lost(**lost) for lost in fields["lost"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveBroken(f"{self._state} cannot be read: {error}") from error

    def _apply(self, state: State) -> None:
        """Do the remaining renames.  A rename is done if its source no longer exists."""
        for move in state.moves:
            source, target = self.root / move.source, self.root / move.target
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)


def lost(directory: Path) -> tuple[Lost, ...]:
    """The offsets that an archive lacks because they were deleted before it read them."""
    archive = ArchiveDirectory(directory)
    return archive.read().lost


def archive_files(directory: Path) -> list[Path]:
    """The files that readers of an archive see now, by topic, date and age."""
    return ArchiveDirectory(directory).files()
