"""Whether pieces of files are in memory, and getting them there.

Sending a piece of a file that is not in the page cache waits for the disk, and the whole loop with
it.  So the loop asks first (`preadv2` with RWF_NOWAIT, a third of a microsecond a look) and has a
thread read what is missing.
"""

from __future__ import annotations

import errno
import os

TAIL_BYTES = 1024 * 1024
"""At the end of what is appended to everything is in memory: it was written a moment ago, or read
by a consumer that waits there."""

PROBE_EVERY_BYTES = 128 * 1024
"""The kernel reads ahead at least this much, so pages come and go in runs of about that length."""

READ_AHEAD_BYTES = 4 * 1024 * 1024
"""Asked of the disk behind what is needed now: a consumer that reads old records reads on."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
_scratch = [bytearray(1)]


def is_resident(fd: int, position: int, size_bytes: int) -> bool:
    """Whether the bytes can be read without waiting, as far as a look here and there tells.

    Always true where the system cannot say (no RWF_NOWAIT, or not for this file system).
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
    """Bring the bytes into memory, and begin with those behind them; blocks, for a thread."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        os.posix_fadvise(fd, position, size_bytes + READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    end = position + size_bytes
    buffer = [bytearray(min(size_bytes, PROBE_EVERY_BYTES))]
    while position < end:
        read = os.preadv(fd, buffer, position)
        if not read:
            return
        position += read
