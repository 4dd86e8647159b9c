"""Checks whether pieces of files are in the page cache, and reads them into it.

To send a piece of a file that is not in the page cache blocks the loop until the disk has read it.
So the loop checks first (`preadv2` with RWF_NOWAIT, 0.3 us a check), and a thread reads the missing
pieces.
"""

from __future__ import annotations

import errno
import os

TAIL_BYTES = 1024 * 1024
"""The end of the active segment that counts as in memory: it was just written, or just read by a
consumer that waits there."""

PROBE_EVERY_BYTES = 128 * 1024
"""The distance of two checks.  The kernel reads ahead at least as much, so pages enter and leave
the cache in runs of about this length."""

READ_AHEAD_BYTES = 4 * 1024 * 1024
"""The bytes that are read ahead: a consumer of old records will read them next."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_scratch = [bytearray(1)]


def is_resident(fd: int, position: int, size_bytes: int) -> bool:
    """Return whether the bytes are in memory, by a check every PROBE_EVERY_BYTES.

    Always True if the system or the file system has no RWF_NOWAIT.
    """
    if not _NOWAIT or size_bytes <= 0:
        return True
    last = position + size_bytes - 1
    try:
        for at in range(position, last, PROBE_EVERY_BYTES):
            os.preadv(fd, _scratch, at, _NOWAIT)
        os.preadv(fd, _scratch, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return True
        raise
    return True


def read_in(fd: int, position: int, size_bytes: int) -> None:
    """Read the bytes into memory, and start to read ahead.  It blocks: call it in a thread."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(fd, position, size_bytes + READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    end = position + size_bytes
    buffer = [bytearray(min(size_bytes, PROBE_EVERY_BYTES))]
    while position < end:
        read = os.preadv(fd, buffer, position)
        if not read:
            return
        position += read
