"""Making the data of a broker out of a snapshot.

Segments that no broker appends to are the same files, by hard links; the newest one of each
partition, and all that is small, are copies.  So neither sees what becomes of the other; and
whoever cuts a file that has several names has made it its own before (kwire.log.segment).

To take the place of data that is there it is laid out beside it, whole.  Then a journal is given
its name, which says of which folders: from that moment on the new state is what counts, though the
folders are exchanged one by one; before it nothing has happened.  Whoever is killed in between
leaves the journal, and whoever comes next does the rest: a broker at its start, another restore.

    .DATA-restoring     what was laid out
    .DATA-restore       the journal: JSON, the log directories
    .DATA-before        what was there, until it is removed
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kwire.testing.hooks.snapshots import journal_of
from kwire.testing.hooks.snapshots.kept import SnapshotError, description_of

LOG: Final = ".log"
LOCK: Final = ".lock"
COPIED_AT_ONCE_BYTES_MAX: Final = 1 << 20
"""Of most files nothing is saved by leaving the kernel to copy them."""
NO_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def lay_out(snapshot: Path, log_dirs: Sequence[Path]) -> None:
    """Make these folders, which are not there or empty, hold what the snapshot does.

    SnapshotError if it is none, or of another number of log directories; OSError.
    """
    held = description_of(snapshot).log_dirs
    if held != len(log_dirs):
        raise SnapshotError(f"{snapshot} holds {held} log directories, and not {len(log_dirs)}")
    for number, target in enumerate(log_dirs):
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise SnapshotError(f"{target} is not empty")
        _lay_folder(snapshot / str(number), target)


def _lay_folder(source: Path, target: Path) -> None:
    with os.scandir(source) as entries:
        listed = list(entries)
    segments = [entry.name for entry in listed if _is_segment(entry.name)]
    active = max(segments, default="")
    for entry in listed:
        path = target / entry.name
        if entry.is_dir():
            path.mkdir()
            _lay_folder(Path(entry.path), path)
        elif _is_segment(entry.name) and entry.name != active:
            share(entry.path, path)
        elif entry.stat().st_size > COPIED_AT_ONCE_BYTES_MAX:
            shutil.copyfile(entry.path, path)
        else:
            path.write_bytes(Path(entry.path).read_bytes())


def _is_segment(name: str) -> bool:
    return name.endswith(LOG) and name.removesuffix(LOG).isdecimal()


def share(source: str, target: Path) -> None:
    """Another name for a file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, target)


def laid_beside(snapshot: Path, log_dirs: Sequence[Path]) -> list[Path]:
    """Lay it out beside log directories, to take their place by `exchange`.

    SnapshotError, OSError; nothing of it stays then.
    """
    laid = [_laid(path.absolute()) for path in log_dirs]
    try:
        for path, log_dir in zip(laid, log_dirs, strict=True):
            if os.path.ismount(log_dir):
                raise SnapshotError(f"{log_dir} is a mount, whose folder cannot be exchanged")
            shutil.rmtree(path, ignore_errors=True)
        lay_out(snapshot, laid)
    except BaseException:
        for path in laid:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return laid


def exchange(log_dirs: Sequence[Path]) -> None:
    """Put what was laid beside log directories in their place; what they held is removed.

    Nobody may use them meanwhile.  Whoever is killed here is followed by `finish`.  OSError.
    """
    paths = [path.absolute() for path in log_dirs]
    journal = journal_of(paths[0])
    unnamed = journal.with_name(f"{journal.name}.tmp")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before it has its name: nobody else finds it unlocked
        os.write(lock, json.dumps([str(path) for path in paths]).encode())
        unnamed.rename(journal)
        _exchange_all(paths)
        journal.unlink()
    finally:
        os.close(lock)


def finish(log_dir: Path) -> bool:
    """Do the rest of an exchange whose process was killed; whether there was one.

    `log_dir` is the first log directory.  SnapshotError where somebody is at it, OSError.
    """
    journal = journal_of(log_dir)
    try:
        lock = os.open(journal, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        _lock_journal(lock, log_dir)
        if not os.fstat(lock).st_nlink:
            return False  # somebody else has just done it
        _exchange_all([Path(path) for path in json.loads(journal.read_text(encoding="utf-8"))])
        journal.unlink()
    finally:
        os.close(lock)
    return True


def _lock_journal(lock: int, log_dir: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SnapshotError(f"{log_dir} is being restored by another process") from None


def _exchange_all(log_dirs: Sequence[Path]) -> None:
    """Each that is not exchanged yet."""
    for log_dir in log_dirs:
        laid, before = _laid(log_dir), log_dir.with_name(f".{log_dir.name}-before")
        if laid.exists():
            if log_dir.exists():
                shutil.rmtree(before, ignore_errors=True)
                log_dir.rename(before)
            laid.rename(log_dir)
        shutil.rmtree(before, ignore_errors=True)


def _laid(log_dir: Path) -> Path:
    return log_dir.with_name(f".{log_dir.name}-restoring")


def restore(snapshot: Path, log_dirs: Sequence[Path]) -> None:
    """Have the log directories of a broker that does not run hold what the snapshot does.

    Whoever is killed meanwhile leaves what was there or what is to be, at the next start of the
    broker.  SnapshotError where one is in use; OSError.
    """
    finish(log_dirs[0])
    locks = [_locked(log_dir) for log_dir in log_dirs if log_dir.exists()]
    try:
        laid_beside(snapshot, log_dirs)
        exchange(log_dirs)
    finally:
        for lock in locks:
            os.close(lock)


def _locked(log_dir: Path) -> int:
    lock = os.open(log_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SnapshotError(
            f"{log_dir} is in use: stop its broker, or have it restore itself (--control)"
        ) from None
    return lock
