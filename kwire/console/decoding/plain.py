"""Bytes without a schema: text, JSON, numbers, base64."""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Final

from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotDecode

CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")
"""Control characters that text has not: all but tabs, line ends and the escapes of terminals."""
LOOKED_AT_BYTES: Final = 4096
"""How much of the bytes is searched for control characters."""


def is_text(raw: bytes) -> bool:
    """Whether the bytes look like text: UTF-8 without control characters, but tabs and lines."""
    if CONTROLS.search(raw, 0, LOOKED_AT_BYTES):
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def json_line(data: Data) -> str:
    """Data as JSON on one line.  What JSON lacks is text."""
    try:
        return json.dumps(data, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        raise CannotDecode("the data are nested too deeply") from None


def json_lines(data: Data) -> str:
    """Data as JSON with indentation."""
    return json.dumps(data, ensure_ascii=False, default=str, indent=2)


def base64_text(raw: bytes) -> str:
    """The bytes as base64."""
    return base64.b64encode(raw).decode()


def number_of(raw: bytes) -> tuple[int | float, str]:
    """The number that Kafka's serializers wrote, and its type: big-endian integers by length.

    Raises CannotDecode for other lengths.
    """
    if len(raw) not in (1, 2, 4, 8):
        raise CannotDecode(f"a number has 1, 2, 4 or 8 bytes, not {len(raw)}")
    return int.from_bytes(raw, signed=True), f"int{8 * len(raw)}"


def number_note(raw: bytes) -> str:
    """What the bytes are as numbers, if their length is that of one; else empty."""
    if len(raw) not in (4, 8):
        return ""
    number, kind = number_of(raw)
    (floating,) = struct.unpack(">f" if len(raw) == 4 else ">d", raw)
    return f"{kind} {number}, float {floating:.7g}"
