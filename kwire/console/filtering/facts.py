"""What a filter expression may ask of a record."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kwire.registry.schemas.values.data import Data

PLAIN_NUMBER: Final = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?", re.ASCII)
DIGITS_MAX: Final = 40
"""Characters of a text that is compared as a number."""


class Absent:
    """The value of a path that the record does not have; it is different from null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


class RecordFacts(Protocol):
    """A record as the expressions see it.  Texts and data are decoded when they are asked for."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def size_bytes(self) -> int:
        """Bytes of key, value and headers."""
        ...

    def is_null(self, part: str) -> bool:
        """Whether the `key` or the `value` is null."""
        ...

    def text(self, part: str) -> str:
        """The `key` or `value` as text; empty if it is null."""
        ...

    def data(self, part: str) -> Data | Absent:
        """The decoded `key` or `value`; its text if it is no structure."""
        ...

    def header(self, name: str) -> str | Absent | None:
        """The text of the last header of a name; None if its value is null."""
        ...


def at_path(data: Data | Absent, path: Sequence[str | int]) -> Data | Absent:
    """What is at a path of decoded data: names of fields, and indexes of lists."""
    found = data
    for step in path:
        if isinstance(step, str) and isinstance(found, Mapping):
            found = found.get(step, ABSENT)
        elif isinstance(step, int) and isinstance(found, list) and -len(found) <= step < len(found):
            found = found[step]
        else:
            return ABSENT
    return found


def as_text(value: Data | Absent) -> str | None:
    """The text that an operation on text sees; None for null and what is absent.

    It is None for what is nested too deeply, too.
    """
    if value is None or isinstance(value, Absent):
        return None
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return None


def as_number(value: Data | Absent) -> float | int | None:
    """The number that a comparison sees: a number, or a text that is one; None for others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) <= DIGITS_MAX and PLAIN_NUMBER.fullmatch(value):
        try:
            return int(value)
        except ValueError:
            value = _float_of(value)
    return value if isinstance(value, float) and math.isfinite(value) else None


def _float_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
