"""Decoded data, as JSON has them."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Final, TypeAlias

Data: TypeAlias = "str | int | float | bool | Sequence[Data] | Mapping[str, Data] | None"

HEX: Final = "0x"
"""How the text of bytes begins."""
NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The numbers that JSON lacks, by the texts that Protobuf's JSON has for them."""


@dataclass(frozen=True)
class Shape:
    """Which of several ways to write data as JSON is taken.

    names_branches   For Avro: the value of a union with several records, enums or fixed types is
                     an object with the type's name, as in Avro's own JSON.
    with_defaults    For Protobuf: fields without presence are there also if they have the default,
                     which is not in the bytes.
    as_base64        For Avro: bytes are base64, as in Protobuf's JSON, and not hex.
    """

    names_branches: bool = False
    with_defaults: bool = False
    as_base64: bool = False


PLAIN: Final = Shape()
"""For people who read it."""
EXACT: Final = Shape(names_branches=True, with_defaults=True)
"""For programs, and to encode it again.  Confluent's console consumers print Protobuf so."""


def shown(value: object, *, as_base64: bool = False) -> Data:
    """A library's value with the types that JSON has.

    Bytes become hex or base64, times the text of ISO 8601, decimals and UUIDs their text.  A pair
    is what fastavro returns for a branch of a union whose name says which it is: an object with
    that name.  Raises RecursionError.
    """
    if value is None or isinstance(value, str | int):  # bool is an int
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else not_finite(value)
    if isinstance(value, bytes):
        return b64encode(value).decode() if as_base64 else f"{HEX}{value.hex()}"
    if isinstance(value, Mapping):
        return {str(name): shown(each, as_base64=as_base64) for name, each in value.items()}
    if isinstance(value, tuple):
        name, each = value
        return {str(name): shown(each, as_base64=as_base64)}
    if isinstance(value, list):
        return [shown(each, as_base64=as_base64) for each in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)


def not_finite(value: float) -> str:
    """The text of a number that JSON lacks."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
