"""A record with what pages show of it and filters ask of it, decoded when it is asked for."""

from __future__ import annotations

from kwire.client.fetcher import ConsumedRecord
from kwire.console.decoding.decoder import Decoded, Decoder
from kwire.console.decoding.plain import json_lines
from kwire.console.filtering.facts import ABSENT, Absent
from kwire.registry.schemas.values.data import Data


class MessageRecord:
    """A record, and how its key and value are read."""

    __slots__ = ("_decoder", "_key", "_key_form", "_value", "_value_form", "record")

    def __init__(
        self, record: ConsumedRecord, decoder: Decoder, key_form: str, value_form: str
    ) -> None:
        """`key_form` and `value_form` are of `decoder.FORMS`."""
        self.record = record
        self._decoder = decoder
        self._key_form = key_form
        self._value_form = value_form
        # No functools.cached_property: a search makes millions of these, and it takes a lock.
        self._key: Decoded | None = None
        self._value: Decoded | None = None

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.record.partition

    @property
    def offset(self) -> int:
        """The record's offset."""
        return self.record.offset

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp; -1 if it has none."""
        return self.record.timestamp_ms

    @property
    def key(self) -> Decoded:
        """The key, decoded."""
        if self._key is None:
            record = self.record
            self._key = self._decoder.decoded(
                record.topic, "key", record.key, self._key_form, record.headers
            )
        return self._key

    @property
    def value(self) -> Decoded:
        """The value, decoded."""
        if self._value is None:
            record = self.record
            self._value = self._decoder.decoded(
                record.topic, "value", record.value, self._value_form, record.headers
            )
        return self._value

    def decode(self) -> None:
        """Decode key and value now, in this thread."""
        _ = self.key, self.value

    @property
    def key_size_bytes(self) -> int:
        """Bytes of the key; 0 if it is null."""
        return len(self.record.key or b"")

    @property
    def value_size_bytes(self) -> int:
        """Bytes of the value; 0 if it is null."""
        return len(self.record.value or b"")

    @property
    def size_bytes(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.record.headers)
        return self.key_size_bytes + self.value_size_bytes + headers

    @property
    def headers(self) -> list[tuple[str, str | None]]:
        """The headers as text, in their order."""
        return [(name, header_text(value)) for name, value in self.record.headers]

    def is_null(self, part: str) -> bool:
        """Whether the `key` or the `value` is null."""
        return (self.record.key if part == "key" else self.record.value) is None

    def text(self, part: str) -> str:
        """The text of the `key` or the `value`; empty if it is null."""
        return self.decoded(part).text

    def data(self, part: str) -> Data | Absent:
        """The structure of the `key` or the `value`; its text if it has none."""
        found = self.decoded(part)
        if found.is_null:
            return ABSENT
        return found.data if found.is_structured else found.text

    def decoded(self, part: str) -> Decoded:
        """The `key` or the `value`, decoded."""
        return self.key if part == "key" else self.value

    def header(self, name: str) -> str | Absent | None:
        """The last header of a name."""
        for own, value in reversed(self.record.headers):
            if own == name:
                return header_text(value)
        return ABSENT


def header_text(value: bytes | None) -> str | None:
    """The value of a header as text; invalid UTF-8 is escaped."""
    return None if value is None else bytes(value).decode("utf-8", "backslashreplace")


def whole_text(decoded: Decoded) -> str:
    """All of a key or value for its own page; structures are indented.

    One that is nested too deeply for that is shown as it is written.
    """
    if not decoded.is_structured:
        return decoded.text
    try:
        return json_lines(decoded.data)
    except RecursionError:
        return decoded.text
