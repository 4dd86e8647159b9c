"""Reads a schema of JSON Schema into parts.

Source: JSON Schema's meta-schemas, and for what belongs together Confluent's registry: keywords
beside `type` belong to that type; others make parts of their own; and beside `$ref` nothing counts
before draft 2019-09.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.registry.schemas.json_schema.keywords import check_keywords, invalid, is_number
from kwire.registry.schemas.json_schema.parts import (
    AnyJson,
    ArrayPart,
    BooleanPart,
    CombinedPart,
    ConditionalPart,
    ConstPart,
    Criterion,
    EnumPart,
    JsonSchemaPart,
    NoJson,
    NotPart,
    NullPart,
    NumberPart,
    ObjectPart,
    OtherMembers,
    ReferencePart,
    TextPart,
)
from kwire.registry.schemas.json_schema.resolving import Documents, Spot
from kwire.registry.schemas.json_text import Json, compact
from kwire.registry.schemas.kinds import InvalidSchemaError

TEXT_KEYWORDS: Final = frozenset(("minLength", "maxLength", "pattern", "format"))
NUMBER_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
NUMBER_KEYWORDS: Final = frozenset((*NUMBER_LIMITS, "multipleOf"))
ARRAY_KEYWORDS: Final = frozenset(
    ("items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems",
     "uniqueItems", "contains", "minContains", "maxContains")
)  # fmt: skip
ARRAY_LIMITS: Final = ("minItems", "maxItems")
MODERN_ARRAY_LIMITS: Final = (*ARRAY_LIMITS, "minContains", "maxContains")
OBJECT_KEYWORDS: Final = frozenset(
    ("properties", "required", "minProperties", "maxProperties", "additionalProperties",
     "unevaluatedProperties", "patternProperties", "dependencies", "dependentRequired",
     "dependentSchemas", "propertyNames")
)  # fmt: skip
CONDITIONAL_KEYWORDS: Final = frozenset(("if", "then", "else"))
UNREAD: Final = ("contains", "propertyNames", "if", "then", "else")
"""Keywords with a schema that has to be valid, and that a comparison does not look into."""
PARTS_MAX: Final = 200_000
"""Schemas of a document and of those that it refers to."""
PATTERNS_MAX: Final = 500
"""Different patterns, each of which is compiled to be checked."""


class JsonSchemaReader:
    """Reads one schema and what it refers to.  Each place of a document becomes one part."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._referred: dict[int, JsonSchemaPart] = {}
        """The parts of places that were referred to, by the identity of their JSON."""
        self._waiting: list[tuple[ReferencePart, Spot]] = []
        self._count = 0
        self._patterns: set[str] = set()

    def read(self) -> JsonSchemaPart:
        """The part of the whole schema.  Raises InvalidSchemaError."""
        root = self._documents.root
        found = self._part(root.value, root)
        if isinstance(root.value, dict):
            self._referred[id(root.value)] = found
        while self._waiting:
            reference, spot = self._waiting.pop()
            known = self._referred.get(id(spot.value)) if isinstance(spot.value, dict) else None
            if known is None:
                known = self._part(spot.value, spot)
                if isinstance(spot.value, dict):
                    self._referred[id(spot.value)] = known
            reference.target = known
        return found

    def _part(self, value: Json, spot: Spot) -> JsonSchemaPart:
        """The part of a schema inside a place."""
        self._count += 1
        if self._count > PARTS_MAX:
            raise InvalidSchemaError(f"the schema has more than {PARTS_MAX:,} parts")
        if isinstance(value, bool):
            return AnyJson() if value else NoJson()
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"{compact(value)[:80]} is no schema")
        if spot.value is not value:
            spot = self._documents.inside(value, spot)
        self._count_patterns(value)
        check_keywords(value)
        for name in UNREAD:
            if name in value:
                self._part(value[name], spot)
        found = self._parts(value, spot)
        match found:
            case []:
                part: JsonSchemaPart = AnyJson()
            case [single]:
                part = single
            case _:
                part = CombinedPart(Criterion.ALL, found)
        part.has_default = "default" in value
        return part

    def _count_patterns(self, value: dict[str, Json]) -> None:
        for each in (value.get("pattern"), *(value.get("patternProperties") or ())):
            if isinstance(each, str):
                self._patterns.add(each)
        if len(self._patterns) > PATTERNS_MAX:
            raise InvalidSchemaError(f"the schema has more than {PATTERNS_MAX} patterns")

    def _parts(self, value: dict[str, Json], spot: Spot) -> list[JsonSchemaPart]:
        """What a schema demands, one part for each type and each combination."""
        reference = value.get("$ref", value.get("$dynamicRef") if spot.is_modern else None)
        found: list[JsonSchemaPart] = []
        if isinstance(reference, str):
            found.append(self._reference(reference, spot))
            if not spot.is_modern:
                return found
        if "enum" in value:
            values = frozenset(compact(each, is_sorted=True) for each in value["enum"])
            found.append(EnumPart(values))
        found += [self._combined(each, value[each], spot) for each in Criterion if each in value]
        if "not" in value:
            found.append(NotPart(self._part(value["not"], spot)))
        if "const" in value:
            found.append(ConstPart(compact(value["const"], is_sorted=True)))
        rest = dict(value)
        if "type" in value:
            found.append(self._of_types(rest, spot))
        return found + self._of_keywords(rest, spot)

    def _reference(self, reference: str, spot: Spot) -> ReferencePart:
        found = ReferencePart()
        target = self._documents.find(reference, spot.base)
        if target is None:
            found.target = AnyJson()
        else:
            self._waiting.append((found, target))
        return found

    def _combined(self, criterion: Criterion, value: Json, spot: Spot) -> CombinedPart:
        if not isinstance(value, list):
            raise invalid(criterion, value)
        once = {compact(each, is_sorted=True): each for each in value}
        return CombinedPart(criterion, [self._part(each, spot) for each in once.values()])

    # -- types

    def _of_types(self, rest: dict[str, Json], spot: Spot) -> JsonSchemaPart:
        """The part of `type`.  Keywords that belong to a type are taken out of `rest`."""
        types = rest.pop("type")
        if isinstance(types, str):
            return self._of_type(types, rest, spot)
        parts = [self._of_type(each, rest, spot) for each in dict.fromkeys(types)]
        return CombinedPart(Criterion.ANY, parts)

    def _of_type(self, name: str, rest: dict[str, Json], spot: Spot) -> JsonSchemaPart:
        match name:
            case "null":
                return NullPart()
            case "boolean":
                return BooleanPart()
            case "string":
                return _text(_taken(rest, TEXT_KEYWORDS))
            case "number" | "integer":
                return _number(_taken(rest, NUMBER_KEYWORDS), is_whole=name == "integer")
            case "array":
                return self._array(_taken(rest, ARRAY_KEYWORDS), spot)
        return self._object(_taken(rest, OBJECT_KEYWORDS), spot)

    def _of_keywords(self, rest: dict[str, Json], spot: Spot) -> list[JsonSchemaPart]:
        """The parts of keywords that are not beside the type to which they belong."""
        found: list[JsonSchemaPart] = []
        if ARRAY_KEYWORDS & rest.keys():
            found.append(self._array(rest, spot))
        if OBJECT_KEYWORDS & rest.keys():
            found.append(self._object(rest, spot))
        if NUMBER_KEYWORDS & rest.keys():
            found.append(_number(rest, is_whole=False))
        if TEXT_KEYWORDS & rest.keys():
            found.append(_text(rest))
        if CONDITIONAL_KEYWORDS & rest.keys():
            found.append(ConditionalPart())
        return found

    def _array(self, value: dict[str, Json], spot: Spot) -> ArrayPart:
        """A list.  Since draft 2020-12 the first items are `prefixItems`, and `items` the rest."""
        items = value.get("items")
        first, more = value.get("prefixItems"), items
        if not (spot.is_modern and isinstance(first, list)):
            first = items if isinstance(items, list) else []
            more = value.get("additionalItems")
        each = items if "items" in value and not first and not isinstance(items, list) else None
        if not isinstance(first, list):
            raise invalid("prefixItems", first)
        return ArrayPart(
            limits=_limits(value, MODERN_ARRAY_LIMITS if spot.is_modern else ARRAY_LIMITS),
            is_unique=value.get("uniqueItems", False),
            each=None if each is None else self._part(each, spot),
            first=[self._part(item, spot) for item in first],
            others=self._others("additionalItems", more, "unevaluatedItems", value, spot),
        )

    def _others(
        self, keyword: str, more: Json, unevaluated: str, value: dict[str, Json], spot: Spot
    ) -> OtherMembers:
        """What is said of others: by a keyword, or since draft 2019-09 by what is left over."""
        if more is None and spot.is_modern and unevaluated in value:
            keyword, more = unevaluated, value[unevaluated]
        is_plain = more is None or isinstance(more, bool)
        return OtherMembers(
            keyword, more is not False, None if is_plain else self._part(more, spot)
        )

    def _object(self, value: dict[str, Json], spot: Spot) -> ObjectPart:
        more = value.get("additionalProperties")
        required_with, schema_with = self._dependencies(value, spot)
        return ObjectPart(
            limits=_limits(value, ("minProperties", "maxProperties")),
            properties=self._schemas(value, "properties", spot),
            required=frozenset(value.get("required", ())),
            patterns=self._schemas(value, "patternProperties", spot),
            others=self._others("additionalProperties", more, "unevaluatedProperties", value, spot),
            required_with=required_with,
            schema_with=schema_with,
        )

    def _schemas(self, value: dict[str, Json], name: str, spot: Spot) -> dict[str, JsonSchemaPart]:
        """The schemas of a keyword that has several by name."""
        found = value.get(name, {})
        if not isinstance(found, dict):
            raise invalid(name, found)
        return {key: self._part(each, spot) for key, each in found.items()}

    def _dependencies(
        self, value: dict[str, Json], spot: Spot
    ) -> tuple[dict[str, frozenset[str]], dict[str, JsonSchemaPart]]:
        """What must hold if a property is there: other properties, or a schema."""
        names: dict[str, frozenset[str]] = {}
        schemas = self._schemas(value, "dependentSchemas", spot)
        for keyword in ("dependencies", "dependentRequired"):
            found = value.get(keyword, {})
            if not isinstance(found, dict):
                raise invalid(keyword, found)
            for name, each in found.items():
                if not isinstance(each, list):
                    schemas[name] = self._part(each, spot)
                elif all(isinstance(other, str) for other in each):
                    names[name] = frozenset(each)
                else:
                    raise invalid(keyword, found)
        return names, schemas


def _taken(rest: dict[str, Json], names: frozenset[str]) -> dict[str, Json]:
    """Some keywords, which are removed from the others."""
    return {name: rest.pop(name) for name in list(rest) if name in names}


def _limits(value: Mapping[str, Json], names: tuple[str, ...]) -> dict[str, int | float]:
    return {name: value[name] for name in names if is_number(value.get(name))}


def _text(value: dict[str, Json]) -> TextPart:
    return TextPart(_limits(value, ("minLength", "maxLength")), value.get("pattern"))


def _number(value: dict[str, Json], *, is_whole: bool) -> NumberPart:
    return NumberPart(_limits(value, NUMBER_LIMITS), value.get("multipleOf"), is_whole)
