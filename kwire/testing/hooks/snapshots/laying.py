"""Makes a broker's data folders out of a snapshot ("lays it out").

Segments that no broker appends to are shared by hard links; the newest segment of each partition
and all small files are copied.  So the broker and the snapshot cannot change each other's data.  A
broker that truncates a shared segment copies it first (kwire.log.segment).

A restore replaces existing data in two steps.  First it lays the snapshot out beside the data.
Then it writes a journal with the names of the log directories and exchanges the folders one by one.
From the moment the journal exists, the restore counts as done.  If the process is killed during the
exchange, the next broker start or restore finds the journal and completes the exchange.

    .DATA-restoring     the laid-out snapshot
    .DATA-restore       the journal: a JSON list of the log directories
    .DATA-before        the old data, until it is removed
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
"""Files up to this size are read and written at once: a copy by the kernel would save nothing."""
NO_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def lay_out(snapshot: Path, log_dirs: Sequence[Path]) -> None:
    """Lay a snapshot out in these log directories, which must be missing or empty.

    Raises SnapshotError if there is no snapshot or it has another number of log directories,
    OSError.
    """
    count = description_of(snapshot).log_dirs
    if count != len(log_dirs):
        raise SnapshotError(f"{snapshot} holds {count} log directories, not {len(log_dirs)}")
    for number, target in enumerate(log_dirs):
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise SnapshotError(f"{target} is not empty")
        _lay_folder(snapshot / str(number), target)


def _lay_folder(source: Path, target: Path) -> None:
    """Copies a folder of a snapshot to `target`.  Full segments become hard links, since no broker
    changes them; the newest segment is copied, since the broker appends to it."""
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
    """Create a hard link to a file, or a copy if the file system does not support the link."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINK:
            raise
        shutil.copyfile(source, target)


def laid_beside(snapshot: Path, log_dirs: Sequence[Path]) -> list[Path]:
    """Lay a snapshot out beside the log directories, for `exchange`; returns the new folders.

    Raises SnapshotError, OSError; then no new folder stays.
    """
    laid = [_laid(path.absolute()) for path in log_dirs]
    try:
        for path, log_dir in zip(laid, log_dirs, strict=True):
            if os.path.ismount(log_dir):
                raise SnapshotError(f"{log_dir} is a mount point, which cannot be replaced")
            shutil.rmtree(path, ignore_errors=True)
        lay_out(snapshot, laid)
    except BaseException:
        for path in laid:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return laid


def exchange(log_dirs: Sequence[Path]) -> None:
    """Replace the log directories by the folders from `laid_beside`, and remove the old data.

    No process may use them meanwhile.  If this process is killed here, `finish` completes it.
    Raises OSError.
    """
    paths = [path.absolute() for path in log_dirs]
    journal = journal_of(paths[0])
    unnamed = journal.with_name(f"{journal.name}.tmp")
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # before the rename: no process may find it unlocked
        os.write(lock, json.dumps([str(path) for path in paths]).encode())
        unnamed.rename(journal)
        _exchange_all(paths)
        journal.unlink()
    finally:
        os.close(lock)


def finish(log_dir: Path) -> bool:
    """Complete an exchange whose process was killed; returns whether there was one.

    `log_dir` is the first log directory.  Raises SnapshotError if another process exchanges the
    folders right now, OSError.
    """
    journal = journal_of(log_dir)
    try:
        lock = os.open(journal, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        _lock_journal(lock, log_dir)
        if not os.fstat(lock).st_nlink:
            return False  # another process has just completed it
        _exchange_all([Path(path) for path in json.loads(journal.read_text(encoding="utf-8"))])
        journal.unlink()
    finally:
        os.close(lock)
    return True


def _lock_journal(lock: int, log_dir: Path) -> None:
    """Locks the journal of a restore.  Raises SnapshotError if another process restores now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SnapshotError(f"{log_dir} is being restored by another process") from None


def _exchange_all(log_dirs: Sequence[Path]) -> None:
    """Exchange each log directory that has not been exchanged yet."""
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
    """Replace the data of a broker that does not run by a snapshot.

    If this process is killed, the broker starts either with the old data or with the snapshot.
    Raises SnapshotError if a log directory is in use, OSError.
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
    """Takes the lock of a log directory and returns its descriptor, which the caller closes.
    Raises SnapshotError if a broker holds the lock."""
    lock = os.open(log_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise SnapshotError(
            f"{log_dir} is in use: stop its broker, or restore through its control (--control)"
        ) from None
    return lock
