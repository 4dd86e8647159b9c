"""The client id and the tagged fields of a request header (the latter from version 2, KIP-482)."""

from __future__ import annotations

from kwire.codecs.primitives import TAGS_MAX
from kwire.requests.context import Context, InvalidFrame

FLEXIBLE_HEADER = 2
"""The first version of the request header that ends with tagged fields."""


CLIENT_ID_AT = 10
"""API key, version, correlation id and the size of the client id stand before it."""


def read_client_id(frame: memoryview, size: int, context: Context) -> int:
    """Put the client id into the context; returns the position behind it.  Raises InvalidFrame.

    The same bytes as before are not decoded again: a client rarely changes its id.
    """
    if size < 0:  # a null client id
        context.client_id_bytes = context.client_id = None
        return CLIENT_ID_AT
    end = CLIENT_ID_AT + size
    if end > len(frame):
        raise InvalidFrame(f"a client id of {size} bytes does not fit in the request")
    client_id = bytes(frame[CLIENT_ID_AT:end])
    if client_id != context.client_id_bytes:
        context.client_id_bytes = client_id
        context.client_id = client_id.decode("utf-8", "replace")
    return end


def skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Return the position behind the request header's tagged fields.

    Kafka defines none for brokers.

    Raises InvalidFrame.
    """
    try:
        if frame[position] == 0:
            return position + 1
        fields, position = _read_unsigned_varint(frame, position)
        # Apache Kafka reads more than an int32 as a negative number, which it refuses since 4.4.
        if fields > min(len(frame) - position, TAGS_MAX):
            raise InvalidFrame(f"the request header has {fields} tagged fields")
        for _ in range(fields):
            _, position = _read_unsigned_varint(frame, position)
            size, position = _read_unsigned_varint(frame, position)
            position += size
            if position > len(frame):
                raise InvalidFrame("the request header's tagged fields end after the request")
    except IndexError:
        raise InvalidFrame("the request ends within its header") from None
    return position


def _read_unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return the varint at `position` and the position after it.

    Raises InvalidFrame if it has more than five bytes, which hold 35 bits; only 32 of them count.
    """
    value = 0
    for shift in range(0, 35, 7):
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
    raise InvalidFrame("a varint in the request header has more than five bytes")
