"""Writes the types of Avro as JSON.

The order of attributes is that of Avro's Java library, in which Confluent's registry keeps its
schemas, so that a subject does not get a second version when a registry is handed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
)
from kwire.registry.schemas.json_text import Json

COMPLEX: Final = ("array", "map", "union", "record", "enum", "fixed")
LOGICAL: Final = ("logicalType", "precision", "scale")


class AvroPrinter:
    """Writes types; each named type once in full, and then by its name."""

    def __init__(self, known: Iterable[str] = (), *, is_normal: bool = False) -> None:
        """`known` has the full names of types that are not written in full.

        With `is_normal`, what has no order is sorted.
        """
        self._known = set(known)
        self._is_normal = is_normal

    def json(self, found: AvroType, namespace: str = "") -> Json:
        """The JSON of a type inside a type of this namespace."""
        match found:
            case AvroPrimitive():
                properties = self._properties(found)
                return {"type": found.kind, **properties} if properties else found.kind
            case AvroArray():
                items = self.json(found.items, namespace)
                return {"type": "array", "items": items, **self._properties(found)}
            case AvroMap():
                values = self.json(found.values, namespace)
                return {"type": "map", "values": values, **self._properties(found)}
            case AvroUnion():
                return [self.json(each, namespace) for each in found.branches]
        if found.named.full in self._known:
            return _name_inside(found.named, namespace)
        self._known.add(found.named.full)
        return self._named(found, namespace)

    def _named(self, found: AvroNamedType, namespace: str) -> Json:
        named = found.named
        value: dict[str, Json] = {"type": found.kind, "name": named.name}
        if named.namespace != namespace:
            value["namespace"] = named.namespace
        if named.doc is not None and not (self._is_normal and not named.doc):
            value["doc"] = named.doc
        match found:
            case AvroRecord():
                value["fields"] = [self._field(each, named.namespace) for each in found.fields]
            case AvroEnum():
                value["symbols"] = found.symbols
                if found.default is not None:
                    value["default"] = found.default
            case AvroFixed():
                value["size"] = found.size_bytes
        value.update(self._properties(found))
        if named.aliases:
            aliases = [_alias_inside(alias, named.namespace) for alias in named.aliases]
            value["aliases"] = self._in_order(aliases)
        return value

    def _field(self, field: AvroField, namespace: str) -> Json:
        value: dict[str, Json] = {"name": field.name, "type": self.json(field.type, namespace)}
        if field.doc is not None:
            value["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            value["default"] = _sorted(field.default) if self._is_normal else field.default
        if field.order != "ascending":
            value["order"] = field.order
        if field.aliases:
            value["aliases"] = self._in_order(field.aliases)
        names = sorted(field.properties) if self._is_normal else field.properties
        value.update((name, self._value(field.properties[name])) for name in names)
        return value

    def _properties(self, found: AvroPrimitive | AvroArray | AvroMap | AvroNamedType) -> Json:
        """The other attributes; those of a logical type come first where it has a meaning."""
        own = found.properties
        if not self._is_normal:
            return own
        is_logical = "logicalType" in own and isinstance(found, AvroPrimitive | AvroFixed)
        first = [name for name in LOGICAL if name in own] if is_logical else []
        rest = sorted(name for name in own if name not in first)
        return {name: self._value(own[name]) for name in (*first, *rest)}

    def _value(self, value: Json) -> Json:
        return _sorted(value) if self._is_normal else value

    def _in_order(self, names: list[str]) -> list[str]:
        return sorted(set(names)) if self._is_normal else names


def _name_inside(named: AvroName, namespace: str) -> str:
    """The name of a type inside a type of this namespace."""
    is_type = named.name in PRIMITIVES or named.name in COMPLEX
    return named.name if named.namespace == namespace and not is_type else named.full


def _alias_inside(alias: str, namespace: str) -> str:
    own, _, simple = alias.rpartition(".")
    return simple if own and own == namespace else alias


def _sorted(value: Json) -> Json:
    """JSON with the keys of its objects in order."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    return value
