"""The types of settings: parses a value from text, and formats it as Kafka does."""

from __future__ import annotations

import math
import re
from enum import IntEnum

from kwire.settings.error import InvalidValue

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
ARRAY_SIZE_MAX = INT_MAX - 8
"""The largest size of an array that Java's machines allocate."""


Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """Kafka's ConfigDef.Type, with the numbers that DescribeConfigs has."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_DIGITS_MAX = 19
"""A signed 64-bit number has no more digits.  Longer texts are refused before int() parses them."""


def parse(name: str, text: str | None, kind: ConfigType) -> Value:
    """Return the value of a text, trimmed as in Kafka.  Raises InvalidValue.

    Duplicates in a list are dropped.
    """
    if text is None:
        return None
    if kind is ConfigType.PASSWORD:
        return text
    given, text = text, text.strip(_JAVA_SPACE)
    if kind is ConfigType.STRING or kind is ConfigType.CLASS:
        return text
    if kind is ConfigType.LIST:
        return tuple(dict.fromkeys(_LIST_COMMA.split(text))) if text else ()
    parsed = _parse_scalar(text, kind)
    if parsed is None:
        raise InvalidValue(name, given, _EXPECTED.get(kind, f"Not a number of type {kind.name}"))
    return parsed


_JAVA_SPACE = "".join(map(chr, range(33)))  # the characters that Java's String.trim removes
_LIST_COMMA = re.compile(r"\s*,\s*")


_EXPECTED = {ConfigType.BOOLEAN: "Expected value to be either true or false"}


def _parse_scalar(text: str, kind: ConfigType) -> bool | int | float | None:
    """Return the boolean or number in a text, or None if the text is not of that type."""
    if kind is ConfigType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if kind is ConfigType.DOUBLE:
        return _parse_double(text)
    if _INTEGER.fullmatch(text) is not None and len(text.lstrip("+-0")) <= _DIGITS_MAX:
        value, limit = int(text), 1 << _BITS[kind]
        if -limit <= value < limit:
            return value
    return None


def _parse_double(text: str) -> float | None:
    if _DOUBLE.fullmatch(text) is None:
        return None
    return float(text if text[-1] in "Ny" else text.rstrip("fFdD"))


def text_of(value: Value, kind: ConfigType) -> str | None:
    """Return a value in the format of Kafka (ConfigDef.convertToString)."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind is ConfigType.DOUBLE:
        return _double_text(float(value))
    return str(value)


def _double_text(value: float) -> str:
    """Return a number in the format of Java's Double.toString: with an exponent outside 1e-3 to
    1e7.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:  # Python writes numbers from 1e7 to 1e16, and 1e-4, without an exponent.
        sign = "-" if value < 0 else ""
        whole, _, rest = mantissa.lstrip("-").partition(".")
        digits = (whole + rest).lstrip("0")
        point = len(whole) if whole != "0" else len(digits) - len(rest)
        digits = digits.rstrip("0") or "0"
        mantissa = f"{sign}{digits[0]}.{digits[1:] or '0'}"
        exponent = str(point - 1)
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
