"""Kafka's Uuid: 16 bytes that name a topic, a cluster or a log directory, and their text."""

from __future__ import annotations

import base64
from collections.abc import Callable

_RESERVED = 100
"""Kafka reserves the first hundred ids, such as zero, the metadata topic and lost directories."""


def random_uuid(draw: Callable[[int], bytes]) -> bytes:
    """Return a new id from `draw(n)`, which gives n random bytes (os.urandom).

    Like Kafka's Uuid.randomUuid, it has version 4 and is not a reserved id.  Its text does not
    start with a dash, because command-line tools would take it for an option.
    """
    while True:
        made = bytearray(draw(16))
        made[6] = made[6] & 0x0F | 0x40  # RFC 9562: the version, and the variant
        made[8] = made[8] & 0x3F | 0x80
        if not uuid_text(made).startswith("-") and int.from_bytes(made) >= _RESERVED:
            return bytes(made)


def uuid_text(value: bytes | bytearray) -> str:
    """A uuid in Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value)[:22].decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Return the uuid of a text from `uuid_text`.  Raises ValueError."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as problem:
        raise ValueError(f"{text!r} is not a uuid in base64: {problem}") from problem
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a uuid in base64")
    return value
