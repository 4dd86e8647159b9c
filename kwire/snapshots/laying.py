"""Making the data of a broker out of a snapshot.

Segments that no broker appends to are the same files, by hard links; the newest one of each
partition, and all that is small, are copies.  So neither sees what becomes of the other; and
whoever cuts a file that has several names has made it its own before (kwire.log.segment).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kwire.snapshots.kept import SnapshotError, description_of

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
    laid = [path.with_name(f".{path.name}-restoring") for path in map(Path.absolute, log_dirs)]
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


def exchange(laid: Sequence[Path], log_dirs: Sequence[Path]) -> None:
    """Put what was laid beside log directories in their place; what they held is removed.

    Nobody may use them meanwhile.  OSError.
    """
    for path, log_dir in zip(laid, map(Path.absolute, log_dirs), strict=True):
        before = log_dir.with_name(f".{log_dir.name}-before")
        shutil.rmtree(before, ignore_errors=True)
        if log_dir.exists():
            log_dir.rename(before)
        path.rename(log_dir)
        shutil.rmtree(before, ignore_errors=True)


def restore(snapshot: Path, log_dirs: Sequence[Path]) -> None:
    """Have the log directories of a broker that does not run hold what the snapshot does.

    SnapshotError where one is in use; OSError.
    """
    locks = [_locked(log_dir) for log_dir in log_dirs if log_dir.exists()]
    try:
        exchange(laid_beside(snapshot, log_dirs), log_dirs)
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
