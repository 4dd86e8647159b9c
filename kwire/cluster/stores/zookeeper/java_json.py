"""JSON as Apache Kafka's brokers write it into ZooKeeper: Jackson's text, in the order of the
hash tables that they hand to it.

Nobody depends on the order of an object's fields; but who writes the same bytes can be compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TABLE_MIN = 16
_ESCAPED = re.compile(r"\\\\|\\u00[01][0-9a-f]")


def text_of(value: object) -> bytes:
    """Jackson's: nothing between the parts, UTF-8, control characters in upper-case hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u" in text:
        text = _ESCAPED.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)
    return text.encode("utf-8", "replace")  # Java has no way to write half a surrogate pair, too


def parsed(content: bytes | None) -> object:
    """What a znode says; None if it is no JSON, as Apache Kafka takes it."""
    try:
        return json.loads(content or b"")
    except ValueError:
        return None


def string_hash(text: str) -> int:
    """Java's String.hashCode, of UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value


def in_scala_order(entries: Mapping[str, Any]) -> dict[str, Any]:
    """As scala.collection.mutable.HashMap walks them: by bucket, in it by hash."""
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
    """As java.util.Properties walks them: by bucket, in it by age."""
    size = _TABLE_MIN
    while len(entries) >= size * 3 // 4:
        size *= 2
    return {key: entries[key] for key in sorted(entries, key=lambda key: _java_place(key, size))}


def _java_place(key: str, size: int) -> int:
    value = string_hash(key)
    return (value ^ value >> 16) & size - 1


def integers(said: object) -> tuple[int, ...]:
    """A list of numbers.  Raises TypeError, ValueError."""
    if not isinstance(said, Sequence) or isinstance(said, str | bytes):
        raise TypeError(f"{said!r} is no list")
    return tuple(map(int, said))


def keyed_by_index(entries: Iterable[tuple[int, Sequence[int]]]) -> dict[str, Any]:
    """Lists of numbers by partition, the empty ones left out."""
    return in_scala_order({str(index): list(values) for index, values in entries if values})
