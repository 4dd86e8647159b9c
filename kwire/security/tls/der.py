"""As much of DER as a certificate's name and a JKS key need: where each element is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_SIZE_BYTES_MAX = 4


class DerError(ValueError):
    """These bytes are no DER."""


class Element(NamedTuple):
    """One element: `at` is its tag, `start` its content, `end` what is behind it."""

    tag: int
    at: int
    start: int
    end: int

    def content(self, data: bytes) -> bytes:
        return data[self.start : self.end]

    def whole(self, data: bytes) -> bytes:
        return data[self.at : self.end]


def read_element(data: bytes, at: int) -> Element:
    """The element at `at`.  Raises DerError."""
    if at + 2 > len(data):
        raise DerError("cut short")
    tag, size, start = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= _SIZE_BYTES_MAX or start + count > len(data):
            raise DerError("a size that is no DER")
        size, start = int.from_bytes(data[start : start + count]), start + count
    if start + size > len(data):
        raise DerError("cut short")
    return Element(tag, at, start, start + size)


def children(data: bytes, parent: Element) -> Iterator[Element]:
    """What a constructed element holds, in order.  Raises DerError."""
    at = parent.start
    while at < parent.end:
        child = read_element(data, at)
        if child.end > parent.end:
            raise DerError("an element is larger than what holds it")
        yield child
        at = child.end


def object_identifier(content: bytes) -> str:
    """`2.5.4.3` and the like."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise DerError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
