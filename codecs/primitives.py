"""The base of all messages: errors, the frame they are written to, and Kafka's primitive types.

Readers take `(data, pos, end)` and return the value and the position after it.  The generated code
reads fixed-size fields itself, through `struct`, which does not read past the buffer; this module
reads values with a length.  A length is checked against the remaining bytes before anything is
allocated, so the memory that a frame can take is a fixed multiple of its size.  Outside this module
every decoding failure is a `DecodeError`, and every encoding failure is an `EncodeError`: `Message`
maps all other exceptions.
"""

from __future__ import annotations

import codecs as stdlib_codecs
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias

ZERO_UUID = bytes(16)

STRING_SIZE_MAX = 0x7FFF  # bytes of any string: the largest int16 length
ELEMENTS_MAX = 1_000_000  # of an array, as in Apache Kafka since 4.4
TAGS_MAX = 10_000  # tagged fields of a struct, as in Apache Kafka since 4.4

RECORDS_COPY_MAX = 4096  # bytes; larger records become a region, as a copy would cost more

Buffer: TypeAlias = bytes | bytearray | memoryview
_BUFFERS = (bytes, bytearray, memoryview)  # isinstance() is several times faster on a tuple


class DecodeError(ValueError):
    """The bytes are not a valid message; the text names the message and the reason."""


class EncodeError(ValueError):
    """The message cannot be written in this version: its type or the version lacks a value."""


class FileRegion(Protocol):
    """Records that stay in a file until the frame is sent."""

    @property
    def size_bytes(self) -> int: ...

    def read(self) -> bytes: ...


Records: TypeAlias = bytes | bytearray | memoryview | FileRegion


class Frame(bytearray):
    """An outgoing frame: bytes that grow by `+=`, and `regions`, payloads that were not copied in.

    A region is `(position, records)`: on the wire, `records` come before the byte at `position`.
    """

    __slots__ = ("regions",)

    regions: list[tuple[int, Records]]

    def __init__(self) -> None:
        self.regions = []

    @property
    def wire_size(self) -> int:
        """Size on the wire in bytes."""
        return len(self) + sum(records_size(records) for _, records in self.regions)

    def tobytes(self) -> bytes:
        """Return the bytes on the wire, including the content of regions."""
        if not self.regions:
            return bytes(self)
        pieces: list[Buffer] = []
        start = 0
        for position, records in self.regions:
            pieces.append(self[start:position])
            pieces.append(records if isinstance(records, _BUFFERS) else records.read())
            start = position
        pieces.append(self[start:])
        return b"".join(pieces)


def records_size(records: Records) -> int:
    """The size of a value of a `records` field in bytes."""
    return len(records) if isinstance(records, _BUFFERS) else records.size_bytes


