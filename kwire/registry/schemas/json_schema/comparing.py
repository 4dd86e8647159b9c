"""Whether a reader's schema accepts what a writer's schema allowed.

Source: Confluent Schema Registry's documentation, "JSON Schema compatibility rules", with the
names of its types of errors.  A schema has an open content model if it says nothing of other
properties or items, a closed one if it forbids them, and a partially open one if it has a schema
for them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from kwire.registry.schemas.json_schema.keywords import compiled
from kwire.registry.schemas.json_schema.matching import matched
from kwire.registry.schemas.json_schema.parts import (
    AnyJson,
    ArrayPart,
    CombinedPart,
    ConstPart,
    Criterion,
    EnumPart,
    JsonSchemaPart,
    NoJson,
    NotPart,
    NumberPart,
    ObjectPart,
    OtherMembers,
    ReferencePart,
    TextPart,
)
from kwire.registry.schemas.pairs import Pairs, SchemaDifference, TooComplexError, below

if TYPE_CHECKING:
    import re2

OTHERS: Final = {
    "additionalProperties": "ADDITIONAL_PROPERTIES",
    "unevaluatedProperties": "UNEVALUATED_PROPERTIES",
    "additionalItems": "ADDITIONAL_ITEMS",
    "unevaluatedItems": "UNEVALUATED_ITEMS",
}
"""Keywords about others, and the beginnings of their types of errors."""

SEARCHES_MAX: Final = 200_000
"""Names of properties that are searched for patterns."""

STRICTER_ABOVE: Final = {
    "minLength": "MIN_LENGTH", "minimum": "MINIMUM", "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "minItems": "MIN_ITEMS", "minProperties": "MIN_PROPERTIES", "minContains": "MIN_CONTAINS",
}  # fmt: skip
"""Limits that refuse more if they grow, and the beginnings of their types of errors."""
STRICTER_BELOW: Final = {
    "maxLength": "MAX_LENGTH", "maximum": "MAXIMUM", "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "maxItems": "MAX_ITEMS", "maxProperties": "MAX_PROPERTIES", "maxContains": "MAX_CONTAINS",
}  # fmt: skip
"""Limits that refuse more if they shrink."""


class JsonSchemaComparison:
    """One comparison of two schemas."""

    def __init__(self) -> None:
        self._pairs = Pairs()
        self._searches_left = SEARCHES_MAX
        self._expressions: dict[str, re2._Regexp[str] | None] = {}
        """The patterns that were needed."""

    def differences(self, reader: JsonSchemaPart, writer: JsonSchemaPart) -> list[SchemaDifference]:
        """What the reader does not accept.  Raises TooComplexError."""
        new = reader.referred() if isinstance(reader, ReferencePart) else reader
        old = writer.referred() if isinstance(writer, ReferencePart) else writer
        return self._pairs.differences(new, old, lambda: self._compare(new, old))

    def _compare(self, reader: JsonSchemaPart, writer: JsonSchemaPart) -> list[SchemaDifference]:
        is_combined = isinstance(reader, CombinedPart)
        if is_combined != isinstance(writer, CombinedPart) and self._is_one_of(reader, writer):
            return []
        if isinstance(writer, NoJson) or isinstance(reader, AnyJson):
            return []
        if type(reader) is not type(writer):
            return [SchemaDifference("TYPE_CHANGED", ())]
        return self._same_type(reader, writer)

    def _same_type(self, reader: JsonSchemaPart, writer: JsonSchemaPart) -> list[SchemaDifference]:
        match reader, writer:
            case TextPart(), TextPart():
                return _texts(reader, writer)
            case NumberPart(), NumberPart():
                return _numbers(reader, writer)
            case EnumPart(), EnumPart():
                return _enums(reader, writer)
            case ConstPart(), ConstPart():
                return _constants(reader, writer)
            case CombinedPart(), CombinedPart():
                return self._combined(reader, writer)
            case NotPart(), NotPart():
                return self._negations(reader, writer)
            case ObjectPart(), ObjectPart():
                return self._objects(reader, writer)
            case ArrayPart(), ArrayPart():
                return self._arrays(reader, writer)
        return []

    def _negations(self, reader: NotPart, writer: NotPart) -> list[SchemaDifference]:
        """What the writer refused must include what the reader refuses."""
        if not self.differences(writer.inner, reader.inner):
            return []
        return [SchemaDifference("NOT_TYPE_EXTENDED", ("not",))]

    # -- combinations

    def _is_one_of(self, reader: JsonSchemaPart, writer: JsonSchemaPart) -> bool:
        """Whether a schema became one of several, or one of several that all hold remained."""
        if isinstance(reader, CombinedPart):
            is_choice = reader.criterion is not Criterion.ALL
            if len(reader.parts) != 1 and not is_choice:
                return False
            return any(not self.differences(part, writer) for part in reader.parts)
        assert isinstance(writer, CombinedPart)
        if len(writer.parts) != 1 and writer.criterion is not Criterion.ALL:
            return False
        return any(not self.differences(reader, part) for part in writer.parts)

    def _combined(self, reader: CombinedPart, writer: CombinedPart) -> list[SchemaDifference]:
        if not _is_wider(reader, writer):
            return [SchemaDifference("COMBINED_TYPE_CHANGED", ())]
        found: list[SchemaDifference] = []
        if reader.criterion is Criterion.ALL and len(writer.parts) < len(reader.parts):
            found.append(SchemaDifference("PRODUCT_TYPE_EXTENDED", ()))
        if reader.criterion is not Criterion.ALL and len(writer.parts) > len(reader.parts):
            found.append(SchemaDifference("SUM_TYPE_NARROWED", ()))
        edges = [
            [at for at, new in enumerate(reader.parts) if not self.differences(new, old)]
            for old in writer.parts
        ]
        if matched(edges) < min(len(reader.parts), len(writer.parts)):
            found.append(SchemaDifference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
        return found

    # -- objects

    def _objects(self, reader: ObjectPart, writer: ObjectPart) -> list[SchemaDifference]:
        return [
            *_required(reader, writer),
            *below(self._properties(reader, writer), "properties"),
            *below(self._dependencies(reader, writer), "dependencies"),
            *self._others(reader.others, writer.others),
            *_limits(reader.limits, writer.limits),
        ]

    def _properties(self, reader: ObjectPart, writer: ObjectPart) -> list[SchemaDifference]:
        found: list[SchemaDifference] = []
        for name in dict.fromkeys((*writer.properties, *reader.properties)):
            new, old = reader.properties.get(name), writer.properties.get(name)
            if new is None and old is not None:
                differences = self._removed(reader, name, old)
            elif old is None and new is not None:
                differences = self._added(reader, writer, name, new)
            else:
                assert new is not None
                assert old is not None
                differences = self.differences(new, old)
            found += below(differences, name)
        return found

    def _removed(
        self, reader: ObjectPart, name: str, old: JsonSchemaPart
    ) -> list[SchemaDifference]:
        """A property that only the writer names."""
        if reader.is_open:
            return []
        covering = self._covering(reader, name)
        if covering is not None:
            found = self.differences(covering, old)
            error = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, SchemaDifference(error, ())] if found else []
        if isinstance(old, NoJson):
            return []
        return [SchemaDifference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]

    def _added(
        self, reader: ObjectPart, writer: ObjectPart, name: str, new: JsonSchemaPart
    ) -> list[SchemaDifference]:
        """A property that only the reader names."""
        if writer.is_open:
            is_any = isinstance(new, AnyJson)
            return [] if is_any else [SchemaDifference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", ())]
        found: list[SchemaDifference] = []
        covering = self._covering(writer, name)
        if covering is not None and (differences := self.differences(new, covering)):
            error = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found += [*differences, SchemaDifference(error, ())]
        if name in reader.required and not new.has_default:
            found.append(SchemaDifference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", ()))
        return found

    def _covering(self, part: ObjectPart, name: str) -> JsonSchemaPart | None:
        """The schema of a property that is not named: of the first pattern, or of all others.

        A pattern that RE2 does not know covers no property.
        """
        self._searches_left -= len(part.patterns)
        if self._searches_left < 0:
            raise TooComplexError
        for pattern, schema in part.patterns.items():
            if pattern not in self._expressions:
                self._expressions[pattern] = compiled(pattern)
            expression = self._expressions[pattern]
            if expression is not None and expression.search(name) is not None:
                return schema
        return part.others.schema

    def _dependencies(self, reader: ObjectPart, writer: ObjectPart) -> list[SchemaDifference]:
        found: list[SchemaDifference] = []
        for name, needed in reader.required_with.items():
            before = writer.required_with.get(name)
            if before is None:
                found.append(SchemaDifference("DEPENDENCY_ARRAY_ADDED", (name,)))
            elif before < needed:
                found.append(SchemaDifference("DEPENDENCY_ARRAY_EXTENDED", (name,)))
            elif not needed <= before:
                found.append(SchemaDifference("DEPENDENCY_ARRAY_CHANGED", (name,)))
        for name, new in reader.schema_with.items():
            old = writer.schema_with.get(name)
            if old is None:
                found.append(SchemaDifference("DEPENDENCY_SCHEMA_ADDED", (name,)))
            else:
                found += below(self.differences(new, old), name)
        return found

    # -- arrays

    def _arrays(self, reader: ArrayPart, writer: ArrayPart) -> list[SchemaDifference]:
        found = below(self._each(reader, writer), "items")
        for index in range(max(len(reader.first), len(writer.first))):
            found += below(self._item(reader, writer, index), f"items/{index}")
        found += self._others(reader.others, writer.others)
        found += _limits(reader.limits, writer.limits)
        if reader.is_unique and not writer.is_unique:
            found.append(SchemaDifference("UNIQUE_ITEMS_ADDED", ("uniqueItems",)))
        return found

    def _each(self, reader: ArrayPart, writer: ArrayPart) -> list[SchemaDifference]:
        if reader.each is None:
            return []
        if writer.each is None:
            return [SchemaDifference("SCHEMA_ADDED", ())]
        return self.differences(reader.each, writer.each)

    def _item(self, reader: ArrayPart, writer: ArrayPart, index: int) -> list[SchemaDifference]:
        """The item at an index, for which at least one of both has a schema."""
        if index >= len(reader.first):
            return self._item_removed(reader, writer.first[index])
        new = reader.first[index]
        if index < len(writer.first):
            return self.differences(new, writer.first[index])
        if writer.is_open:
            is_any = isinstance(new, AnyJson)
            return [] if is_any else [SchemaDifference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", ())]
        covering = writer.others.schema
        if covering is not None and (found := self.differences(new, covering)):
            error = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, SchemaDifference(error, ())]
        return []

    def _item_removed(self, reader: ArrayPart, old: JsonSchemaPart) -> list[SchemaDifference]:
        if reader.is_open:
            return []
        if reader.others.schema is not None:
            found = self.differences(reader.others.schema, old)
            error = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, SchemaDifference(error, ())] if found else []
        if isinstance(old, NoJson):
            return []
        return [SchemaDifference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", ())]

    def _others(self, reader: OtherMembers, writer: OtherMembers) -> list[SchemaDifference]:
        """What is said of other properties or items."""
        keyword = reader.keyword
        if reader.are_permitted != writer.are_permitted:
            if reader.are_permitted:
                return []
            return [SchemaDifference(f"{OTHERS[keyword]}_REMOVED", (keyword,))]
        if reader.schema is None:
            return []
        if writer.schema is None:
            return [SchemaDifference(f"{OTHERS[keyword]}_NARROWED", (keyword,))]
        return below(self.differences(reader.schema, writer.schema), keyword)


def _is_wider(reader: CombinedPart, writer: CombinedPart) -> bool:
    """Whether what the writer's combination accepts may be accepted by the reader's."""
    match reader.criterion:
        case writer.criterion | Criterion.ANY:
            return True
        case Criterion.ONE:
            return len(writer.parts) == 1
    return len(writer.parts) == 1 and len(reader.parts) == 1


def _required(reader: ObjectPart, writer: ObjectPart) -> list[SchemaDifference]:
    """Properties that both name, and that only the reader demands."""
    return [
        SchemaDifference("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
        for name in writer.properties
        if name in reader.properties
        and name in reader.required - writer.required
        and not reader.properties[name].has_default
    ]


def _limits(
    reader: dict[str, int | float], writer: dict[str, int | float]
) -> list[SchemaDifference]:
    """Limits that refuse more than before."""
    found = []
    for name, limit in reader.items():
        is_lower = name in STRICTER_ABOVE
        error = STRICTER_ABOVE[name] if is_lower else STRICTER_BELOW[name]
        before = writer.get(name)
        if before is None:
            found.append(SchemaDifference(f"{error}_ADDED", (name,)))
        elif is_lower and limit > before:
            found.append(SchemaDifference(f"{error}_INCREASED", (name,)))
        elif not is_lower and limit < before:
            found.append(SchemaDifference(f"{error}_DECREASED", (name,)))
    return found


def _texts(reader: TextPart, writer: TextPart) -> list[SchemaDifference]:
    found = _limits(reader.limits, writer.limits)
    if reader.pattern is not None and reader.pattern != writer.pattern:
        change = "ADDED" if writer.pattern is None else "CHANGED"
        found.append(SchemaDifference(f"PATTERN_{change}", ("pattern",)))
    return found


def _numbers(reader: NumberPart, writer: NumberPart) -> list[SchemaDifference]:
    found = _limits(reader.limits, writer.limits)
    if reader.multiple_of is not None:
        change = _change_of_step(reader.multiple_of, writer.multiple_of)
        if change is not None:
            found.append(SchemaDifference(f"MULTIPLE_OF_{change}", ("multipleOf",)))
    if reader.is_whole and not writer.is_whole:
        found.append(SchemaDifference("TYPE_NARROWED", ()))
    return found


def _change_of_step(reader: float, writer: float | None) -> str | None:
    """How `multipleOf` refuses more than before, None if it does not."""
    if writer is None:
        return "ADDED"
    new, old = Fraction(str(reader)), Fraction(str(writer))
    if old % new == 0:
        return None
    return "EXPANDED" if new % old == 0 else "CHANGED"


def _constants(reader: ConstPart, writer: ConstPart) -> list[SchemaDifference]:
    if reader.value == writer.value:
        return []
    return [SchemaDifference("ENUM_ARRAY_CHANGED", ("const",))]


def _enums(reader: EnumPart, writer: EnumPart) -> list[SchemaDifference]:
    if writer.values <= reader.values:
        return []
    change = "NARROWED" if reader.values < writer.values else "CHANGED"
    return [SchemaDifference(f"ENUM_ARRAY_{change}", ("enum",))]
