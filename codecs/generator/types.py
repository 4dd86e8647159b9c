"""The Python type, default and size on the wire of a field of the schema."""

from __future__ import annotations

from kwire.codecs.schema_notation import (
    FIXED_SIZES,
    ClassNames,
    MessageSchema,
    SchemaField,
    StructSchema,
)

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
INT_ARRAYS = {"int8": "int8s", "int16": "int16s", "int32": "int32s", "int64": "int64s"}

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def has_none_for_default(field: SchemaField) -> bool:
    """Return whether the Python default of a field is None although the field cannot be null.

    This holds for tagged structs, which are not sent at their defaults.  A struct of defaults for
    each of a hundred partitions would cost more than all their other fields.
    """
    return (
        field.struct is not None
        and not field.is_array
        and field.tag is not None
        and field.nullable is None
    )


def element_type(field: SchemaField, names: ClassNames) -> str:
    if field.struct is not None:
        return names.of(field.struct)
    return _PYTHON_TYPES.get(field.type, "int")


def is_optional(field: SchemaField) -> bool:
    """Return whether the field's Python type includes None."""
    return (
        field.nullable is not None
        or has_none_for_default(field)
        or (field.type == "records" and not field.is_array)
    )


def python_type(field: SchemaField, names: ClassNames) -> str:
    """The type of the field's attribute."""
    name = element_type(field, names)
    if field.is_array:
        name = f"list[{name}]"
    return f"{name} | None" if is_optional(field) else name


def default_value(field: SchemaField, names: ClassNames) -> str:
    """Return the default as an expression that creates a new object each time."""
    if field.default == "null" or has_none_for_default(field):
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{names.of(field.struct)}()"
    if field.default is not None:
        return _literal(field)
    zeros = {"bool": "False", "float64": "0.0", "uuid": "ZERO_UUID", "string": '""'}
    return {**zeros, "bytes": 'b""', "records": "None"}.get(field.type, "0")


def _literal(field: SchemaField) -> str:
    """Return the default of a scalar field as Python source."""
    text = field.default or ""
    if field.type == "bool":
        return text.capitalize()
    if field.type == "string":
        return repr(text)
    return repr(float(text)) if field.type == "float64" else str(int(text, 0))


def is_set(field: SchemaField, value: str, names: ClassNames) -> str:
    """Return the condition that the expression `value` is not the field's default."""
    default = default_value(field, names)
    if has_none_for_default(field):
        return f"{value} is not None and {value} != {element_type(field, names)}()"
    if default == "None":
        return f"{value} is not None"
    if field.is_array or field.type == "bytes":
        return f"{value} is None or {value}" if field.nullable else value
    if default in ("0", "False") or (default == '""' and not field.nullable):
        return value
    return f"not {value}" if default == "True" else f"{value} != {default}"


def size_min(message: MessageSchema, struct: StructSchema, version: int) -> int:
    """Return the smallest size of a struct on the wire in bytes."""
    compact = message.is_flexible(version)
    size = 1 if compact else 0
    for field in struct.fields:
        if version in field.versions and field.tag is None:
            size += _field_size_min(message, field, version, compact and not field.rigid)
    return size


def _field_size_min(message: MessageSchema, field: SchemaField, version: int, compact: bool) -> int:
    """Return the fewest bytes that the field takes on the wire.

    A length takes 1 byte if it is compact, else 2 for a string and 4 for the rest.
    """
    if field.is_array or field.type in ("bytes", "records"):
        return 1 if compact else 4
    if field.type == "string":
        return 1 if compact else 2
    if field.struct is None:
        return FIXED_SIZES[field.type]
    if field.is_nullable(version):
        return 1
    return size_min(message, field.struct, version)
