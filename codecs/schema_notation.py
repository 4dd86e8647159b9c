"""Parses the notation of `codecs/schema/*.txt`, which describes all versions of every message.

One file describes one API key (its request and response), one record type of an internal topic (its
key and value) or one other data message::

    # Produce: API key 0

    request 0 ProduceRequest, versions 3-13, flexible 9+
        TransactionalId: string? = null
        TopicData: []TopicProduceData
            Name: string, 3-12, ignorable
            ...
        NodeEndpoints: []NodeEndpoint, 10+, tag 0

The first line of a message has its kind (request, response, key, value, metadata, header or data),
its number (API key or record type; header and data messages have none), its name, its versions, and
the first flexible version.  In flexible versions, strings, arrays and bytes are compact, and
structs end with tagged fields.

A field is `Name: type`, followed by its exceptions from the rule, separated by commas:

- `= value` is the default.  Without it, the default is 0, false, "", an empty array, empty bytes, a
  struct of defaults, or null for `records`.
- `12+`, `3-12` or `4` are the versions that have the field; by default those of its struct.
- `tag 0`: in these versions, it is the tagged field of that number.
- `ignorable`: a version without the field drops its value.  Otherwise such a value is an error.
- `rigid`: not compact, even in a flexible version.

A type is bool, int8, int16, uint16, int32, uint32, int64, float64, uuid, string, bytes, records, a
struct's name, or an array of one of these (`[]int32`).  `?` allows null, and `?7+` allows it from
version 7 on.  The fields of a struct are indented under the first field that uses it, or under a
line `struct Name` if several fields share it.  `#` starts a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import resources
from typing import NamedTuple

FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
SCALARS = frozenset({*FIXED_SIZES, "string", "bytes", "records"})
KINDS = frozenset({"request", "response", "key", "value", "metadata", "header", "data"})

_INDENT = 4
_MESSAGE = re.compile(r"(\w+)(?: (-?\d+))? (\w+), versions (\S+?)(?:, flexible (\d+)\+)?$")
_FIELD = re.compile(r"(\w+): (\[\])?(\w+)(\?(?:\d+\+)?)?(?: = ([^,]+))?((?:, [^,]+)*)$")
_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?$")


class SchemaError(ValueError):
    """A schema file breaks the notation.  The text names the file, the line and the fault."""


class VersionRange(NamedTuple):
    """An inclusive range of versions."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def all(self) -> range:
        return range(self.first, self.last + 1)

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(slots=True)
class StructSchema:
    """A named sequence of fields: the body of a message or the type of a field."""

    name: str
    fields: list[SchemaField] = field(default_factory=list)


@dataclass(slots=True)
class SchemaField:
    """One field of a struct. `type` is a scalar's name or the name of `struct`."""

    name: str
    type: str
    is_array: bool
    versions: VersionRange
    nullable: VersionRange | None = None
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    rigid: bool = False
    struct: StructSchema | None = None

    @property
    def attribute(self) -> str:
        return snake_case(self.name)

    @property
    def json_name(self) -> str:
        return self.name[0].lower() + self.name[1:]

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable


@dataclass(slots=True)
class MessageSchema:
    """One message with all its versions; `structs` are its structs by name, its body among them."""

    kind: str
    number: int | None
    name: str
    versions: VersionRange
    flexible_since: int | None
    body: StructSchema
    structs: dict[str, StructSchema] = field(default_factory=dict)

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


class ClassNames:
    """The class names of the structs of a file.

    A class has the struct's name.  If two messages have different structs of one name, the kind of
    the message is put before it (`RequestTopicData`, `ResponseTopicData`).
    """

    def __init__(self, messages: list[MessageSchema]) -> None:
        """Choose a class name for each struct: its own, with the message's kind where two
        differ."""
        self._names: dict[int, str] = {}
        definitions: dict[str, list[StructSchema]] = {}
        for message in messages:
            for struct in message.structs.values():
                definitions.setdefault(struct.name, []).append(struct)
        for message in messages:
            for struct in message.structs.values():
                same = all(struct == other for other in definitions[struct.name])
                prefix = "" if same else message.kind.capitalize()
                self._names[id(struct)] = prefix + struct.name

    def of(self, struct: StructSchema) -> str:
        return self._names[id(struct)]


def snake_case(name: str) -> str:
    """Return the name in snake case: `partition_index` for `PartitionIndex`.

    A run of capitals is one word, as in Apache Kafka's generator: `kraft_version` for
    `KRaftVersion`.
    """
    return re.sub(r"(?<=[^A-Z])([A-Z])", r"_\1", name).lower()


def schema_names() -> list[str]:
    """The names of all schema files without `.txt`, those of `coordinator/` with that prefix."""
    root = resources.files("kwire.codecs") / "schema"
    names = [entry.name for entry in root.iterdir()]
    names += [f"coordinator/{entry.name}" for entry in (root / "coordinator").iterdir()]
    return sorted(name.removesuffix(".txt") for name in names if name.endswith(".txt"))


def load(name: str) -> list[MessageSchema]:
    """The messages of one schema file; `name` as in `schema_names()`."""
    path = resources.files("kwire.codecs") / "schema" / f"{name}.txt"
    return parse(path.read_text("utf-8"), f"{name}.txt")


