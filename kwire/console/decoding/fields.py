"""Protobuf messages without a schema, by the numbers of their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.console.decoding.plain import is_text
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotDecode
from kwire.registry.schemas.values.protobuf import NESTED_MAX, varint_at


def fields_of(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message without a schema.  Raises CannotDecode."""
    position = 0
    while position < len(raw):
        tag, position = varint_at(raw, position)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise CannotDecode("not Protobuf: a field has the number 0")
        if kind == 0:
            value, position = varint_at(raw, position)
            yield number, value
            continue
        if kind == 2:
            size_bytes, position = varint_at(raw, position)
        elif kind in (1, 5):
            size_bytes = 8 if kind == 1 else 4
        else:
            raise CannotDecode(f"not Protobuf: a field has the type {kind}")
        if position + size_bytes > len(raw):
            raise CannotDecode("not Protobuf: a field has no end")
        content = raw[position : position + size_bytes]
        position += size_bytes
        yield number, content if kind == 2 else int.from_bytes(content, "little")


def schemaless_data(fields: Iterable[tuple[int, int | bytes]], depth: int = 0) -> Data:
    """The fields by number.  Bytes are a message or text if they look like it, else hex."""
    found: dict[str, Data] = {}
    for number, value in fields:
        shown_value = _looked_at(value, depth) if isinstance(value, bytes) else value
        name = str(number)
        before = found.get(name)
        if name not in found:
            found[name] = shown_value
        elif isinstance(before, list):
            before.append(shown_value)
        else:
            found[name] = [before, shown_value]
    return found


def _looked_at(raw: bytes, depth: int) -> Data:
    if is_text(raw):
        return raw.decode()
    if depth < NESTED_MAX:
        try:
            return schemaless_data(list(fields_of(raw)), depth + 1)
        except CannotDecode:
            return f"0x{raw.hex()}"
    return f"0x{raw.hex()}"
