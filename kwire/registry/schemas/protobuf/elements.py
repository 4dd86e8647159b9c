"""What a `.proto` file says, statement by statement.

These are the statements and not the descriptors that a compiler makes of them, because a registry
gives a schema back as it was written: in the order of its messages, and with options that only
others understand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

FIELD_NUMBER_MAX: Final = 2**29 - 1

SCALARS: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
"""The numbers of `FieldDescriptorProto.Type`.  Other types are names of messages and enums."""

LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
"""The labels of fields, with their numbers in a descriptor."""


class Word(str):
    """A value without quotation marks: a number, `true`, the name of a value of an enum."""

    __slots__ = ()


OptionValue: TypeAlias = "str | Word | list[OptionValue] | dict[str, OptionValue]"


class ProtoOption(NamedTuple):
    """`name = value`.  The name of an option of somebody's own is in parentheses."""

    name: str
    value: OptionValue


class NumberRange(NamedTuple):
    """Numbers from the first to the last, both included."""

    first: int
    last: int


Reserved: TypeAlias = "NumberRange | str"
"""Numbers, or a name."""


class MapType(NamedTuple):
    """The types of keys and values."""

    key: str
    value: str


@dataclass(slots=True, eq=False)
class ProtoField:
    """A field of a message, or an extension."""

    name: str
    number: int
    label: str | None
    """`optional`, `required` or `repeated`; None if none is written."""
    type: str
    """A scalar or a name as it is written; empty for a map."""
    map_type: MapType | None = None
    options: list[ProtoOption] = field(default_factory=list)
    group: ProtoMessage | None = None
    """The message of a group, whose name is the type."""


@dataclass(slots=True, eq=False)
class ProtoOneof:
    """Fields of which at most one is set."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ProtoEnumValue:
    """A named number."""

    name: str
    number: int
    options: list[ProtoOption] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ProtoEnum:
    """An enum with its values in the order in which they are written."""

    name: str
    values: list[ProtoEnumValue] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)
    """What each statement reserves."""


@dataclass(slots=True, eq=False)
class ProtoExtend:
    """Fields that are added to a message of this name."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ProtoMessage:
    """A message with all that is inside it."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    """Those outside of a oneof."""
    oneofs: list[ProtoOneof] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    reserved: list[list[Reserved]] = field(default_factory=list)
    extensions: list[list[NumberRange]] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)

    @property
    def all_fields(self) -> list[ProtoField]:
        """Also those of its oneofs."""
        return [*self.fields, *(field for oneof in self.oneofs for field in oneof.fields)]

    @property
    def map_entry(self) -> MapType | None:
        """The map whose entries the message holds, as compilers write it; None for others."""
        if ("map_entry", "true") not in self.options:
            return None
        types = {each.name: each.type for each in self.fields}
        return MapType(types.get("key", ""), types.get("value", ""))


@dataclass(slots=True, eq=False)
class ProtoRpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: list[ProtoOption] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ProtoService:
    """A service with its methods."""

    name: str
    rpcs: list[ProtoRpc] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ProtoFile:
    """A file."""

    syntax: str | None = None
    """`proto2` or `proto3`; None if it is not written, which means proto2."""
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)
    services: list[ProtoService] = field(default_factory=list)

    @property
    def is_proto3(self) -> bool:
        """Whether fields without a label are optional."""
        return self.syntax == "proto3"
