"""Records as text, which `kwire consume` prints and `kwire produce` reads.

As JSON a record is one line, an object that always has the same fields: `topic`, `partition`,
`offset`, `timestamp` (ms since 1970), `key`, `key_encoding`, `value`, `value_encoding` and
`headers`, a list of objects with `name`, `value` and `value_encoding`.  Bytes that are valid UTF-8
are text with the encoding `utf-8`; other bytes are `base64`, so that nothing is lost.  A null key
or value has null in both fields.

An input may leave out all fields but the value.  Unknown fields are errors: a misspelt `value`
would otherwise be null, which deletes the key in a compacted topic.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from kwire.cli.text.output import json_text
from kwire.cli.text.suggestions import did_you_mean

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord

Headers = list[tuple[str, bytes | None]]

FIELDS = (
    "topic", "partition", "offset", "timestamp",
    "key", "key_encoding", "value", "value_encoding", "headers",
)  # fmt: skip
HEADER_FIELDS = ("name", "value", "value_encoding")
UTF_8, BASE64 = "utf-8", "base64"
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
NO_TIMESTAMP = -1


@dataclass(slots=True)
class NewRecord:
    """A record to produce.  The producer chooses partition and timestamp if they are None."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


class BadLine(ValueError):
    """A line of input that is not a record; the message says why."""


def to_json(record: ConsumedRecord) -> str:
    """The record as one line of JSON."""
    return json_text(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            **_bytes_as("key", record.key),
            **_bytes_as("value", record.value),
            "headers": [
                {"name": name, **_bytes_as("value", data)} for name, data in record.headers
            ],
        }
    )


def _bytes_as(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return a field of a record as JSON: as text if it is UTF-8, else as base64; NAME_encoding
    says which."""
    if data is None:
        return {name: None, f"{name}_encoding": None}
    try:
        return {name: str(data, UTF_8), f"{name}_encoding": UTF_8}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": BASE64}


def from_json(line: bytes, keep_partition: bool = False) -> NewRecord:
    """The record in a line of JSON, with its partition if `keep_partition`.  Raises BadLine."""
    try:
        record = json.loads(line, parse_constant=_no_number)
    except RecursionError as error:
        raise BadLine("the JSON is nested too deeply") from error
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise BadLine('not a JSON object like {"key": ..., "value": ...}')
    _known(record, FIELDS)
    if "value" not in record:
        raise BadLine(
            'it has no "value" (null is allowed: it deletes the key in a compacted topic)'
        )
    partition = _number("partition", record, INT32_MAX)
    return NewRecord(
        value=_bytes_of("value", record),
        key=_bytes_of("key", record),
        headers=_headers(record.get("headers")),
        partition=partition if keep_partition else None,
        timestamp_ms=_timestamp_ms(record),
    )


def _no_number(text: str) -> NoReturn:
    raise BadLine(f"{text} is not a JSON number")


def _known(fields: Collection[str], known: Collection[str]) -> None:
    """Raise BadLine, with the nearest known name, if a field of a record is unknown."""
    for name in fields:
        if name not in known:
            hint = did_you_mean(name, known) or f": there are {', '.join(known)}"
            raise BadLine(f"unknown field {json.dumps(name, ensure_ascii=False)}{hint}")


def _headers(listed: object) -> Headers:
    """Headers, as consume prints them or as an object of names and values."""
    if listed is None:
        return []
    if isinstance(listed, dict):
        listed = [{"name": name, "value": value} for name, value in listed.items()]
    if not isinstance(listed, list) or not all(
        isinstance(h, dict) and isinstance(h.get("name"), str) and "value" in h for h in listed
    ):
        raise BadLine('headers are a list of {"name": ..., "value": ...}')
    for header in listed:
        _known(header, HEADER_FIELDS)
        _encoded("name", header["name"])
    return [(header["name"], _bytes_of("value", header)) for header in listed]


def _bytes_of(name: str, fields: dict[str, Any]) -> bytes | None:
    """The bytes of a field, or None for null.  A value other than a text is written as JSON."""
    value, encoding = fields.get(name), fields.get(f"{name}_encoding")
    if encoding not in (None, UTF_8, BASE64):
        raise BadLine(f"{name}_encoding is {UTF_8} or {BASE64}")
    if value is None:
        return None
    if encoding == BASE64:
        try:
            return base64.b64decode(value, validate=True)
        except (ValueError, TypeError) as error:
            raise BadLine(f"{name} is not base64, and {name}_encoding says so") from error
    if isinstance(value, str):
        return _encoded(name, value)
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise BadLine(f"{name} holds a number that is too large") from error
    return _encoded(name, text)


def _encoded(name: str, text: str) -> bytes:
    """Return a text as UTF-8.  JSON may have half a surrogate pair, which UTF-8 does not."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadLine(f"{name} is not valid text: it holds half a surrogate pair") from error


def _timestamp_ms(fields: dict[str, Any]) -> int | None:
    """The timestamp in ms, or None if the field is missing or -1."""
    if fields.get("timestamp") == NO_TIMESTAMP:
        return None
    return _number("timestamp", fields, INT64_MAX)


def _number(name: str, fields: dict[str, Any], most: int) -> int | None:
    """Return a number from 0 to `most`, or None if the field is missing.  Raises BadLine."""
    value = fields.get(name)
    if value is None or (type(value) is int and 0 <= value <= most):  # It must not be a bool.
        return value
    raise BadLine(f"{name} is not a number from 0 to {most}")


def text_parser(key_separator: str | None, null: str | None) -> Callable[[bytes], NewRecord]:
    """A function that parses plain lines; the value `null` becomes null."""
    divider = None if key_separator is None else os.fsencode(key_separator)
    null_value = None if null is None else os.fsencode(null)

    def parse(line: bytes) -> NewRecord:
        """Parses a line; a value equal to the text for null becomes null, that is, a tombstone."""
        record = from_text(line, divider)
        if null_value is not None and record.value == null_value:
            record.value = None
        return record

    return parse


def from_text(line: bytes, key_separator: bytes | None) -> NewRecord:
    """The record in a plain line: the value, after key and separator if there is a separator."""
    if key_separator is None:
        return NewRecord(line)
    key, separator, value = line.partition(key_separator)
    if not separator:
        raise BadLine("it has no key separator")
    return NewRecord(value, key)


def text_of(data: bytes | None) -> str:
    """The bytes as text for display: invalid UTF-8 is escaped, None is `null`."""
    return "null" if data is None else str(data, UTF_8, "backslashreplace")
