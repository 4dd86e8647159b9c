"""Converts a test's Python values to the bytes of records, and record bytes to readable text."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from kwire.client.fetcher import ConsumedRecord

Path = str | PathLike[str]
Canonical = Callable[[bytes | None], str]


@dataclass(slots=True)
class Record:
    """A record to write or to expect.

    Key and value: bytes are taken as they are, a str is encoded as UTF-8, None is null, and any
    other value is encoded as JSON.  A value of None is a tombstone.  A partition or timestamp of
    None lets the producer choose.
    """

    value: Any
    key: Any = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


class NotARecord(ValueError):
    """A value that cannot be written as JSON, or a line of a file that cannot be read as a record;
    the message names it."""


def as_record(value: object) -> Record:
    """The given `Record`, or a `Record` with any other object as its value."""
    return value if isinstance(value, Record) else Record(value)


def encoded(value: object) -> bytes | None:
    """The bytes of a key or value of a `Record`; None for null.  Raises NotARecord."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as problem:
        raise NotARecord(
            f"{value!r} cannot be written as JSON: {problem}. Only bytes and str are written as"
            " they are."
        ) from None


def json_lines(path: Path) -> Iterator[Record]:
    """One record per non-empty line, with the line's JSON as its value.  Raises NotARecord."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield Record(json.loads(line))
            except ValueError as problem:
                raise NotARecord(f"{path}, line {number}: not JSON: {problem}") from None


def csv_rows(path: Path, key: str | None) -> Iterator[Record]:
    """One record per row: an object of the columns as its value, the column `key` as its key.

    Raises NotARecord.
    """
    with open(path, encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if key is not None and key not in (rows.fieldnames or ()):
            raise NotARecord(f"{path} has no column {key!r}: {', '.join(rows.fieldnames or ())}")
        for row in rows:
            if None in row or None in row.values():
                raise NotARecord(
                    f"{path}, line {rows.line_num}: the row and the header differ in length"
                )
            yield Record(row, key=None if key is None else row[key])


# -- reading


def canonical_of(expected: Iterable[Any]) -> Canonical:
    """The function that converts keys or values to text for a comparison.

    If any expected value is neither bytes nor str, values that are JSON are compared as JSON:
    white space and the order of fields do not count.
    """
    as_json = any(not isinstance(value, bytes | str | None) for value in expected)
    return _json_or_text if as_json else text_of


def _json_or_text(data: bytes | None) -> str:
    """Return JSON in a form that is the same for equal values, and other bytes as text."""
    try:
        return text_of(data) if data is None else _ordered(json.loads(data))
    except ValueError:
        return text_of(data)


def _ordered(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def text_of(data: bytes | None) -> str:
    """The decoded text of UTF-8 bytes, the Python literal of other bytes, "null" for None."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    return text if text.isprintable() and text != "null" else repr(text)


def line_of(key: str | None, value: str) -> str:
    """A record as one line, without the key if that is None."""
    return value if key is None else f"{key} → {value}"


def place_of(record: ConsumedRecord) -> str:
    """A record's position as topic-partition@offset."""
    return f"{record.topic}-{record.partition}@{record.offset}"
