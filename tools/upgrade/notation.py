"""Kafka's JSON schema of a message in the notation of `codecs/schema`.

Both describe the same message.  Kafka's JSON keeps the versions of fields that were there before
the lowest valid version; the notation has only what a valid version can send, and leaves out
what follows from rules (see `codecs/schema_notation.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tools.upgrade.jars import JsonObject, JsonSchema

KINDS: Final = {"coordinator-key": "key", "coordinator-value": "value"}
"""Kafka's names for kinds of messages that have another name in the notation."""

IMPLICIT_DEFAULTS: Final = frozenset({"", "0", "0.0", "false"})
"""Defaults that the notation leaves out."""

_LAST: Final = 1 << 15  # above every version, which is an int16
_RANGE = re.compile(r"(\d+)(?:(\+)|-(\d+))?")


class NotationError(ValueError):
    """A schema says something that the notation cannot express.  The text names the field."""


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; it is empty if `last` is below `first`."""

    first: int
    last: int

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    @property
    def empty(self) -> bool:
        return self.last < self.first

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS: Final = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """The range that Kafka writes as `3+`, `3-5`, `3` or `none`."""
    if text == "none":
        return NO_VERSIONS
    match = _RANGE.fullmatch(text)
    if match is None:
        raise NotationError(f"not a range of versions: {text}")
    first = int(match[1])
    return Versions(first, _LAST if match[2] else int(match[3] or first))


@dataclass(slots=True)
class SchemaLine:
    """One line of the notation, with the lines indented under it."""

    name: str
    """What the line declares: a message, a field, or `struct X`."""
    text: str
    versions: Versions
    below: list[SchemaLine] = field(default_factory=list)
    about: str = ""
    """What Kafka says the field is, which the notation leaves out."""
    is_map_key: bool = False
    """Whether Kafka keeps the array that has the field as a map, by its values."""

    def walk(self, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], SchemaLine]]:
        """This line and all lines below it, each with the names that lead to it."""
        path = (*above, self.name)
        yield path, self
        for line in self.below:
            yield from line.walk(path)


def message_lines(schema: JsonSchema) -> SchemaLine | None:
    """The lines of a message, or None if Kafka has no valid version of it left."""
    json = schema.json
    versions = parse_versions(json["validVersions"])
    if versions.empty:
        return None
    kind = KINDS.get(json["type"], json["type"])
    number = f" {json['apiKey']}" if "apiKey" in json else ""
    flexible = parse_versions(json["flexibleVersions"])
    since = "" if flexible.empty else f", flexible {flexible.first}+"
    head = f"{kind}{number} {schema.name}, versions {versions}{since}"
    line = SchemaLine(schema.name, head, versions)
    line.below = _fields(json.get("fields", ()), versions, schema.name)
    for struct in json.get("commonStructs", ()):
        head = f"struct {struct['name']}"
        shared = SchemaLine(head, head, versions)
        shared.below = _fields(struct["fields"], versions, f"{schema.name}.{struct['name']}")
        line.below.append(shared)
    return line


def _fields(fields: list[JsonObject], base: Versions, place: str) -> list[SchemaLine]:
    """The lines of the fields that a version within `base` has."""
    lines = []
    for each in fields:
        line = _field(each, base, f"{place}.{each['name']}")
        if line is not None:
            lines.append(line)
    return lines


def _field(json: JsonObject, base: Versions, place: str) -> SchemaLine | None:
    """The line of a field and its struct's fields, or None if no version within `base` has it."""
    text = json.get("versions") or json["taggedVersions"]
    versions = parse_versions(text).within(base)
    if versions.empty:
        return None
    parts = [f"{json['name']}: {json['type']}{_nullable(json, versions, place)}{_default(json)}"]
    if versions != base:
        is_open = versions.last == base.last and text.endswith("+")
        parts.append(f"{versions.first}+" if is_open else str(versions))
    if "tag" in json:
        _check_tagged(json, versions, place)
        parts.append(f"tag {json['tag']}")
    if json.get("ignorable"):
        parts.append("ignorable")
    if json.get("flexibleVersions") == "none":
        parts.append("rigid")
    return SchemaLine(
        json["name"],
        ", ".join(parts),
        versions,
        _fields(json.get("fields", ()), versions, place),
        json.get("about", ""),
        json.get("mapKey", False),
    )


def _nullable(json: JsonObject, versions: Versions, place: str) -> str:
    """Return `?` if all versions of a field allow null, `?7+` if some do, else nothing."""
    nullable = parse_versions(json.get("nullableVersions", "none")).within(versions)
    if nullable.empty:
        return ""
    if nullable.last != versions.last:
        raise NotationError(f"{place} may be null in an early version and not in a later one")
    return "?" if nullable.first == versions.first else f"?{nullable.first}+"


def _default(json: Mapping[str, object]) -> str:
    default = json.get("default")
    if default is None:
        return ""
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return "" if text in IMPLICIT_DEFAULTS else f" = {text}"


def _check_tagged(json: JsonObject, versions: Versions, place: str) -> None:
    """Raise an error unless the field is tagged in all its versions."""
    if parse_versions(json["taggedVersions"]).within(versions) != versions:
        raise NotationError(f"{place} is tagged in some of its versions only")
