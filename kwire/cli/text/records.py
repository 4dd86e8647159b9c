"""Records as text: what `kwire consume` prints and `kwire produce` reads.

As JSON a record is one line, an object that always has the same fields: `topic`, `partition`,
`offset`, `timestamp` (milliseconds since 1970), `key`, `key_encoding`, `value`, `value_encoding`
and `headers`, a list of objects with `name`, `value` and `value_encoding`.  Bytes that are UTF-8
are text, and their encoding is `utf-8`; others are in `base64`, so that nothing is lost on the way
out and in again.  Where there are no bytes at all, both fields are null.

What is read may leave out what the broker knows better; not the value, and no field may be there
that means nothing: a misspelt one would make a null of what it says, and null deletes a key.
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
    """A record to be produced; what is None is chosen on the way."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp_ms: int | None = None


class BadLine(ValueError):
    """A line of input that is no record, with what is wrong."""


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
    if data is None:
        return {name: None, f"{name}_encoding": None}
    try:
        return {name: str(data, UTF_8), f"{name}_encoding": UTF_8}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": BASE64}


def from_json(line: bytes, keep_partition: bool = False) -> NewRecord:
    """The record of a line of JSON, with its partition if that is wanted.  Raises BadLine."""
    try:
        record = json.loads(line, parse_constant=_no_number)
    except RecursionError as error:
        raise BadLine("not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise BadLine('not a JSON object like {"key": ..., "value": ...}')
    _known(record, FIELDS)
    if "value" not in record:
        raise BadLine('it has no "value" (null is one: it deletes the key of a compacted topic)')
    partition = _number("partition", record, INT32_MAX)
    return NewRecord(
        value=_bytes_of("value", record),
        key=_bytes_of("key", record),
        headers=_headers(record.get("headers")),
        partition=partition if keep_partition else None,
        timestamp_ms=_timestamp_ms(record),
    )


def _no_number(text: str) -> NoReturn:
    raise BadLine(f"not JSON: {text} is no number there")


def _known(fields: Collection[str], known: Collection[str]) -> None:
    for name in fields:
        if name not in known:
            hint = did_you_mean(name, known) or f": there are {', '.join(known)}"
            raise BadLine(f"unknown field {json.dumps(name, ensure_ascii=False)}{hint}")


def _headers(listed: object) -> Headers:
    """As consume writes them; by hand an object of names and values will do."""
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
    """The bytes of a field; what is neither text nor null is produced as JSON."""
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
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadLine(f"{name} is no text: it holds half a surrogate pair") from error


def _timestamp_ms(fields: dict[str, Any]) -> int | None:
    """None for a record that had none, as for one that is new."""
    if fields.get("timestamp") == NO_TIMESTAMP:
        return None
    return _number("timestamp", fields, INT64_MAX)


def _number(name: str, fields: dict[str, Any], most: int) -> int | None:
    value = fields.get(name)
    if value is None or (type(value) is int and 0 <= value <= most):  # a bool is no number here
        return value
    raise BadLine(f"{name} is not a number from 0 on")


def text_parser(key_separator: str | None, null: str | None) -> Callable[[bytes], NewRecord]:
    """Makes records of plain lines, of which one value may stand for null."""
    divider = None if key_separator is None else os.fsencode(key_separator)
    null_value = None if null is None else os.fsencode(null)

    def parse(line: bytes) -> NewRecord:
        record = from_text(line, divider)
        if null_value is not None and record.value == null_value:
            record.value = None
        return record

    return parse


def from_text(line: bytes, key_separator: bytes | None) -> NewRecord:
    """The record of a plain line: all of it is the value, or what follows the key's separator."""
    if key_separator is None:
        return NewRecord(line)
    key, separator, value = line.partition(key_separator)
    if not separator:
        raise BadLine("it has no key separator")
    return NewRecord(value, key)


def text_of(data: bytes | None) -> str:
    """For people: undecodable bytes are escaped, no bytes at all are `null`."""
    return "null" if data is None else str(data, UTF_8, "backslashreplace")
