"""The base of the offset index and the time index: a sorted file of fixed-size entries.

On disk, an index has only its entries, without a header or a checksum.  Kafka allocates
`segment.index.bytes` for the active segment's index, and cuts the file to its true size when the
segment is rolled or the broker stops.  kwire always writes exact sizes, which Kafka can read.

Entries of the active segment are kept in memory and written when the segment is rolled, flushed
or closed.  After a kill they are rebuilt from the log, as in Kafka.  A file has no checksum, so
users of an index compare an entry with the batch that it points to (see `segment.py`), and rebuild
the index if they differ.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile


class Index:
    """Sorted entries of a fixed size in a file, which are in memory while they are used.

    `key` is the number by which an entry is found; sub-classes give its position in the entry.
    """

    __slots__ = ("_data", "_files", "_key", "_path", "_saved", "base_offset", "entry")

    def __init__(
        self, path: Path | str, base_offset: int, files: Files, entry: Struct, key: Struct
    ) -> None:
        """Describe the index file at `path`, which is read at the first use.

        `entry` packs an entry; `key` unpacks only the value by which entries are sorted.
        """
        self._path = str(path)  # a Path takes several times the memory, and most are never used
        self.base_offset = base_offset
        self.entry = entry
        self._key = key  # unpacks the key at the start of an entry
        self._files = files
        self._data: bytearray | None = None  # None: not read yet
        self._saved = 0  # bytes of _data that the file holds

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder."""
        self._path = str(directory / self.path.name)

    @property
    def data(self) -> bytearray:
        """All entries; read on first use.

        A torn last entry is left out, and so are the zeros after the last entry that a killed Kafka
        leaves in the file of its active segment.
        """
        data = self._data
        if data is None:
            try:
                content = self._files.read(self._path)
            except FileNotFoundError:
                content = b""
            size = self.entry.size
            used = -(-len(content.rstrip(b"\0")) // size) * size
            data = self._data = bytearray(content[: min(used, len(content) // size * size)])
            self._saved = len(data) if len(data) == len(content) else -1
        return data

    @property
    def is_loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._data is not None

    @property
    def count(self) -> int:
        return len(self.data) // self.entry.size

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def reset(self) -> None:
        """Remove all entries, for a rebuild."""
        self._data = bytearray()
        self._saved = -1  # the file may hold old ones, even when no new ones come

    def floor(self, key: int) -> int:
        """Return the number of the last entry whose key is at most `key`; -1 if there is none."""
        data = self.data
        size = self.entry.size
        unpack = self._key.unpack_from
        low, high = 0, len(data) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(data, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def keep(self, count: int) -> None:
        """Remove all entries but the first `count`."""
        data = self.data
        if count * self.entry.size < len(data):
            del data[count * self.entry.size :]
            if self._saved > len(data):
                self._saved = -1

    @property
    def dirty(self) -> bool:
        """Whether the file is out of date."""
        return self._data is not None and self._saved != len(self._data)

    def save(self) -> OpenFile | None:
        """Write new entries; returns the file, or None if it was up to date.

        The caller hands the file to fsync, in a thread if it likes.
        """
        data = self._data
        if data is None or self._saved == len(data):
            return None
        file = self._files.open(self._path)
        if self._saved < 0:
            self._files.ftruncate(file.fd, 0)
            self._saved = 0
        self._files.write_all(file, memoryview(data)[self._saved :], self._saved)
        self._saved = len(data)
        return file

    def create(self) -> None:
        """Create the file if it is missing: Kafka rebuilds the indexes of a segment without it."""
        self._data = bytearray()
        self._saved = 0
        self._files.write(self._path, b"")

    def release(self) -> None:
        """Release the memory; the entries are read again when they are needed."""
        if not self.dirty:
            self._data = None
