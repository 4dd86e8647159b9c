"""A record as a row: for a page, for the live tail, and for a download."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import Any, Final, NamedTuple

from kwire.console.decoding.decoder import Decoded
from kwire.console.messages.record import MessageRecord

CSV_COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp", "key", "key_encoding", "value", "value_encoding",
    "headers",
)  # fmt: skip
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula."""


class DataCell(NamedTuple):
    """A key or value in a table: its text, and a word for what has no text or is no text."""

    text: str
    word: str
    """`null`, `tombstone`, `empty`, or the kind unless it is text or JSON; else empty."""
    trouble: str


def cell(decoded: Decoded, *, is_value: bool) -> DataCell:
    """The cell of a key or value.  A value of null is a tombstone."""
    if decoded.is_null:
        return DataCell("", "tombstone" if is_value else "null", "")
    if decoded.kind == "empty":
        return DataCell("", "empty", "")
    word = "" if decoded.kind in ("text", "json") else decoded.kind
    return DataCell(decoded.text, word, decoded.trouble)


def _encoded(name: str, data: bytes | None) -> dict[str, str | None]:
    """A field and how it is encoded, as in the JSON lines of `kwire consume`."""
    if data is None:
        return {name: None, f"{name}_encoding": None}
    try:
        return {name: str(data, "utf-8"), f"{name}_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": "base64"}


def as_object(shown: MessageRecord) -> dict[str, Any]:
    """The record with all its bytes, in the form of `kwire consume --format json`.

    `kwire produce --format json` reads it.
    """
    record = shown.record
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_encoded("key", record.key),
        **_encoded("value", record.value),
        "headers": [{"name": name, **_encoded("value", data)} for name, data in record.headers],
    }


def json_line(shown: MessageRecord) -> str:
    """The record as one line of JSON."""
    return json.dumps(as_object(shown), ensure_ascii=False) + "\n"


def csv_lines(records: list[MessageRecord]) -> str:
    """The records as CSV with a head.

    A text that a spreadsheet would take for a formula gets an apostrophe.
    """
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(CSV_COLUMNS)
    for shown in records:
        fields = as_object(shown)
        fields["headers"] = json.dumps(fields["headers"], ensure_ascii=False)
        writer.writerow([_safe(fields[name]) for name in CSV_COLUMNS])
    return output.getvalue()


def _safe(value: object) -> object:
    is_formula = isinstance(value, str) and value.startswith(FORMULA_STARTS)
    return f"'{value}" if is_formula else value