def parse(text: str, source: str) -> list[MessageSchema]:
    """The messages of one file; `source` is its name in errors."""
    return [_message(line) for line in _outline(text, source)]


@dataclass(slots=True)
class _Line:
    """One line without its indentation and comment, with the lines indented under it."""

    text: str
    place: str
    children: list[_Line] = field(default_factory=list)

    def error(self, what: str) -> SchemaError:
        return SchemaError(f"{self.place}: {what}: {self.text}")


def _outline(text: str, source: str) -> list[_Line]:
    """Return the lines without indentation, each with its children; comments are dropped.

    `source` is the file name, for errors. Raises an error if a line is indented wrongly.
    """
    root = _Line("", source)
    ancestors = [root]
    for number, raw in enumerate(text.splitlines(), 1):
        content = raw.partition("#")[0].rstrip()
        if not content:
            continue
        line = _Line(content.lstrip(), f"{source}:{number}")
        depth, odd = divmod(len(content) - len(line.text), _INDENT)
        if odd or depth >= len(ancestors):
            raise line.error("wrong indentation")
        del ancestors[depth + 1 :]
        ancestors[depth].children.append(line)
        ancestors.append(line)
    return root.children


def _message(line: _Line) -> MessageSchema:
    """Return the message that a line and its children describe; raises an error with the line."""
    match = _MESSAGE.match(line.text)
    if match is None or match[1] not in KINDS:
        raise line.error("not of the form kind [number] Name, versions A-B[, flexible C+]")
    kind, number, name, versions, flexible = match.groups()
    body = StructSchema(name)
    message = MessageSchema(
        kind=kind,
        number=None if number is None else int(number),
        name=name,
        versions=_versions(line, versions, None),
        flexible_since=None if flexible is None else int(flexible),
        body=body,
        structs={name: body},
    )
    _add_members(message, body, line, message.versions)
    for struct in message.structs.values():
        _resolve(message, struct, line)
    return message


def _add_members(
    message: MessageSchema, struct: StructSchema, line: _Line, base: VersionRange
) -> None:
    """Add the lines under `line`: fields to `struct`, and structs to the message."""
    for child in line.children:
        if child.text.startswith("struct "):
            shared = _new_struct(message, child, child.text.removeprefix("struct "))
            _add_members(message, shared, child, message.versions)
            continue
        member = _field(child, base)
        if any(other.name == member.name for other in struct.fields):
            raise child.error("a second field of that name")
        struct.fields.append(member)
        if child.children:
            nested = _new_struct(message, child, member.type)
            _add_members(message, nested, child, member.versions)


def _new_struct(message: MessageSchema, line: _Line, name: str) -> StructSchema:
    """Return a new, empty struct of the message; raises an error if the name is taken."""
    if name in SCALARS:
        raise line.error(f"{name} has no fields")
    if name in message.structs:
        raise line.error(f"a second definition of {name}")
    message.structs[name] = StructSchema(name)
    return message.structs[name]


def _field(line: _Line, base: VersionRange) -> SchemaField:
    """Return the field that a line describes; raises an error if the line is not of the form.

    `base` are the versions of the struct, which a field has unless it says otherwise.
    """
    match = _FIELD.match(line.text)
    if match is None:
        raise line.error("not of the form Name: type[?][ = default][, attribute ...]")
    name, array, type_name, nullable, default, attributes = match.groups()
    parsed = SchemaField(name, type_name, array is not None, base, default=default)
    for attribute in attributes.split(", ")[1:]:
        if attribute == "ignorable":
            parsed.ignorable = True
        elif attribute == "rigid":
            parsed.rigid = True
        elif attribute.startswith("tag "):
            parsed.tag = int(attribute.removeprefix("tag "))
        else:
            parsed.versions = _versions(line, attribute, base)
    if nullable is not None:
        first = int(nullable[1:-1]) if len(nullable) > 1 else parsed.versions.first
        parsed.nullable = VersionRange(first, parsed.versions.last)
    return parsed


def _versions(line: _Line, text: str, base: VersionRange | None) -> VersionRange:
    """Return the range that a text like `2`, `2-5` or `2+` describes, within `base`.

    `2+` goes up to the last version of `base`. Without `base` it is an error, as is any other text.
    """
    match = _VERSIONS.match(text)
    if match is None:
        raise line.error(f"{text} is neither a range of versions nor an attribute")
    first = int(match[1])
    if match[2] and base is None:
        raise line.error("a message needs a last version")
    last = base.last if match[2] and base is not None else int(match[3] or first)
    parsed = VersionRange(first, last)
    if last < first or (base is not None and not (base.first <= first <= last <= base.last)):
        raise line.error(f"versions {text} are not within {base}")
    return parsed


def _resolve(message: MessageSchema, struct: StructSchema, line: _Line) -> None:
    """Point each field of a struct's type at that struct."""
    for member in struct.fields:
        if member.type not in SCALARS:
            member.struct = message.structs.get(member.type)
            if member.struct is None:
                raise line.error(f"{member.name} is of the unknown type {member.type}")
