"""Messages as JSON, in the form of Apache Kafka's JsonConverter classes.

Field names are camelCase.  Bytes and records are base64; uuids are Kafka's URL-safe base64 without
padding.  Fields that the version lacks and tagged fields at their defaults are left out.  Every
other field is mandatory.  If JSON has a field that the version lacks, encoding drops it or refuses
it, as in Kafka.

This form is for people and tests, not for speed: it interprets the schema.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias, cast

from kwire.codecs import primitives
from kwire.codecs.messages import MODULES, message_class
from kwire.codecs.schema_notation import ClassNames, MessageSchema, SchemaField, StructSchema, load
from kwire.codecs.uuids import uuid_bytes, uuid_text

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


class JsonFormError(ValueError):
    """The JSON does not fit the message.  The text names the field and the fault."""


def to_json(message: primitives.Message, version: int) -> dict[str, Json]:
    """A message as JSON of a version.  Raises EncodeError if encoding does."""
    name = type(message).__name__
    if version not in _schema(name)[0].versions:
        raise primitives.EncodeError(f"{name} has no version {version}")
    return _Converter(name, version).struct_to_json(message, _schema(name)[0].body)


def from_json(name: str, json: Json, version: int) -> primitives.Message:
    """Return the message of that name in the schema.

    Raises KeyError for an unknown name, and JsonFormError.
    """
    schema = _schema(name)[0]
    if version not in schema.versions:
        raise JsonFormError(f"{name} has no version {version}")
    message = _Converter(name, version).struct_from_json(json, schema.body)
    assert isinstance(message, primitives.Message)
    return message


def normalized(name: str, json: Json, version: int) -> Json:
    """JSON that `from_json` takes, in the form of `to_json`: without tagged fields that are given
    their default and ignorable fields that the version lacks. Unknown members stay.
    """
    return _Converter(name, version).normalized(json, _schema(name)[0].body)


@cache
def _schema(name: str) -> tuple[MessageSchema, ClassNames]:
    messages = load(MODULES[name].replace(".", "/"))
    (message,) = (each for each in messages if each.name == name)
    return message, ClassNames(messages)


class _Converter:
    def __init__(self, name: str, version: int) -> None:
        self.version = version
        self.schema, self.names = _schema(name)
        self.module = __import__(message_class(name).__module__, fromlist=["*"])

    def _class(self, struct: StructSchema) -> type[primitives.Struct]:
        found: type[primitives.Struct] = getattr(self.module, self.names.of(struct))
        return found

    # ---- to JSON

    def struct_to_json(self, value: primitives.Struct, struct: StructSchema) -> dict[str, Json]:
        """Return the struct as JSON; tagged fields with their defaults are left out.

        Raises an error if a field is set that this version lacks, unless it is ignorable.
        """
        json: dict[str, Json] = {}
        defaults = self._class(struct)()
        for field in struct.fields:
            item = getattr(value, field.attribute)
            is_there = self.version in field.versions
            if is_there and field.tag is None:
                json[field.json_name] = self._to_json(item, field)
            elif self._is_default(item, getattr(defaults, field.attribute), field):
                continue
            elif is_there:
                json[field.json_name] = self._to_json(item, field)
            elif not field.ignorable:
                raise primitives.refuse(f"{struct.name}.{field.attribute}")
        return json

    def _is_default(self, value: object, default: object, field: SchemaField) -> bool:
        """Return whether the value of a field is its default, which may be a struct."""
        if value == default:
            return True
        is_struct = field.struct is not None and not field.is_array
        # None stands for a struct of defaults here
        return is_struct and default is None and not field.nullable and value == self._empty(field)

    def _empty(self, field: SchemaField) -> primitives.Struct:
        assert field.struct is not None
        return self._class(field.struct)()

    def _to_json(self, value: object, field: SchemaField) -> Json:
        """Return the value of a field as JSON."""
        if value is None:
            return None
        if isinstance(value, list):
            return [self._element_to_json(element, field) for element in value]
        return self._element_to_json(value, field)

    def _element_to_json(self, value: object, field: SchemaField) -> Json:
        """Return one value that is not null as JSON; bytes and records become base64.

        JSON has no infinity or NaN, so they become text.
        """
        if isinstance(value, primitives.Struct):
            assert field.struct is not None
            return self.struct_to_json(value, field.struct)
        if isinstance(value, bytes | bytearray | memoryview):
            if field.type == "uuid":
                return uuid_text(bytes(value))
            return b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value):
            return _non_finite(value)
        if isinstance(value, bool | int | float | str):
            return value
        region: primitives.FileRegion = cast("primitives.FileRegion", value)
        return b64encode(region.read()).decode()

    # ---- from JSON

    def struct_from_json(self, json: Json, struct: StructSchema) -> primitives.Struct:
        """Return the struct that the JSON object describes; unknown fields are ignored.

        Raises JsonFormError if a field is missing that is not tagged, or has the wrong type.
        """
        if not isinstance(json, Mapping):
            raise JsonFormError(f"{struct.name} is not an object: {shortened(json)}")
        value = self._class(struct)()
        for field in struct.fields:
            name = f"{struct.name}.{field.json_name}"
            if field.json_name in json:
                item = self._from_json(json[field.json_name], field, name)
                setattr(value, field.attribute, item)
            elif self.version in field.versions and field.tag is None:
                raise JsonFormError(f"{name} is missing")
        return value

    def normalized(self, json: Json, struct: StructSchema) -> Json:
        """Return the JSON without the fields that would not be sent in this version.

        These are fields of other versions, and tagged fields with their defaults. Unknown fields
        stay, so that a comparison finds them.
        """
        if not isinstance(json, dict):
            return json
        fields = {field.json_name: field for field in struct.fields}
        defaults = self._class(struct)()
        kept: dict[str, Json] = {}
        for name, item in json.items():
            field = fields.get(name)
            if field is None:
                kept[name] = item
            elif self.version not in field.versions:
                continue
            elif field.tag is None or not self._is_default(
                self._from_json(item, field, name), getattr(defaults, field.attribute), field
            ):
                kept[name] = self._normalized_field(item, field)
        return kept

    def _normalized_field(self, json: Json, field: SchemaField) -> Json:
        if field.struct is None:
            return json
        if field.is_array and isinstance(json, list):
            return [self.normalized(element, field.struct) for element in json]
        return self.normalized(json, field.struct)

    def _from_json(self, json: Json, field: SchemaField, name: str) -> object:
        """Return the value of a field; `name` is for errors. Raises JsonFormError."""
        if json is None and (field.nullable is not None or field.type == "records"):
            return None
        if not field.is_array:
            return self._element_from_json(json, field, name)
        if not isinstance(json, list):
            raise JsonFormError(f"{name} is not an array: {shortened(json)}")
        return [self._element_from_json(element, field, name) for element in json]

    def _element_from_json(self, json: Json, field: SchemaField, name: str) -> object:
        """Return one value of a field that is not null. Raises JsonFormError."""
        if field.struct is not None:
            return self.struct_from_json(json, field.struct)
        value = _scalar_from_json(json, field.type)
        if value is None:
            raise JsonFormError(f"{name} is not of type {field.type}: {shortened(json)}")
        return value


def _scalar_from_json(json: Json, type_name: str) -> object:
    """Return the value of a scalar field, or None if the JSON is not of its type."""
    if type_name == "bool":
        return json if isinstance(json, bool) else None
    if type_name in _RANGES:
        first, last = _RANGES[type_name]
        if not isinstance(json, int) or isinstance(json, bool):
            return None
        return json if first <= json <= last else None
    if type_name == "float64":
        return _float_from_json(json)
    if not isinstance(json, str):
        return None
    if type_name == "string":
        return json
    return _uuid_from_json(json) if type_name == "uuid" else _bytes_from_json(json)


def _float_from_json(json: Json) -> float | None:
    if isinstance(json, str):
        return float(json) if json in ("NaN", "Infinity", "-Infinity") else None
    return float(json) if isinstance(json, int | float) and not isinstance(json, bool) else None


def _non_finite(value: float) -> str:
    """The string that Jackson writes for a number which JSON has no form for."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _uuid_from_json(json: str) -> bytes | None:
    try:
        return uuid_bytes(json)
    except ValueError:
        return None


