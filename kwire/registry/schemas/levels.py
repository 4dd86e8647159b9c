"""Compatibility levels: in which direction, and with which earlier versions a schema agrees.

Source: Confluent Schema Registry's documentation, "Schema Evolution and Compatibility", and the
answers that its clients print.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from kwire.registry.schemas.kinds import Incompatibility, ParsedSchema, Sides

SHOWN_CHARACTERS_MAX: Final = 10 * 1024
"""Characters of an earlier schema that a message repeats, as in Confluent's registry."""

NEW_READS_OLD: Final = Sides("new", "old")
OLD_READS_NEW: Final = Sides("old", "new")


class CompatibilityLevel(StrEnum):
    """What a new version of a subject must be able to do.

    BACKWARD reads what the version before it wrote, FORWARD can be read by it, FULL is both.  The
    transitive ones say so of all versions.
    """

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read old records."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether old schemas have to read new records."""
        return self.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions count, and not only the latest."""
        return self.endswith("_TRANSITIVE")


class VersionConflict(NamedTuple):
    """The latest earlier schema that a new one does not agree with, and why."""

    position: int
    """Its place among the earlier schemas, of which the oldest is the first."""
    forward: list[Incompatibility]
    """Why it cannot read new records."""
    backward: list[Incompatibility]
    """Why the new schema cannot read its records."""


def conflict(
    level_name: str, new: ParsedSchema, earlier: Sequence[ParsedSchema]
) -> VersionConflict | None:
    """The first conflict of a new schema with earlier ones, the latest first.

    `earlier` begins with the oldest.  A schema of another kind is in conflict with all of them.
    Raises ValueError if there is no such level.
    """
    level = CompatibilityLevel(level_name)
    if level is CompatibilityLevel.NONE:
        return None
    first = 0 if level.is_transitive else max(0, len(earlier) - 1)
    for index in range(len(earlier) - 1, first - 1, -1):
        old = earlier[index]
        forward = _reasons(old, new, OLD_READS_NEW) if level.is_forward else []
        backward = _reasons(new, old, NEW_READS_OLD) if level.is_backward else []
        if forward or backward:
            return VersionConflict(index, forward, backward)
    return None


def incompatibilities(
    level: str, new: ParsedSchema, earlier: Sequence[ParsedSchema]
) -> list[Incompatibility]:
    """Why a new schema does not agree with earlier ones, of which the oldest is the first.

    These are the reasons of the latest version with which it does not; empty if there is none.
    """
    found = conflict(level, new, earlier)
    return [] if found is None else [*found.forward, *found.backward]


def messages(
    level: str, new: ParsedSchema, earlier: Sequence[tuple[int, ParsedSchema]]
) -> list[str]:
    """The same as `incompatibilities` in the form of Confluent's answers; empty if compatible.

    `earlier` has the number of each version.  The version and its text follow the reasons of each
    direction, but not those of the first one of two.
    """
    found = conflict(level, new, [schema for _, schema in earlier])
    if found is None:
        return []
    version, schema = earlier[found.position]
    with_text = [f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: {_shown(schema.canonical)}}}"]
    lines = [each.message for each in found.forward]
    if lines and not CompatibilityLevel(level).is_backward:
        lines += with_text
    if found.backward:
        lines += [*(each.message for each in found.backward), *with_text]
    return [*lines, f"{{validateFields: 'false', compatibility: '{level}'}}"]


def _reasons(reader: ParsedSchema, writer: ParsedSchema, sides: Sides) -> list[Incompatibility]:
    if reader.kind != writer.kind:
        return [Incompatibility("", "Incompatible because of different schema type")]
    return reader.incompatibilities(writer, sides)


def _shown(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return f"'{text}'"
    size = SHOWN_CHARACTERS_MAX
    return f"<truncated to {size} characters> '{text[:size]}'"
