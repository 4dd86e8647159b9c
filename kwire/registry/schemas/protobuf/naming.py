"""Which type a name means at its place.

Source: Protobuf's "Language Guide", "Packages and Name Resolution": the innermost scope is searched
first, and a name that begins with a dot is searched from the outermost one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kwire.registry.schemas.protobuf.elements import (
    MapType,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
)


@dataclass(slots=True, eq=False)
class NamedType:
    """A message or an enum, and where it is."""

    element: ProtoMessage | ProtoEnum
    package: str
    file: str | None
    """The name of the file that defines it; None for the schema itself."""
    full_name: str

    @property
    def local_name(self) -> str:
        """The name without the package."""
        return self.full_name.removeprefix(f"{self.package}.") if self.package else self.full_name


class Types:
    """All types that a schema can name, by their full names."""

    def __init__(self, own: ProtoFile, imported: Iterable[tuple[str, ProtoFile]]) -> None:
        """`imported` has the name of each file that the schema imports, directly or not."""
        self._types: dict[str, NamedType] = {}
        for name, file in imported:
            self._add_all(file, name)
        self._add_all(own, None)

    def _add_all(self, file: ProtoFile, name: str | None) -> None:
        prefix = f"{file.package}." if file.package else ""
        waiting: list[tuple[str, ProtoMessage | ProtoEnum]] = []
        waiting += ((prefix, each) for each in file.messages)
        waiting += ((prefix, each) for each in file.enums)
        while waiting:
            inside, element = waiting.pop()
            full = inside + element.name
            self._types[full] = NamedType(element, file.package, name, full)
            if isinstance(element, ProtoMessage):
                waiting += ((f"{full}.", each) for each in element.messages)
                waiting += ((f"{full}.", each) for each in element.enums)
                waiting += (
                    (f"{full}.", field.group)
                    for field in element.all_fields
                    if field.group is not None
                )

    def full_name(self, name: str, scope: Sequence[str]) -> str | None:
        """The full name of the type that `name` means inside a scope, None if there is none."""
        found = self.find(name, scope)
        return None if found is None else found.full_name

    def find(self, name: str, scope: Sequence[str]) -> NamedType | None:
        """The type that `name` means inside a scope: the parts of a package and of messages."""
        if name.startswith("."):
            return self._types.get(name[1:])
        for size in range(len(scope), -1, -1):
            found = self._types.get(".".join((*scope[:size], name)))
            if found is not None:
                return found
        return None

    def map_type_of(self, field: ProtoField, scope: Sequence[str]) -> MapType | None:
        """The map of a field, also if it is written as a list of entries; None for others."""
        if field.map_type is not None:
            return field.map_type
        found = self.find(field.type, scope)
        if found is None or not isinstance(found.element, ProtoMessage):
            return None
        return found.element.map_entry
