"""What requests to a registry take and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.registry.client.errors import RegistryUnreachable
from kwire.registry.schemas.kinds import Reference, SchemaKind

VersionName = int | str
"""A version's number, or `latest`."""


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is registered."""

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The body of a request.  The kind of Avro is left out: the oldest registries lack it."""
        body: dict[str, Any] = {"schema": self.text}
        if self.kind is not SchemaKind.AVRO:
            body["schemaType"] = self.kind.value
        if self.references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        return body


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a subject, or the schema of an id; what the answer does not say is None."""

    schema: SchemaText
    subject: str | None = None
    version: int | None = None
    schema_id: int | None = None
    guid: str | None = None
    answer: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All that the registry says, as JSON."""


@dataclass(frozen=True)
class Compatibility:
    """Whether a schema is compatible with what is registered, and if not, why."""

    is_compatible: bool
    messages: tuple[str, ...] = ()


def version_of(answer: Any) -> RegisteredVersion:  # noqa: ANN401 - JSON
    """A version from the JSON of an answer.  Raises RegistryUnreachable if it is no schema."""
    try:
        kind = SchemaKind(answer.get("schemaType", SchemaKind.AVRO))
        references = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in answer.get("references") or ()
        )
        text = SchemaText(kind, str(answer["schema"]), references)
        return RegisteredVersion(
            text,
            answer.get("subject"),
            answer.get("version"),
            answer.get("id"),
            answer.get("guid"),
            answer,
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        raise RegistryUnreachable("the registry's answer has no schema") from None
