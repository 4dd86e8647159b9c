"""A region of a segment file, which is sent to a client; and the limit of open segment files."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from kwire.log.reading import residency

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile


class Region:
    """`size_bytes` of a segment file from `position` on, which are sent by sendfile.

    `base_offset` is the fetch offset.  The file stays open as long as the region exists, even if
    the segment is removed.  A region is immutable, so another thread may use it.
    """

    __slots__ = ("_files", "base_offset", "file", "position", "segment_base_offset", "size_bytes")

    def __init__(
        self,
        file: OpenFile,
        position: int,
        size_bytes: int,
        base_offset: int,
        files: Files,
        segment_base_offset: int,
    ) -> None:
        """Describe `size_bytes` of the file from `position` on; the first batch has
        `base_offset`."""
        self.file = file
        self.position = position
        self.size_bytes = size_bytes
        self.base_offset = base_offset
        self.segment_base_offset = segment_base_offset
        self._files = files

    def fileno(self) -> int:
        return self.file.fd

    def __len__(self) -> int:
        return self.size_bytes

    def is_resident(self, start: int, size_bytes: int) -> bool:
        """Whether the bytes from `start` (within the region) on are in memory; see `residency`."""
        return residency.is_resident(self.file.fd, self.position + start, size_bytes)

    def read_in(self, start: int, size_bytes: int) -> None:
        """Read those bytes into the page cache.  It blocks: call it in a thread."""
        residency.read_in(self.file.fd, self.position + start, size_bytes)

    def read(self) -> bytes:
        """The bytes, for callers that cannot use sendfile (TLS, tests)."""
        return read_exactly(self._files, self.file, self.position, self.size_bytes)


def read_exactly(files: Files, file: OpenFile, position: int, size_bytes: int) -> bytes:
    """Return `size_bytes` at `position`, fewer only at the end of the file."""
    data = files.pread(file.fd, size_bytes, position)
    while len(data) < size_bytes:  # one pread gives at most 2 GiB
        more = files.pread(file.fd, size_bytes - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


class Holder(Protocol):
    """An object that keeps a file open for speed, and can open it again."""

    recently_used: bool

    def release(self) -> None:
        """Drop the file (and what else was read from disk); a pending Region keeps its own."""


class OpenFiles:
    """Keeps at most `limit` files open, by the clock algorithm.

    A broker may have a hundred thousand segments, and a limit of a thousand open files.  A use of a
    file only sets one attribute of its holder.  While logs are recovered, several threads add
    holders; each step on `_holders` is one call of C code, so it is whole.
    """

    __slots__ = ("_holders", "limit")

    def __init__(self, limit: int = 1024) -> None:
        self.limit = limit
        self._holders: OrderedDict[int, Holder] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, holder: Holder) -> None:
        """Add a holder that has just opened its file; others may have to close theirs."""
        holders = self._holders
        holders[id(holder)] = holder
        turns = 2 * len(holders)  # after so many, no holder counts as recently used
        while len(holders) > self.limit and turns:
            turns -= 1
            number, oldest = holders.popitem(last=False)
            if oldest is holder or (oldest.recently_used and turns > 1):
                oldest.recently_used = False
                holders[number] = oldest
            else:
                oldest.release()

    def discard(self, holder: Holder) -> None:
        """Remove a holder that has closed its file."""
        self._holders.pop(id(holder), None)
