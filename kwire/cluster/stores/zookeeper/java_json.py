"""JSON with the bytes that Apache Kafka's brokers write to ZooKeeper.

The text is that of the Jackson library, with fields in the order of Java's and Scala's hash tables.
No reader depends on this order, but equal bytes let tests compare kwire's znodes with Kafka's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TABLE_MIN = 16
_ESCAPED = re.compile(r"\\\\|\\u00[01][0-9a-f]")


def text_of(value: object) -> bytes:
    """Jackson's encoding: no white space, UTF-8, control characters in upper-case hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u" in text:
        text = _ESCAPED.sub(lambda match: match[0][:2] + match[0][2:].upper(), text)
    return text.encode("utf-8", "replace")  # Java too replaces half a surrogate pair by "?"


def parsed(content: bytes | None) -> object:
    """The JSON value of a znode; None if the content is not JSON, as in Apache Kafka."""
    try:
        return json.loads(content or b"")
    except ValueError:
        return None


def string_hash(text: str) -> int:
    """Return Java's String.hashCode over UTF-16 units, as an unsigned number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for start in range(0, len(units), 2):
        value = (31 * value + (units[start] << 8 | units[start + 1])) & 0xFFFFFFFF
    return value


def in_scala_order(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return entries in the order of scala.collection.mutable.HashMap: by bucket, then by hash."""
    size = _TABLE_MIN
    for count in range(1, len(entries) + 1):
        if count >= size * 3 // 4:
            size *= 2
    return {key: entries[key] for key in sorted(entries, key=lambda key: _scala_place(key, size))}


def _scala_place(key: str, size: int) -> tuple[int, int]:
    value = string_hash(key)
    mixed = value ^ value >> 16
    return mixed & size - 1, mixed - (mixed >> 31 << 32)


def in_properties_order(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries in the order of java.util.Properties: by bucket, then by age."""
    size = _TABLE_MIN
    while len(entries) >= size * 3 // 4:
        size *= 2
    return {key: entries[key] for key in sorted(entries, key=lambda key: _java_place(key, size))}


def _java_place(key: str, size: int) -> int:
    value = string_hash(key)
    return (value ^ value >> 16) & size - 1


def integers(value: object) -> tuple[int, ...]:
    """The numbers in a JSON list.  Raises TypeError, ValueError."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is not a list")
    return tuple(map(int, value))


def keyed_by_index(entries: Iterable[tuple[int, Sequence[int]]]) -> dict[str, Any]:
    """Lists of numbers keyed by partition; empty lists are left out."""
    return in_scala_order({str(index): list(values) for index, values in entries if values})
