"""Temporary folders of test brokers that do not stay behind after a crash.

A process that uses such a folder holds the lock of a file in it.  The kernel releases the lock when
the process ends, even if it is killed.  Each new folder first removes the older ones whose lock
nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "kwire-test-"
LOCK: Final = "in-use"


class Folder:
    """A new folder with a held lock, which marks it as in use until `remove`."""

    def __init__(self, below: Path | None = None) -> None:
        """Create the folder in `below`, or in the system's temporary folder."""
        below = Path(tempfile.gettempdir()) if below is None else below
        sweep(below)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=below))
        # The file is locked before it gets the name that `sweep` looks for, so that no other
        # process finds it unlocked and removes the folder.
        unnamed = self.path / f".{LOCK}"
        self.lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
        """File descriptor of the lock; a child process that inherits it holds the lock, too."""
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / LOCK)

    def remove(self) -> None:
        """Remove the folder with all its files, and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def sweep(parent: Path) -> None:
    """Remove the folders in `parent` that ended processes left behind."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):  # another user's folder, or removed in the meantime
            if not _is_held(lock):
                shutil.rmtree(lock.parent, ignore_errors=True)


def _is_held(lock: Path) -> bool:
    """Whether a process holds the lock of a folder, and so still uses the folder."""
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
