"""Python's values, as fastavro writes them, from JSON-like data and an Avro schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kwire.registry.schemas.values.data import HEX, NOT_FINITE, Data
from kwire.registry.schemas.values.problem import CannotEncode

INTEGERS: Final = {"int": 2**31, "long": 2**63}
"""The types of whole numbers, which are from -N to N - 1."""
NAMED: Final = ("record", "error", "enum", "fixed")
PARTS_OF_TIME: Final = ("date", "time-millis", "time-micros")
INSTANTS: Final = ("timestamp-millis", "timestamp-micros")
LOCAL_TIMES: Final = ("local-timestamp-millis", "local-timestamp-micros")
"""The logical types whose text `shown` writes as ISO 8601."""


class AvroValues:
    """Makes the values of one datum.

    A value of a union is a pair of the branch's name and the value: fastavro then does not search
    for a branch that fits.
    """

    def __init__(self, named: Mapping[str, Any], *, of_defaults: bool = False) -> None:
        """`named` has the types of the schema by their full names.  `of_defaults`: the data are
        defaults in a schema, where bytes and decimals have a character for each byte."""
        self._named = named
        self._of_defaults = of_defaults
        self._branches: dict[tuple[int, int], object] = {}
        """What came of the data and the branches that were tried, by their identities.  Without
        it, records that contain each other in unions take time that doubles with each level."""

    def value(self, data: Data, schema: Any, where: str) -> object:  # noqa: ANN401 - JSON
        """The value of data.  `where` names the data in an error.  Raises CannotEncode."""
        if isinstance(schema, list):
            return self._of_union(data, schema, where)
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if isinstance(schema, str):
            return self._of_type(data, {}, schema, where)
        kind = schema["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.value(data, kind, where)
        found = None
        if not self._of_defaults:
            found = _logical(data, schema.get("logicalType"), kind, where)
        return self._of_type(data, schema, kind, where) if found is None else found

    def _of_type(
        self,
        data: Data,
        schema: Mapping[str, Any],
        kind: str,
        where: str,
    ) -> object:
        match kind:
            case "record" | "error":
                return self._of_record(data, schema, where)
            case "array":
                items = _expected(data, list, "an array", where)
                inner = schema["items"]
                return [self.value(each, inner, f"{where}[{at}]") for at, each in enumerate(items)]
            case "map":
                entries = _expected(data, Mapping, "an object", where)
                inner = schema["values"]
                return {
                    name: self.value(each, inner, f"{where}.{name}")
                    for name, each in entries.items()
                }
            case "enum":
                return _symbol(data, schema, where)
            case "bytes" | "fixed":
                as_hex = not self._of_defaults
                return _bytes(data, schema.get("size"), where, as_hex=as_hex)
            case _:
                return _primitive(data, kind, where)

    def _of_record(self, data: Data, schema: Mapping[str, Any], where: str) -> dict[str, object]:
        given = _expected(data, Mapping, f"an object of {schema['name']}", where)
        fields = {field["name"]: field for field in schema["fields"]}
        for name in given:
            if name not in fields:
                raise CannotEncode(f"{where}: {schema['name']} has no field {name!r}")
        found = {}
        for name, field in fields.items():
            place = f"{where}.{name}"
            if name in given:
                found[name] = self.value(given[name], field["type"], place)
            elif "default" in field:
                defaults = AvroValues(self._named, of_defaults=True)
                found[name] = defaults.value(field["default"], field["type"], place)
            else:
                raise CannotEncode(f"{where}: {schema['name']} needs the field {name!r}")
        return found

    def _of_union(self, data: Data, branches: list[Any], where: str) -> object:
        """The value for the first branch that fits, or for the one that the data name.

        The name of a record, enum or fixed type wins over a map that fits as well, because
        decoding gives that name.  The name of any other type is tried last: decoding does not
        give it, so that an object with one field `string` is a map or a record.
        """
        tag = next(iter(data)) if isinstance(data, Mapping) and len(data) == 1 else None
        named = {name_of(each): each for each in branches}
        if tag is not None and is_named(named.get(tag), self._named):
            return (tag, self.value(_inside(data, tag), named[tag], where))
        problems = []
        for name, branch in self._in_order(data, named):
            found = self._tried(data, branch, where)
            if not isinstance(found, CannotEncode):
                return (name, found)
            problems.append(found)
        if tag is not None and tag in named:
            return (tag, self.value(_inside(data, tag), named[tag], where))
        likely = [each for each in problems if not str(each).startswith(f"{where}: not ")]
        if len(likely) == 1:  # for `[null, record]`, what is wrong in the record
            raise likely[0]
        raise CannotEncode(f"{where}: not {' or '.join(named)}")

    def _in_order(self, data: Data, named: dict[str, Any]) -> list[tuple[str, Any]]:
        """The branches in the order in which they are tried.

        `double` comes before `float` if a float would lose digits, and whole numbers are for
        numbers that are written without a fraction.
        """
        found = list(named.items())
        if isinstance(data, float) and "float" in named and "double" in named:
            if not _fits_float(data):
                found.sort(key=lambda item: item[0] == "float")
        elif isinstance(data, int) and not isinstance(data, bool):
            found.sort(key=lambda item: item[0] in ("float", "double"))
        return found

    def _tried(self, data: Data, branch: Any, where: str) -> object:  # noqa: ANN401 - JSON
        """The value for a branch, or the CannotEncode that says why it does not fit."""
        key = id(data), id(branch)
        if key not in self._branches:
            try:
                self._branches[key] = self.value(data, branch, where)
            except CannotEncode as problem:
                self._branches[key] = problem
        return self._branches[key]


def is_named(schema: Any, named: Mapping[str, Any]) -> bool:  # noqa: ANN401 - JSON
    """Whether a branch of a union is a record, enum or fixed type."""
    if isinstance(schema, str):
        return schema in named
    return isinstance(schema, dict) and schema.get("type") in NAMED


def name_of(branch: Any) -> str:  # noqa: ANN401 - JSON
    """The name by which a union's branch is chosen: of its type, or the type's kind."""
    if isinstance(branch, str):
        return branch
    kind = branch["type"]
    if kind in NAMED:
        return str(branch["name"])
    return kind if isinstance(kind, str) else name_of(kind)


def _inside(data: Data, name: str) -> Data:
    assert isinstance(data, Mapping)
    return data[name]


def _expected(data: Data, kind: type, words: str, where: str) -> Any:  # noqa: ANN401 - of `kind`
    if not isinstance(data, kind):
        raise CannotEncode(f"{where}: not {words}")
    return data


def _primitive(data: Data, kind: str, where: str) -> object:
    """The value of a type without parts.  Raises CannotEncode."""
    match kind:
        case "null" if data is None:
            return None
        case "boolean" if isinstance(data, bool):
            return data
        case "string" if isinstance(data, str):
            return data
        case "int" | "long" if type(data) is int:
            most = INTEGERS[kind]
            if -most <= data < most:
                return data
            raise CannotEncode(f"{where}: {data} is not of the type {kind}")
        case "float" | "double" if isinstance(data, int | float) and not isinstance(data, bool):
            return _floating(data, kind, where)
        case "float" | "double" if isinstance(data, str) and data in NOT_FINITE:
            return NOT_FINITE[data]
    raise CannotEncode(f"{where}: not {kind}")


def _floating(data: float, kind: str, where: str) -> float:
    try:
        found = float(data)
        struct.pack("<f" if kind == "float" else "<d", found)
    except OverflowError:
        raise CannotEncode(f"{where}: {data} is not of the type {kind}") from None
    return found


def _fits_float(number: float) -> bool:
    """Whether four bytes hold the number without a loss."""
    try:
        return bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)
    except OverflowError:
        return False


def _symbol(data: Data, schema: Mapping[str, Any], where: str) -> str:
    if not isinstance(data, str):
        raise CannotEncode(f"{where}: not a symbol of {schema['name']}")
    if data not in schema["symbols"]:
        symbols = ", ".join(schema["symbols"])
        raise CannotEncode(f"{where}: {data!r} is no symbol of {schema['name']} ({symbols})")
    return data


def _bytes(data: Data, size_bytes: int | None, where: str, *, as_hex: bool) -> bytes:
    """Bytes of a text: hex after `0x` if `as_hex`, else Avro's own JSON, with a character for each
    byte."""
    if not isinstance(data, str):
        raise CannotEncode(f"{where}: not a text of bytes")
    try:
        if as_hex and data.startswith(HEX):
            found = bytes.fromhex(data.removeprefix(HEX))
        else:
            found = data.encode("latin-1")
    except ValueError:
        raise CannotEncode(
            f"{where}: not a text of bytes: hex after {HEX}, or characters up to U+00FF"
        ) from None
    if size_bytes is not None and len(found) != size_bytes:
        raise CannotEncode(f"{where}: {len(found)} bytes instead of {size_bytes}")
    return found


def _logical(data: Data, logical: str | None, kind: str, where: str) -> object | None:
    """The value of a logical type that data write as text, or None if the plain type is meant.

    A number stays what it is: the count of days, milliseconds or microseconds.
    """
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(data, where)
    if not isinstance(data, str):
        return None
    try:
        if logical in PARTS_OF_TIME:
            return (date if logical == "date" else time).fromisoformat(data)
        if logical in INSTANTS:
            found = datetime.fromisoformat(data)
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        if logical in LOCAL_TIMES:
            return datetime.fromisoformat(data).replace(tzinfo=None)
    except ValueError:
        raise CannotEncode(f"{where}: {data!r} is not a {logical} of ISO 8601") from None
    return None


def _decimal(data: Data, where: str) -> Decimal | None:
    """The decimal of a number or its text; None for other texts, which are those of bytes."""
    if isinstance(data, bool) or not isinstance(data, str | int | float):
        raise CannotEncode(f"{where}: not a decimal")
    try:
        found = Decimal(str(data))
    except InvalidOperation:
        return None
    if not found.is_finite():
        raise CannotEncode(f"{where}: not a decimal")
    return found
