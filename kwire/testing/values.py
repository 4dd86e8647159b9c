"""What a test writes, as the bytes of a record, and bytes as a test reads them."""

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
    """A record to be written, or expected; what is None is left open, but the value: a tombstone.

    Key and value are bytes; a str is its UTF-8, None is nothing, and all else is its JSON.
    """

    value: Any
    key: Any = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


class NotARecord(ValueError):
    """A value that has no JSON, or a line that cannot be read; the message says which."""


def as_record(value: object) -> Record:
    """A record as it is; of anything else the record that has it as its value."""
    return value if isinstance(value, Record) else Record(value)


def encoded(value: object) -> bytes | None:
    """The bytes of a key or value, as `Record` has it.  Raises NotARecord."""
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
            f"{value!r} has no JSON: {problem}; bytes and str are written as they are"
        ) from None


def json_lines(path: Path) -> Iterator[Record]:
    """A record for each line that is not empty, which is its value.  Raises NotARecord."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield Record(json.loads(line))
            except ValueError as problem:
                raise NotARecord(f"{path}, line {number}: not JSON: {problem}") from None


def csv_rows(path: Path, key: str | None) -> Iterator[Record]:
    """A record for each row: its columns by their names, and the column `key` as its key.

    Raises NotARecord.
    """
    with open(path, encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if key is not None and key not in (rows.fieldnames or ()):
            raise NotARecord(f"{path} has no column {key!r}: {', '.join(rows.fieldnames or ())}")
        for row in rows:
            if None in row or None in row.values():
                raise NotARecord(f"{path}, line {rows.line_num}: not as many columns as the head")
            yield Record(row, key=None if key is None else row[key])


# -- reading


def canonical_of(expected: Iterable[Any]) -> Canonical:
    """How keys or values are compared, by what is expected of them.

    Where some of it is neither bytes nor str, whatever is JSON is compared as JSON: the order of
    fields and spaces do not count.
    """
    as_json = any(not isinstance(each, bytes | str | None) for each in expected)
    return _json_or_text if as_json else text_of


def _json_or_text(data: bytes | None) -> str:
    try:
        return text_of(data) if data is None else _ordered(json.loads(data))
    except ValueError:
        return text_of(data)


def _ordered(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def text_of(data: bytes | None) -> str:
    """Text where it is, Python's literal of bytes where it is not, and null for nothing."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    return text if text.isprintable() and text != "null" else repr(text)


def line_of(key: str | None, value: str) -> str:
    """A record as one line; a key that is None is not looked at."""
    return value if key is None else f"{key} → {value}"


def place_of(record: ConsumedRecord) -> str:
    """Where a record is."""
    return f"{record.topic}-{record.partition}@{record.offset}"
