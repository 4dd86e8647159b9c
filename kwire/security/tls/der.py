"""A small DER parser, for the names of certificates and the keys of JKS: it finds the elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_SIZE_BYTES_MAX = 4


class DerError(ValueError):
    """The bytes are not valid DER."""


class Element(NamedTuple):
    """One element: the positions of its tag (`at`), of its content, and of the byte after it."""

    tag: int
    at: int
    start: int
    end: int

    def content(self, data: bytes) -> bytes:
        return data[self.start : self.end]

    def whole(self, data: bytes) -> bytes:
        return data[self.at : self.end]


def read_element(data: bytes, at: int) -> Element:
    """Return the element at position `at`.  Raises DerError."""
    if at + 2 > len(data):
        raise DerError("the data ends within an element")
    tag, size, start = data[at], data[at + 1], at + 2
    # From 128 bytes on, the first byte has the number of bytes of the size.
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= _SIZE_BYTES_MAX or start + count > len(data):
            raise DerError("the size of an element is invalid")
        size, start = int.from_bytes(data[start : start + count]), start + count
    if start + size > len(data):
        raise DerError("the data ends within an element")
    return Element(tag, at, start, start + size)


def children(data: bytes, parent: Element) -> Iterator[Element]:
    """Yield the elements in a constructed element, in order.  Raises DerError."""
    at = parent.start
    while at < parent.end:
        child = read_element(data, at)
        if child.end > parent.end:
            raise DerError("an element is larger than its parent")
        yield child
        at = child.end


def object_identifier(content: bytes) -> str:
    """Return an object identifier in dotted form, such as `2.5.4.3`.  Raises DerError."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise DerError("an empty object identifier")
    # X.690, section 8.19: the first number has two components, 40 times the first plus the second.
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
