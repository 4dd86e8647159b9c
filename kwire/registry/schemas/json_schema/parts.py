"""What a schema of JSON Schema demands, one class for each type.

A schema without `type` says what holds if a value has a type, and several such things at once.
Confluent's registry takes each of them as a part of its own, and all of them as an `allOf`; so that
the same changes are compatible, the parts are the same here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Criterion(StrEnum):
    """How many of several schemas a value must agree with."""

    ALL = "allOf"
    ANY = "anyOf"
    ONE = "oneOf"


@dataclass(slots=True, eq=False)
class JsonPart:
    """What all parts have."""

    has_default: bool = field(default=False, kw_only=True)


@dataclass(slots=True, eq=False)
class AnyJson(JsonPart):
    """Accepts everything: `{}` and `true`."""


@dataclass(slots=True, eq=False)
class NoJson(JsonPart):
    """Accepts nothing: `false`."""


@dataclass(slots=True, eq=False)
class NullPart(JsonPart):
    """Accepts null."""


@dataclass(slots=True, eq=False)
class BooleanPart(JsonPart):
    """Accepts true and false."""


@dataclass(slots=True, eq=False)
class TextPart(JsonPart):
    """A text.  Its limits are `minLength` and `maxLength`."""

    limits: dict[str, int | float]
    pattern: str | None


@dataclass(slots=True, eq=False)
class NumberPart(JsonPart):
    """A number.  Its limits are those that have a keyword, such as `minimum`."""

    limits: dict[str, int | float]
    multiple_of: int | float | None
    is_whole: bool


@dataclass(slots=True, eq=False)
class EnumPart(JsonPart):
    """One of some values, each as a text of JSON."""

    values: frozenset[str]


@dataclass(slots=True, eq=False)
class ConstPart(JsonPart):
    """One value, as a text of JSON."""

    value: str


@dataclass(slots=True, eq=False)
class NotPart(JsonPart):
    """What another schema does not accept."""

    inner: JsonSchemaPart


@dataclass(slots=True, eq=False)
class ConditionalPart(JsonPart):
    """`if`, `then`, `else`.  Confluent's registry does not look into them."""


@dataclass(slots=True, eq=False)
class CombinedPart(JsonPart):
    """Several schemas, each of which is there once."""

    criterion: Criterion
    parts: list[JsonSchemaPart]


class OtherMembers(NamedTuple):
    """What is said of properties or items that have no schema of their own."""

    keyword: str
    """The keyword that says it, such as `additionalProperties` or `unevaluatedItems`."""
    are_permitted: bool
    schema: JsonSchemaPart | None
    """What they have to be; None if they may be anything."""

    @property
    def are_open(self) -> bool:
        """Whether they may be there, and may be anything."""
        return self.are_permitted and self.schema is None


@dataclass(slots=True, eq=False)
class ArrayPart(JsonPart):
    """A list.  Its limits are `minItems`, `maxItems`, `minContains` and `maxContains`."""

    limits: dict[str, int | float]
    is_unique: bool
    each: JsonSchemaPart | None
    """What all items are."""
    first: list[JsonSchemaPart]
    """What the first items are, one after the other."""
    others: OtherMembers
    """What the items after the first ones may be."""

    @property
    def is_open(self) -> bool:
        """Whether any item may follow the first ones."""
        return self.others.are_open


@dataclass(slots=True, eq=False)
class ObjectPart(JsonPart):
    """An object.  Its limits are `minProperties` and `maxProperties`."""

    limits: dict[str, int | float]
    properties: dict[str, JsonSchemaPart]
    required: frozenset[str]
    patterns: dict[str, JsonSchemaPart]
    others: OtherMembers
    """What properties may be that are not named."""
    required_with: dict[str, frozenset[str]]
    """Properties that must be there if another one is."""
    schema_with: dict[str, JsonSchemaPart]
    """A schema that must hold if a property is there."""

    @property
    def is_open(self) -> bool:
        """Whether any property may be there that is not named."""
        return not self.patterns and self.others.are_open


@dataclass(slots=True, eq=False)
class ReferencePart(JsonPart):
    """`$ref`: another schema of the same or another document, which may be around this one."""

    target: JsonSchemaPart | None = None

    def referred(self) -> JsonSchemaPart:
        """The schema at the end of references to references; everything if they go in a circle."""
        seen: set[int] = set()
        found: JsonSchemaPart | None = self
        while isinstance(found, ReferencePart) and id(found) not in seen:
            seen.add(id(found))
            found = found.target
        return AnyJson() if found is None or isinstance(found, ReferencePart) else found


JsonSchemaPart: TypeAlias = (
    "AnyJson | NoJson | NullPart | BooleanPart | TextPart | NumberPart | EnumPart | ConstPart"
    " | NotPart | ConditionalPart | CombinedPart | ArrayPart | ObjectPart | ReferencePart"
)