class Struct:
    """Base of all generated classes: one `__eq__` and `__repr__` for all import faster."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment] # mutable

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{self.__class__.__name__}({fields})"


# Exceptions of readers for invalid bytes.  The last two: the buffer ends before a fixed-size field.
_DECODING_FAULTS = (DecodeError, IndexError, struct.error)

# Exceptions of writers for invalid values: None where null is not allowed (AttributeError,
# TypeError, struct.error), a number out of range (struct.error, OverflowError), a lone surrogate.
_ENCODING_FAULTS = (
    EncodeError,
    AttributeError,
    OverflowError,
    TypeError,
    UnicodeEncodeError,
    struct.error,
)


class Message(Struct):
    """Base of all generated messages. `READERS` and `WRITERS` hold a function for each version."""

    __slots__ = ()

    API_KEY: ClassVar[int | None]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int | None]
    READERS: ClassVar[dict[int, Callable[[Buffer, int, int], tuple[Any, int]]]]
    WRITERS: ClassVar[dict[int, Callable[[Frame, Any], None]]]

    @classmethod
    def decode(cls, data: Buffer, version: int, pos: int = 0) -> Self:
        """Return the message at `pos`; bytes after it are ignored, as Kafka ignores them."""
        reader = cls.READERS.get(version)
        try:
            if reader is not None:
                message: Self = reader(data, pos, len(data))[0]
                return message
        except _DECODING_FAULTS as error:
            raise cls._decode_error(version, error) from error
        raise DecodeError(f"{cls.__name__} has no version {version}")

    @classmethod
    def read(cls, data: Buffer, version: int, pos: int = 0) -> tuple[Self, int]:
        """Return the message at `pos` and the position after it.

        Raises DecodeError and nothing else.
        """
        reader = cls.READERS.get(version)
        try:
            if reader is not None:
                return reader(data, pos, len(data))
        except _DECODING_FAULTS as error:
            raise cls._decode_error(version, error) from error
        raise DecodeError(f"{cls.__name__} has no version {version}")

    @classmethod
    def _decode_error(cls, version: int, error: Exception) -> DecodeError:
        what = str(error) if isinstance(error, DecodeError) else "the bytes end too soon"
        return DecodeError(f"{cls.__name__} version {version}: {what}")

    def write(self, out: Frame, version: int) -> None:
        """Append the message to `out`.  After an EncodeError, `out` is unchanged."""
        writer = self.WRITERS.get(version)
        if writer is None:
            raise EncodeError(f"{self.__class__.__name__} has no version {version}")
        size, regions_count = len(out), len(out.regions)
        try:
            writer(out, self)
        except _ENCODING_FAULTS as error:
            del out[size:]
            del out.regions[regions_count:]
            raise EncodeError(f"{self.__class__.__name__} version {version}: {error}") from error

    def encode(self, version: int) -> bytes:
        """The message as bytes, including the content of regions."""
        out = Frame()
        self.write(out, version)
        return out.tobytes()


# ---- text -------------------------------------------------------------------------------------


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed UTF-8 by U+FFFD as Java's `new String(bytes, UTF_8)` does.

    It is an error handler of `bytes.decode`. Python and Java differ for an encoded surrogate (ED
    A0..BF xx), which is one mistake in Java.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    rest = error.object[error.start : error.start + 3]
    if len(rest) > 1 and rest[0] == 0xED and 0xA0 <= rest[1] <= 0xBF:
        is_whole = len(rest) == 3 and rest[2] & 0xC0 == 0x80
        return "\ufffd", error.start + (3 if is_whole else 2)
    return "\ufffd", error.end


UTF8_ERRORS = "kwire-java-replace"
stdlib_codecs.register_error(UTF8_ERRORS, _replace_like_java)


# ---- reading ----------------------------------------------------------------------------------


def varint_tail(data: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Return the unsigned varint whose first byte, at `pos - 1`, was `first` (0x80 or more).

    It has at most 5 bytes.  The value is an int32 as in Java, so it may be negative.
    """
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = data[pos]
        pos += 1
        if byte < 0x80:
            return value | byte << shift, pos
        value |= (byte & 0x7F) << shift
    byte = data[pos]
    if byte >= 0x80:
        raise DecodeError("a varint is longer than 5 bytes")
    value |= (byte & 0x0F) << 28
    return (value - (1 << 32) if byte & 0x08 else value), pos + 1


