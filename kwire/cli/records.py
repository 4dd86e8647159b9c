"""Records as text: what `kwire consume` prints and `kwire produce` reads.

As JSON a record is one line, an object with `key`, `value`, `headers`, and `topic`, `partition`,
`offset`, `timestamp` (milliseconds since 1970) where known.  Bytes that are UTF-8 are strings;
others are in `key_base64` and `value_base64`, so that nothing is lost on the way out and in again.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord

Headers = list[tuple[str, bytes | None]]


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
    headers = [{"name": name, **_bytes_as("value", value)} for name, value in record.headers]
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            **_bytes_as("key", record.key),
            **_bytes_as("value", record.value),
            "headers": headers,
        },
        ensure_ascii=False,
    )


def _bytes_as(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def from_json(line: bytes, keep_partition: bool = False) -> NewRecord:
    """The record of a line of JSON, with its partition if that is wanted.  Raises BadLine."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise BadLine("not a JSON object")
    listed = record.get("headers") or []
    if isinstance(listed, dict):
        listed = [{"name": name, "value": value} for name, value in listed.items()]
    if not isinstance(listed, list) or not all(isinstance(h, dict) and "name" in h for h in listed):
        raise BadLine('headers are a list of {"name": ..., "value": ...}')
    return NewRecord(
        value=_bytes_of("value", record),
        key=_bytes_of("key", record),
        headers=[(str(h["name"]), _bytes_of("value", h)) for h in listed],
        partition=_number("partition", record) if keep_partition else None,
        timestamp_ms=_number("timestamp", record),
    )


def _bytes_of(name: str, fields: dict[str, Any]) -> bytes | None:
    """The bytes of a field; what is neither text nor null is produced as JSON."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (ValueError, TypeError) as error:
            raise BadLine(f"{name}_base64 is not base64") from error
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _number(name: str, fields: dict[str, Any]) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise BadLine(f"{name} is not a number from 0 on")


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
    return "null" if data is None else str(data, "utf-8", "backslashreplace")
