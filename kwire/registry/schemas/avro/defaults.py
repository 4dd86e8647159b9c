"""Whether the default of a field is a value of its type.

Avro's specification, "Complex Types", has the table of JSON values for each type.  The default of
a union may be of any of its branches, as the specification says since 1.12.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire.registry.schemas.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
)
from kwire.registry.schemas.json_text import Json, compact
from kwire.registry.schemas.kinds import InvalidSchemaError

SHOWN_MAX = 80


def check_defaults(records: Iterable[AvroRecord]) -> None:
    """Raise InvalidSchemaError if a field has a default that is no value of its type."""
    for record in records:
        for field in record.fields:
            if field.default is not NO_DEFAULT and not is_value(field.default, field.type):
                raise InvalidSchemaError(
                    f"the default {compact(field.default)[:SHOWN_MAX]} of the field {field.name}"
                    f" of {record.named.full} is no value of its type"
                )


def is_value(value: Json, of: AvroType) -> bool:
    """Whether JSON is a value of a type, in the form that defaults have.

    A field of a record that has no value gets its own default, which is checked by itself.
    """
    match of:
        case AvroPrimitive():
            return _is_primitive(value, of.kind)
        case AvroArray():
            return isinstance(value, list) and all(is_value(each, of.items) for each in value)
        case AvroMap():
            return isinstance(value, dict) and all(
                is_value(each, of.values) for each in value.values()
            )
        case AvroUnion():
            return any(is_value(value, branch) for branch in of.branches)
        case AvroEnum() | AvroFixed():
            return isinstance(value, str)
        case AvroRecord():
            return isinstance(value, dict) and all(
                is_value(value[field.name], field.type)
                if field.name in value
                else field.default is not NO_DEFAULT
                for field in of.fields
            )


def _is_primitive(value: Json, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind == "int" else 63
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)  # bytes and string