def length_tail(data: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Return `varint_tail` of a compact length: length + 1, or 0 for null."""
    value, pos = varint_tail(data, pos, first)
    if value >= 0:
        return value, pos
    # Java subtracts 1 with wrap-around, so only the least int32 is a length; the others mean null.
    return (1 << 31 if value == -(1 << 31) else 0), pos


def string_length_tail(data: Buffer, pos: int, first: int) -> tuple[int, int]:
    """`length_tail` of a string, which may have STRING_SIZE_MAX bytes."""
    value, pos = length_tail(data, pos, first)
    if value > STRING_SIZE_MAX + 1:
        raise DecodeError(f"a string of {value - 1} bytes")
    return value, pos


def bad_length(name: str, length: int, remaining: int) -> DecodeError:
    """The error for a length that is negative (null) or larger than the remaining bytes."""
    if length < 0:
        return DecodeError(f"{name} is null")
    return DecodeError(f"{name} has {length} bytes, {remaining} are left")


def bad_count(name: str, count: int, remaining: int) -> DecodeError:
    """The error for an array that is null, too long, or larger than the remaining bytes."""
    if count < 0:
        return DecodeError(f"an array of {name} is null")
    if ELEMENTS_MAX < count <= remaining:
        return DecodeError(f"{count} of {name}, {ELEMENTS_MAX} are the most")
    return DecodeError(f"{count} of {name} in {remaining} bytes")


def bad_tag(name: str, tag: int) -> DecodeError:
    """The error for a tagged field that this version does not have but another has."""
    return DecodeError(f"{name} has no tag {tag} in this version")


def tag_count(data: Buffer, pos: int, end: int, first: int) -> tuple[int, int]:
    """Return the number of tagged fields, a varint with this first byte, and the position after it.

    Raises DecodeError if it is negative or too large, as Kafka does since 4.4.
    """
    count = first
    if count > 127:
        count, pos = varint_tail(data, pos, count)
    if not 0 <= count <= min(end - pos, TAGS_MAX):
        raise DecodeError(f"{count} tagged fields in {end - pos} bytes, {TAGS_MAX} are the most")
    return count, pos


def read_tag(data: Buffer, pos: int) -> tuple[int, int, int]:
    """Return tag and size of a tagged field, and the position after them."""
    tag = data[pos]
    pos += 1
    if tag > 127:
        tag, pos = varint_tail(data, pos, tag)
    size = data[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(data, pos, size)
    return tag, size, pos


def skip_tag(pos: int, end: int, size: int) -> int:
    """The position after an unknown tagged field of `size` bytes at `pos`."""
    if not 0 <= size <= end - pos:
        raise bad_length("a tagged field", size, end - pos)
    return pos + size


def skip_tags(data: Buffer, pos: int, end: int, count: int) -> int:
    """Return the position after `count` (a varint's first byte) unknown tagged fields."""
    count, pos = tag_count(data, pos, end, count)
    for _ in range(count):
        _, size, pos = read_tag(data, pos)
        pos = skip_tag(pos, end, size)
    return pos


_SMALL_COUNT = 16  # arrays up to this size (replica lists, partitions) use a prepared Struct


def _int_array_reader(code: str) -> Callable[[Buffer, int, int, int], tuple[list[int], int]]:
    """Return a function that reads `count` big-endian integers of the format `code`.

    Formats of small counts are compiled in advance, as most arrays are short.
    """
    width = struct.calcsize(f">{code}")
    small = [struct.Struct(f">{count}{code}").unpack_from for count in range(_SMALL_COUNT + 1)]
    unpack_from = struct.unpack_from

    def read(data: Buffer, pos: int, end: int, count: int) -> tuple[list[int], int]:
        """Return the integers at `pos` and the position after them; `end` limits them."""
        stop = pos + count * width
        if not pos <= stop <= end:
            raise bad_count(f"{width}-byte integers", count, end - pos)
        if count <= _SMALL_COUNT:
            return list(small[count](data, pos)), stop
        if count > ELEMENTS_MAX:
            raise bad_count(f"{width}-byte integers", count, end - pos)
        return list(unpack_from(f">{count}{code}", data, pos)), stop

    return read


read_int8s = _int_array_reader("b")
read_int16s = _int_array_reader("h")
read_int32s = _int_array_reader("i")
read_int64s = _int_array_reader("q")


def read_uuids(data: Buffer, pos: int, end: int, count: int) -> tuple[list[bytes], int]:
    """`count` uuids of 16 bytes each."""
    stop = pos + count * 16
    if not pos <= stop <= end or count > ELEMENTS_MAX:
        raise bad_count("uuids", count, end - pos)
    return [bytes(data[at : at + 16]) for at in range(pos, stop, 16)], stop


def read_strings(data: Buffer, pos: int, end: int, count: int) -> tuple[list[str], int]:
    """Return `count` strings with an int16 length each."""
    if not 0 <= count * 2 <= end - pos or count > ELEMENTS_MAX:
        raise bad_count("strings", count, end - pos)
    strings = []
    for _ in range(count):
        length = (data[pos] << 8) | data[pos + 1]
        pos += 2
        stop = pos + length
        if stop > end or length > STRING_SIZE_MAX:
            raise bad_length("a string", -1 if length > STRING_SIZE_MAX else length, end - pos)
        strings.append(str(data[pos:stop], "utf-8", UTF8_ERRORS))
        pos = stop
    return strings, pos


def read_compact_strings(data: Buffer, pos: int, end: int, count: int) -> tuple[list[str], int]:
    """Return `count` strings with a varint of length + 1 each."""
    if not 0 <= count <= end - pos or count > ELEMENTS_MAX:
        raise bad_count("strings", count, end - pos)
    strings = []
    for _ in range(count):
        length = data[pos]
        pos += 1
        if length > 127:
            length, pos = string_length_tail(data, pos, length)
        stop = pos + length - 1
        if not pos <= stop <= end:
            raise bad_length("a string", length - 1, end - pos)
        strings.append(str(data[pos:stop], "utf-8", UTF8_ERRORS))
        pos = stop
    return strings, pos


# ---- writing ----------------------------------------------------------------------------------


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    # One or two bytes, by far the most frequent, need no loop.
    if value < 0x4000:
        if value > 127:
            out.append(value & 0x7F | 0x80)
            value >>= 7
    else:
        while value > 127:
            out.append(value & 0x7F | 0x80)
            value >>= 7
    out.append(value)


def put_string_length(out: bytearray, length: int) -> None:
    """Append the compact length (length + 1) of a string, if it takes more than one byte."""
    if length > STRING_SIZE_MAX + 1:
        raise EncodeError(f"a string of {length - 1} bytes")
    put_varint(out, length)


def put_tags(out: Frame, tags: Sequence[tuple[int, bytearray]]) -> None:
    """Append the tagged fields, given in ascending order of their tags."""
    put_varint(out, len(tags))
    for tag, body in tags:
        put_varint(out, tag)
        put_varint(out, len(body))
        out += body


def put_records(out: Frame, records: Records) -> None:
    """Append records with their int32 length, or that length and a region."""
    if isinstance(records, _BUFFERS):
        size = len(records)
        out += size.to_bytes(4, "big")
        if size <= RECORDS_COPY_MAX:
            out += records
            return
    else:
        size = records.size_bytes
        out += size.to_bytes(4, "big")
    if size:
        out.regions.append((len(out), records))


def put_compact_records(out: Frame, records: Records) -> None:
    """Append records with a varint of length + 1, or that varint and a region."""
    if isinstance(records, _BUFFERS):
        size = len(records)
        put_varint(out, size + 1)
        if size <= RECORDS_COPY_MAX:
            out += records
            return
    else:
        size = records.size_bytes
        put_varint(out, size + 1)
    if size:
        out.regions.append((len(out), records))


def _int_array_writer(code: str) -> Callable[[bytearray, Sequence[int]], None]:
    """Return a function that appends big-endian integers of the format `code`, without a length.

    Formats of small counts are compiled in advance, as most arrays are short.
    """
    small = [struct.Struct(f">{count}{code}").pack for count in range(_SMALL_COUNT + 1)]
    pack = struct.pack

    def put(out: bytearray, values: Sequence[int]) -> None:
        count = len(values)
        out += small[count](*values) if count <= _SMALL_COUNT else pack(f">{count}{code}", *values)

    return put


put_int8s = _int_array_writer("b")
put_int16s = _int_array_writer("h")
put_int32s = _int_array_writer("i")
put_int64s = _int_array_writer("q")


def put_uuids(out: bytearray, uuids: Sequence[bytes]) -> None:
    """Append uuids of 16 bytes each."""
    for uuid in uuids:
        if len(uuid) != 16:
            raise EncodeError(f"a uuid of {len(uuid)} bytes")
        out += uuid


def put_strings(out: bytearray, strings: Sequence[str]) -> None:
    """Append strings with an int16 length each."""
    for string in strings:
        value = string.encode()
        if len(value) > STRING_SIZE_MAX:
            raise EncodeError(f"a string of {len(value)} bytes")
        out += len(value).to_bytes(2, "big")
        out += value


def put_compact_strings(out: bytearray, strings: Sequence[str]) -> None:
    """Append strings with a varint of length + 1 each."""
    for string in strings:
        value = string.encode()
        length = len(value) + 1
        if length < 128:
            out.append(length)
        else:
            put_string_length(out, length)
        out += value


def is_null(name: str) -> EncodeError:
    """The error for None in a field that cannot be null in this version."""
    return EncodeError(f"{name} is None")


def refuse(name: str) -> EncodeError:
    """The error for a field that is set in a version which lacks it and must not drop it."""
    return EncodeError(f"{name} is set, this version lacks it")
