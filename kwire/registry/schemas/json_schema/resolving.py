"""Finds the schema that a `$ref` names.

Source: JSON Schema 2020-12 Core, "Schema Identification" and "Resolving References", which
includes what earlier drafts say, but for `id` of draft 4.  Nothing is fetched: a schema names
itself, parts of itself, and the schemas that the registry has for it by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from kwire.registry.schemas.json_text import Json, document
from kwire.registry.schemas.kinds import InvalidSchemaError, reading_reference

METASCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
"""What schemas of schemas begin with; one that refers to them accepts any schema."""
DEFAULT_BASE: Final = "mem://input"
"""The address of a schema without an `$id`."""
ADDRESS_CHARACTERS_MAX: Final = 2_000

MODERN: Final = ("draft/2019-09", "draft/2020-12")


@dataclass(frozen=True, slots=True)
class Spot:
    """A schema in a document."""

    value: Json
    base: str
    """The address against which its references are read."""
    is_modern: bool
    """Whether the document is of draft 2019-09 or later."""


def is_modern(schema: Json) -> bool:
    """Whether a document is of draft 2019-09 or later; without `$schema` it is of draft 7."""
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    return isinstance(dialect, str) and any(part in dialect for part in MODERN)


class Documents:
    """A schema and those that it may refer to."""

    def __init__(self, schema: Json, references: Mapping[str, str]) -> None:
        """Raises InvalidSchemaError if a reference is not JSON."""
        self._spots: dict[str, Spot] = {}
        self._anchors: dict[str, Spot] = {}
        self.root: Final = self._add(schema, DEFAULT_BASE)
        """The schema itself."""
        for name, text in references.items():
            with reading_reference(name):
                value = document(text)
            spot = self._add(value, _joined(self.root.base, name))
            self._spots.setdefault(name, spot)

    def inside(self, value: Json, spot: Spot) -> Spot:
        """The place of a schema inside another one."""
        return Spot(value, _own_base(value, spot.base), spot.is_modern)

    def _add(self, value: Json, address: str) -> Spot:
        """Add a document and all that has an address of its own inside it."""
        modern = is_modern(value)
        root = Spot(value, _own_base(value, address), modern)
        self._spots.setdefault(address, root)
        for inner, base in _with_bases(value, address):
            spot = Spot(inner, base, modern)
            own = _identifier(inner)
            if own is not None:
                self._spots.setdefault(base, spot)
            if own is not None and own.startswith("#"):  # an anchor, as drafts 6 and 7 write it
                self._anchors.setdefault(f"{base}{own}", spot)
            anchor = inner.get("$anchor")
            if isinstance(anchor, str):
                self._anchors.setdefault(f"{base}#{anchor}", spot)
        return root

    def find(self, reference: str, base: str) -> Spot | None:
        """The schema that a reference names, None for a schema of schemas.

        Raises InvalidSchemaError if it is not there.
        """
        if len(reference) > ADDRESS_CHARACTERS_MAX:
            raise InvalidSchemaError(f"a reference has more than {ADDRESS_CHARACTERS_MAX} letters")
        address, fragment = urldefrag(_joined(base, reference))
        spot = self._spots.get(address) or self._spots.get(urldefrag(reference)[0])
        if spot is None:
            if address.startswith(METASCHEMAS):
                return None
            raise _missing(reference)
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get(f"{spot.base}#{fragment}")
            if anchored is None:
                raise _missing(reference)
            return anchored
        return _at(spot, fragment, reference)


def _missing(reference: str) -> InvalidSchemaError:
    return InvalidSchemaError(f'the schema refers to "{reference}", which is not there')


def _at(spot: Spot, pointer: str, reference: str) -> Spot:
    """The place in a document that a JSON pointer names."""
    value, base = spot.value, spot.base
    for part in unquote(pointer).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            raise _missing(reference)
        base = _own_base(value, base)
    return Spot(value, base, spot.is_modern)


def _with_bases(value: Json, address: str) -> Iterator[tuple[dict[str, Json], str]]:
    """All objects of a document, each with the address against which it reads references."""
    waiting = [(value, address)]
    while waiting:
        node, base = waiting.pop()
        own = _own_base(node, base)
        if isinstance(node, dict):
            yield node, own
            waiting += ((each, own) for each in node.values() if isinstance(each, dict | list))
        elif isinstance(node, list):
            waiting += ((each, own) for each in node if isinstance(each, dict | list))


def _identifier(schema: dict[str, Json]) -> str | None:
    """What a schema says about its address; draft 4 writes it without the dollar."""
    for name in ("$id", "id"):
        found = schema.get(name)
        if isinstance(found, str) and len(found) <= ADDRESS_CHARACTERS_MAX:
            return found
    return None


def _own_base(schema: Json, base: str) -> str:
    own = _identifier(schema) if isinstance(schema, dict) else None
    if own is None or own.startswith("#"):
        return base
    return urldefrag(_joined(base, own))[0]


def _joined(base: str, reference: str) -> str:
    """The address of a reference; as it is written if it cannot be read as an address."""
    if reference.startswith("#"):  # `urljoin` would drop the base where it does not know its kind
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
