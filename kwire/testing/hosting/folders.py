"""Folders of test brokers: below the system's temporary one or another, and never left behind.

Whoever uses one holds the lock of a file in it, which ends with the process, whatever ends that:
the next folder that is made here takes away those that nobody holds any longer.
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
    """A folder, and the lock that says that it is in use."""

    def __init__(self, below: Path | None = None) -> None:
        """In that folder, else in the system's temporary one."""
        below = Path(tempfile.gettempdir()) if below is None else below
        sweep(below)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=below))
        # It is locked before it has its name: nobody finds it otherwise.
        unnamed = self.path / f".{LOCK}"
        self.lock = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
        """Descriptor of the lock, for a child that is to hold it, too."""
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / LOCK)

    def remove(self) -> None:
        """Take it away, with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def sweep(parent: Path) -> None:
    """Take away the folders below `parent` that were left by processes that are no more."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):  # somebody else's, or just gone
            if not _is_held(lock):
                shutil.rmtree(lock.parent, ignore_errors=True)


def _is_held(lock: Path) -> bool:
    descriptor = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
