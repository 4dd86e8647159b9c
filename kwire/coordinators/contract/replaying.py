"""What of a coordinator's records has to be applied, where later ones replace those before them.

A group commits the same partitions again and again, and until the log is compacted all of it is
there: of 200 MB that were written in hours, some kilobytes count.  Of such keys only the last
record of a slice is decoded and applied, at its own place among the others, as if the log had been
compacted that far.  Which they are a machine says (`replaced_keys`).

A record that deletes its key replaces none: what it was there to end may have begun with it.  Nor
is anything left out across a record of a transaction or its end: what counts of them and when is
for the machine to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.codecs import batches, record_keys
from kwire.codecs.batch_layout import CODEC_MASK, HEADER_SIZE, MAGIC

NO_PRODUCER_ID = -1


class Held(NamedTuple):
    """A record to be applied; of a client's transaction if there is a producer id."""

    producer_id: int
    key: bytes | None
    value: bytes | None


class Ended(NamedTuple):
    """A producer's transaction ended."""

    producer_id: int
    commit: bool


class Slice:
    """Some batches of a log, read once: iterate, and then see what was there."""

    def __init__(self, data: bytes, replaced_keys: tuple[bytes, ...]) -> None:
        self._data = data
        self._replaced_keys = replaced_keys
        self._last: dict[bytes | int, tuple[bytes | None, bytes, int]] = {}
        """By key, or by its number where none replaces it: in the order of the last of each."""
        self.records = 0
        """How many were seen, those that others replace too."""
        self.end_offset = -1
        """Behind the last batch that was seen."""

    def __iter__(self) -> Iterator[Held | Ended]:
        """What is to be done, in order.  CorruptBatch."""
        for position, header in batches.iter_batches(self._data):
            self.end_offset = header.last_offset + 1
            if header.magic == MAGIC and header.producer_id < 0 and not header.is_control:
                self._hold(position, header)
            else:
                yield from self._release()
                yield from self._of_producer(position, header)
        yield from self._release()

    def _hold(self, position: int, header: batches.BatchHeader) -> None:
        data, start, end = self._data, position + HEADER_SIZE, position + header.size_bytes
        if header.attributes & CODEC_MASK:
            data = batches.inner_bytes(data, position, header)
            start, end = 0, len(data)
        last, replaced_keys = self._last, self._replaced_keys
        for key, at in record_keys.scan(data, start, end, header.records_count):
            self.records += 1
            if key and key.startswith(replaced_keys) and data[at] != record_keys.NULL:
                last.pop(key, None)
                last[key] = key, data, at
            else:
                last[self.records] = key, data, at

    def _release(self) -> Iterator[Held]:
        for key, data, at in self._last.values():
            yield Held(NO_PRODUCER_ID, key, record_keys.value_at(data, at))
        self._last.clear()

    def _of_producer(self, position: int, header: batches.BatchHeader) -> Iterator[Held | Ended]:
        for record in batches.records(self._data, position):
            if not header.is_control:
                self.records += 1
                yield Held(header.producer_id, record.key, record.value)
            elif (marker := batches.read_marker(record)) is not None:
                yield Ended(header.producer_id, marker.kind is batches.ControlType.COMMIT)
