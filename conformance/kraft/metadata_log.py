"""The records of `__cluster_metadata`, as a controller has them on its disk.

A value is: unsigned varint frame version (1), unsigned varint type of the record, unsigned varint
version of the record, and the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kwire.codecs import messages
from kwire.codecs.batches import check_crc, iter_batches, records
from kwire.codecs.primitives import DecodeError, Message, varint_tail

FRAME_VERSION = 1
_SUFFIX = "Record"
_OF_TIERED_STORAGE = "Remote"
"""The records of another topic, which have the same types, have names that begin so."""


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """A record of the log, at its offset."""

    offset: int
    message: Message


class WrittenMetadata:
    """Reads the log in a controller's folder, further at each call."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[Path, int] = {}

    def read(self) -> list[MetadataRecord]:
        """Return the records that were written since the last call; control records are left out.

        A batch that is not yet complete comes with a later call.  Raises DecodeError or
        CorruptBatch for what is not a metadata record.
        """
        found: list[MetadataRecord] = []
        for path in sorted(self._folder.glob("*.log")):
            start = self._positions.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            size_bytes = complete_bytes(data)
            found += decode(data[:size_bytes])
            self._positions[path] = start + size_bytes
        return found


def complete_bytes(data: bytes) -> int:
    """Return the size in bytes of the complete batches at the begin of `data`."""
    end = 0
    for position, header in iter_batches(data):
        end = position + header.size_bytes
    return end


def decode(data: bytes) -> Iterator[MetadataRecord]:
    """Yield the metadata records of complete batches."""
    for position, header in iter_batches(data):
        check_crc(data, position, header)
        if header.is_control:
            continue
        for record in records(data, position):
            yield MetadataRecord(record.offset, decode_value(record.value or b""))


def decode_value(value: bytes) -> Message:
    """Return the metadata record in the value of a record.  Raises DecodeError."""
    frame_version, position = _unsigned(value, 0)
    kind, position = _unsigned(value, position)
    version, position = _unsigned(value, position)
    message_class = _classes().get(kind)
    if frame_version != FRAME_VERSION or message_class is None:
        raise DecodeError(f"no metadata record: {value[:20].hex()}")
    return message_class.decode(value, version, position)


@cache
def _classes() -> dict[int, type[Message]]:
    """Return the class of each type of metadata record: the only records with a type."""
    classes = (
        messages.message_class(name)
        for name, module in messages.MODULES.items()
        if name.endswith(_SUFFIX)
        and not name.startswith(_OF_TIERED_STORAGE)
        and "." not in module  # the records of coordinators
    )
    return {each.API_KEY: each for each in classes if each.API_KEY is not None}


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position, and the position after it.  Raises DecodeError."""
    if position >= len(data):
        raise DecodeError(f"no metadata record: {data.hex()}")
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return varint_tail(data, position + 1, first)
