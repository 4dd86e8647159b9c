"""The transaction index: the transactions whose abort marker is in this segment.

Entry, 34 bytes, big endian (Kafka's AbortedTxn):

    version             int16   0
    producer id         int64
    first offset        int64   of the transaction's data in this partition
    last offset         int64   of the abort marker
    last stable offset  int64   when the marker was written: the first offset of another transaction
                                still open then, or the offset after the marker

The file exists only if a transaction was aborted.
"""

from __future__ import annotations

import logging
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kwire.log.directory.shortage import passes

if TYPE_CHECKING:
    from kwire.log.directory.files import Files, OpenFile

_logger = logging.getLogger(__name__)

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction.  `last_offset` is the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_REWRITE = -1
"""The number of saved entries that marks a file with other entries: it is written again."""


class TxnIndex:
    """The aborted transactions of one segment, ordered by their markers."""

    __slots__ = ("_entries", "_files", "_path", "_saved", "base_offset", "checked", "exists")

    def __init__(
        self, path: Path | str, base_offset: int, files: Files, *, exists: bool = False
    ) -> None:
        """Describe the index file at `path`, which is read at the first use, if it `exists`."""
        self._path = str(path)
        self.base_offset = base_offset
        self.exists = exists
        self._files = files
        self._entries: list[AbortedTxn] | None = None if exists else []
        self._saved = 0
        self.checked = not exists
        """Whether the entries were compared with the log (see `aborted`)."""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder."""
        self._path = str(directory / self.path.name)

    @property
    def entries(self) -> list[AbortedTxn]:
        """All entries; read on first use.  Unreadable ones end the list (see `valid`)."""
        if self._entries is None:
            data = self._files.read(self.path)
            self._entries = _decode(data[: len(data) - len(data) % ENTRY.size])
            self._saved = len(self._entries)
        return self._entries

    def valid(self) -> bool:
        """Whether the file passes Kafka's check at load: entries are whole, in bounds, in order."""
        if not self.exists:
            return True
        data = self._files.read(self.path)
        if len(data) % ENTRY.size or any(data[at] or data[at + 1] for at in _starts(data)):
            return False
        marker = self.base_offset - 1
        for entry in _decode(data):
            if not marker < entry.last_offset or entry.first_offset > entry.last_offset:
                return False
            marker = entry.last_offset
        return True

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry and write it: a read_committed fetch depends on it after a restart.

        Its marker is in the log already, so a full disk refuses nothing here: the entry is written
        with the next one, or when the segment is rolled or closed.
        """
        self.entries.append(entry)
        self._save_if_there_is_room()

    def _save_if_there_is_room(self) -> None:
        """Save the entries; a lack of space is logged only, and a later save tries again.

        Raises other OSErrors.
        """
        try:
            self.save()
        except OSError as error:
            if not passes(error):
                raise
            _logger.warning("%s will be written later: %s", self.path, error)

    def collect(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Return entries that overlap [from_offset, to_offset), and True if no later segment has
        any.
        """
        found = []
        for entry in self.entries:
            if entry.last_offset >= from_offset and entry.first_offset < to_offset:
                found.append(entry)
            if entry.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose marker is at or after `offset`.

        The log is cut already, so a full disk is no error here, as in `append`.
        """
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) != len(self.entries):
            self._entries, self._saved = kept, _REWRITE
            self._save_if_there_is_room()

    def reset(self) -> None:
        """Remove all entries, for a rebuild."""
        if self.exists:
            self._rewrite([])
        self.checked = True

    def replace(self, entries: list[AbortedTxn]) -> None:
        """Replace all entries, and flush the file: no later flush does that."""
        self._rewrite(entries, sync=True)

    @property
    def dirty(self) -> bool:
        """Whether the file is out of date."""
        return self._entries is not None and self._saved < len(self._entries)

    def save(self) -> OpenFile | None:
        """Write the file if it is out of date; returns it, or None if the index is empty."""
        if self._saved == _REWRITE:
            assert self._entries is not None
            self._rewrite(self._entries)
        if not self.entries:
            return None
        file = self._files.open(self.path)
        self.exists = True
        missing = b"".join(ENTRY.pack(VERSION, *entry) for entry in self.entries[self._saved :])
        self._files.write_all(file, missing, self._saved * ENTRY.size)
        self._saved = len(self.entries)
        return file

    def release(self) -> None:
        """Release the memory; the entries are read again when they are needed."""
        if self.exists and not self.dirty:
            self._entries = None

    def _rewrite(self, entries: list[AbortedTxn], *, sync: bool = False) -> None:
        """Write the file with these entries in place of the present ones.

        If the write fails, a later save writes the whole file again.
        """
        self._entries, self._saved = entries, _REWRITE
        data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
        self._files.write(self.path, data, sync=sync)
        self._saved = len(entries)


def _starts(data: bytes) -> range:
    return range(0, len(data), ENTRY.size)


def _decode(data: bytes) -> list[AbortedTxn]:
    return [AbortedTxn(*fields[1:]) for fields in ENTRY.iter_unpack(data)]
