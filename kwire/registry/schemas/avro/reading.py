"""Reads the types of a schema of Avro from JSON.

The rules are those of Avro's specification, "Schema Declaration" and "Names", as strictly as Avro's
Java library applies them to a new schema: also the defaults of fields are checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from kwire.registry.schemas.avro.defaults import check_defaults
from kwire.registry.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroName,
    AvroNamedType,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    type_name,
)
from kwire.registry.schemas.json_text import Json, compact
from kwire.registry.schemas.kinds import InvalidSchemaError

NAME: Final = re.compile(r"[^\W\d]\w*")
ORDERS: Final = ("ascending", "descending", "ignore")
SHOWN_MAX: Final = 80
"""Characters of a schema that a message repeats."""
FIXED_SIZE_BYTES_MAX: Final = 2**31 - 1

TYPE_ATTRIBUTES: Final = frozenset(
    ("type", "name", "namespace", "doc", "aliases", "fields", "items", "values", "size", "symbols")
)
FIELD_ATTRIBUTES: Final = frozenset(("name", "type", "doc", "default", "order", "aliases"))


def shown(value: Json) -> str:
    """The beginning of a part of a schema, for a message."""
    text = compact(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


class AvroReader:
    """Reads schemas one after the other; each may use the names of those before it."""

    def __init__(self) -> None:
        self.names: dict[str, AvroNamedType] = {}
        """Every named type that was read, by its full name."""
        self._records: list[AvroRecord] = []

    def read(self, value: Json) -> AvroType:
        """The type of a JSON document.  Raises InvalidSchemaError."""
        found = self._type(value, "")
        check_defaults(self._records)
        self._records.clear()
        return found

    def _type(self, value: Json, namespace: str) -> AvroType:
        if isinstance(value, str):
            if value in PRIMITIVES:
                return AvroPrimitive(value, {})
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace)
        if isinstance(value, dict):
            return self._object(value, namespace)
        raise InvalidSchemaError(f"{shown(value)} is no type of Avro")

    def _named(self, name: str, namespace: str) -> AvroNamedType:
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self.names.get(full)
        if found is None:
            raise InvalidSchemaError(f'the type "{full[:SHOWN_MAX]}" is not defined')
        return found

    def _union(self, value: list[Json], namespace: str) -> AvroUnion:
        branches = [self._type(each, namespace) for each in value]
        seen: set[str] = set()
        for branch in branches:
            name = type_name(branch)
            if isinstance(branch, AvroUnion):
                raise InvalidSchemaError(f"a union is directly inside a union: {shown(value)}")
            if name in seen:
                raise InvalidSchemaError(f'a union has the type "{name}" twice: {shown(value)}')
            seen.add(name)
        return AvroUnion(branches)

    def _object(self, value: dict[str, Json], namespace: str) -> AvroType:
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"no type is given in {shown(value)}")
        match kind:
            case "record" | "error":
                return self._record(value, namespace)
            case "enum":
                return self._enum(value, namespace)
            case "fixed":
                return self._fixed(value, namespace)
            case "array":
                items = self._type(_required(value, "items"), namespace)
                return AvroArray(items, _rest(value, TYPE_ATTRIBUTES))
            case "map":
                values = self._type(_required(value, "values"), namespace)
                return AvroMap(values, _rest(value, TYPE_ATTRIBUTES))
        if kind in PRIMITIVES:
            return AvroPrimitive(kind, _rest(value, TYPE_ATTRIBUTES))
        return self._named(kind, namespace)

    # -- types with a name

    def _record(self, value: dict[str, Json], namespace: str) -> AvroRecord:
        record = AvroRecord(
            self._name(value, namespace), [], _rest(value, TYPE_ATTRIBUTES), value["type"]
        )
        self._define(record)  # before its fields, which may be of its own type
        fields = _required(value, "fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"the fields of {record.named.full} are no list")
        seen: set[str] = set()
        for each in fields:
            field = self._field(each, record.named)
            if field.name in seen:
                raise InvalidSchemaError(f"{record.named.full} has the field {field.name} twice")
            seen.add(field.name)
            record.fields.append(field)
        self._records.append(record)
        return record

    def _field(self, value: Json, record: AvroName) -> AvroField:
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"{shown(value)} is no field of {record.full}")
        name = _checked_name(value.get("name"), f"a field of {record.full}")
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            raise InvalidSchemaError(f"{shown(order)} is no order of the field {name}")
        aliases = _texts(value.get("aliases", []), f"the aliases of the field {name}")
        return AvroField(
            name=name,
            type=self._type(_required(value, "type"), record.namespace),
            default=value.get("default", NO_DEFAULT),
            doc=_doc(value),
            order=order.lower(),
            aliases=aliases,
            properties=_rest(value, FIELD_ATTRIBUTES),
        )

    def _enum(self, value: dict[str, Json], namespace: str) -> AvroEnum:
        named = self._name(value, namespace)
        symbols = _texts(_required(value, "symbols"), f"the symbols of {named.full}")
        for symbol in symbols:
            _checked_name(symbol, f"a symbol of {named.full}")
        if len(set(symbols)) < len(symbols):
            raise InvalidSchemaError(f"{named.full} has a symbol twice")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise InvalidSchemaError(f"the default {shown(default)} is no symbol of {named.full}")
        found = AvroEnum(named, symbols, default, _rest(value, TYPE_ATTRIBUTES | {"default"}))
        self._define(found)
        return found

    def _fixed(self, value: dict[str, Json], namespace: str) -> AvroFixed:
        named = self._name(value, namespace)
        size = _required(value, "size")
        if not isinstance(size, int) or isinstance(size, bool):
            raise InvalidSchemaError(f"the size of {named.full} is no number")
        if not 0 <= size <= FIXED_SIZE_BYTES_MAX:
            raise InvalidSchemaError(f"{named.full} cannot have the size {size}")
        found = AvroFixed(named, size, _rest(value, TYPE_ATTRIBUTES))
        self._define(found)
        return found

    def _name(self, value: dict[str, Json], enclosing: str) -> AvroName:
        name = value.get("name")
        if not isinstance(name, str):
            raise InvalidSchemaError(f"no name is given in {shown(value)}")
        namespace, _, simple = name.rpartition(".")
        if not namespace:
            own = value.get("namespace")
            namespace = own if isinstance(own, str) else enclosing
        _checked_name(simple, "a type")
        aliases = [
            alias if "." in alias or not namespace else f"{namespace}.{alias}"
            for alias in _texts(value.get("aliases", []), f"the aliases of {name}")
        ]
        return AvroName(simple, namespace, aliases, _doc(value))

    def _define(self, found: AvroNamedType) -> None:
        full = found.named.full
        if full in PRIMITIVES:
            raise InvalidSchemaError(f'a type cannot have the name of the primitive type "{full}"')
        if full in self.names:
            raise InvalidSchemaError(f"the type {full} is defined twice")
        self.names[full] = found


def _checked_name(name: Json, of: str) -> str:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InvalidSchemaError(f"{of} cannot have the name {shown(name)}")
    return name


def _required(value: dict[str, Json], attribute: str) -> Json:
    if attribute not in value:
        raise InvalidSchemaError(f"no {attribute} is given in {shown(value)}")
    return value[attribute]


def _texts(value: Json, of: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidSchemaError(f"{of} are no list of names")
    return list(value)


def _doc(value: dict[str, Json]) -> str | None:
    doc = value.get("doc")
    return doc if isinstance(doc, str) else None


def _rest(value: dict[str, Json], known: Collection[str]) -> dict[str, Json]:
    names: Iterable[str] = (name for name in value if name not in known)
    return {name: value[name] for name in names}