def _bytes_from_json(json: str) -> bytes | None:
    try:
        return b64decode(json, validate=True)
    except (binascii.Error, ValueError):
        return None


def shortened(json: Json) -> str:
    """JSON for a message to a person, cut after 60 characters."""
    text = repr(json)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_difference(expected: Json, found: Json, path: str = "$") -> str | None:
    """Return a text about the first place where two JSON values differ, or None.

    True is not 1. The order of an object's fields does not count.
    """
    if isinstance(expected, float) and not math.isfinite(expected):
        expected = _non_finite(expected)
    if isinstance(expected, dict) and isinstance(found, dict):
        return _first_difference_in_dicts(expected, found, path)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        differences = (
            first_difference(a, b, f"{path}[{index}]")
            for index, (a, b) in enumerate(zip(expected, found, strict=True))
        )
        return next((each for each in differences if each is not None), None)
    if expected == found and isinstance(expected, bool) == isinstance(found, bool):
        return None
    return f"{path} is {shortened(found)}, expected {shortened(expected)}"


def _first_difference_in_dicts(
    expected: dict[str, Json], found: dict[str, Json], path: str
) -> str | None:
    """Return a text about the first field that differs, or None; `path` leads to the dict."""
    for name, value in expected.items():
        if name not in found:
            return f"{path}.{name} is missing, expected {shortened(value)}"
        difference = first_difference(value, found[name], f"{path}.{name}")
        if difference is not None:
            return difference
    for name, value in found.items():
        if name not in expected:
            return f"{path}.{name} is {shortened(value)}, expected nothing"
    return None
