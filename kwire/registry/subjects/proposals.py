"""A schema as a client sends it, and the schemas of versions, parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from kwire.registry.schemas.kinds import (
    InvalidSchemaError,
    ParsedSchema,
    Reference,
    SchemaKind,
)
from kwire.registry.schemas.levels import CompatibilityLevel
from kwire.registry.subjects.errors import RegistryError, invalid_schema
from kwire.registry.subjects.names import in_context_of
from kwire.registry.subjects.records import (
    JsonObject,
    SchemaVersion,
    digest_of,
    read_references,
)
from kwire.registry.subjects.state import RegistryState, Use

Parse = Callable[[SchemaKind, str, Mapping[str, str]], ParsedSchema]
"""`kwire.registry.schemas.parsing.parse`."""
Compare = Callable[
    [CompatibilityLevel, ParsedSchema, Sequence[tuple[int, ParsedSchema]]], list[str]
]
"""`kwire.registry.schemas.levels.messages`."""

REFERENCES_MAX: Final = 1000
"""The most schemas to which one refers, directly or not."""
CACHED_MAX: Final = 1000
CACHED_LENGTH_MAX: Final = 64 * 1024
"""Characters of a schema with its references; a longer one is parsed each time."""
NONE_GIVEN: Final = -1


@dataclass(frozen=True, slots=True)
class Proposal:
    """A schema as a client sends it."""

    schema: str | None
    kind: str = SchemaKind.AVRO
    references: tuple[Reference, ...] = ()
    metadata: JsonObject | None = None
    rule_set: JsonObject | None = None
    version: int = 0
    """The version that it must become; 0: the next one."""
    id: int = NONE_GIVEN
    """The id that it has elsewhere, in import mode."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no text."""
        return self.schema is None or not self.schema.strip()


def read_proposal(fields: Mapping[str, Any]) -> Proposal:
    """The schema in the body of a request.  Raises RegistryError."""
    schema = fields.get("schema")
    kind = fields.get("schemaType") or SchemaKind.AVRO
    metadata, rule_set = fields.get("metadata"), fields.get("ruleSet")
    try:
        references = read_references(fields.get("references"))
    except (KeyError, TypeError):
        raise RegistryError(422, "references need a name, a subject and a version") from None
    for name, value, types in (
        ("schema", schema, str | None),
        ("schemaType", kind, str),
        ("metadata", metadata, dict | None),
        ("ruleSet", rule_set, dict | None),
    ):
        if not isinstance(value, types):
            raise RegistryError(422, f"{name} is of the wrong type")
    version, schema_id = fields.get("version") or 0, fields.get("id", NONE_GIVEN)
    schema_id = NONE_GIVEN if schema_id is None else schema_id
    for name, number in (("version", version), ("id", schema_id)):
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 1 << 31:
            raise RegistryError(422, f"{name} is no number of 32 bits")
    return Proposal(schema, str(kind), references, metadata, rule_set, version, schema_id)


class Schemas:
    """Parses the schemas of a registry, and keeps those that were used lately."""

    def __init__(self, registry: RegistryState, parse: Parse, compare: Compare) -> None:
        """`registry` has the schemas to which others refer."""
        self.compare = compare
        self._registry = registry
        self._parse = parse
        self._kept = lru_cache(CACHED_MAX)(self._parse_items)

    def _parse_items(
        self, kind: SchemaKind, text: str, references: tuple[tuple[str, str], ...]
    ) -> ParsedSchema:
        return self._parse(kind, text, dict(references))

    def parsed(
        self,
        subject: str,
        kind: str,
        text: str,
        references: tuple[Reference, ...],
        version: int = 0,
    ) -> ParsedSchema:
        """A schema with all that it refers to; `version` is its own, if it has one.

        Raises RegistryError if it is none, or if a reference does not exist.
        """
        try:
            schema_kind = SchemaKind(kind)
        except ValueError:
            raise invalid_schema(f"Invalid schema type {kind[:100]}") from None
        named = self.resolved(subject, references, version)
        items = tuple(named.items())
        length = len(text) + sum(len(each) for each in named.values())
        try:
            text.encode()
            parse = self._kept if length <= CACHED_LENGTH_MAX else self._parse_items
            return parse(schema_kind, text, items)
        except UnicodeEncodeError:
            raise invalid_schema("Invalid schema: its text is no valid Unicode") from None
        except InvalidSchemaError as problem:
            raise invalid_schema(f"Invalid schema of type {kind}, details: {problem}") from None

    def of_version(self, version: SchemaVersion) -> ParsedSchema:
        """The schema of a version.  Raises RegistryError."""
        return self.parsed(
            version.subject, version.kind, version.schema, version.references, version.version
        )

    def resolved(
        self, subject: str, references: tuple[Reference, ...], version: int = 0
    ) -> dict[str, str]:
        """The texts to which the references of a version of a subject lead, by name, the innermost
        first.

        Of two with one name the first is taken.  Raises RegistryError if a reference does not
        exist, if they form a cycle, or if there are more than REFERENCES_MAX.
        """
        found: dict[str, str] = {}
        visited: set[Use] = set()
        open_uses: set[Use] = {(subject, version)}
        # Depth first: a reference is added after those to which it refers.
        stack = [(each, subject, False) for each in reversed(references)]
        while stack:
            each, parent, is_done = stack.pop()
            name = in_context_of(parent, each.subject)
            use = (name, each.version)
            target = self._registry.subjects.get(name, {}).get(each.version)
            if target is None:
                raise invalid_schema(
                    f'No schema reference found for subject "{name[:200]}" and version '
                    f"{each.version}"
                )
            if not is_done and use in open_uses:
                raise invalid_schema(f"references form a cycle at {name[:200]}")
            if is_done or use in visited:
                open_uses.discard(use)
                found.setdefault(each.name, target.schema)
                continue
            visited.add(use)
            open_uses.add(use)
            if len(visited) > REFERENCES_MAX:
                raise invalid_schema(f"it refers to more than {REFERENCES_MAX} schemas")
            stack.append((each, parent, True))
            stack += [(inner, name, False) for inner in reversed(target.references)]
        return found

    def numbered(self, subject: str, proposal: Proposal) -> Proposal:
        """The proposal with the numbers of versions in place of -1, the latest.

        Raises RegistryError if a subject does not exist.
        """
        references = []
        for each in proposal.references:
            if each.version == NONE_GIVEN:
                latest = self._registry.own_version(in_context_of(subject, each.subject), None)
                if latest is None:
                    raise invalid_schema(f'No schema reference found for subject "{each.subject}"')
                each = replace(each, version=latest.version)
            references.append(each)
        return replace(proposal, references=tuple(references))

    def candidate(
        self, subject: str, proposal: Proposal, *, normalize: bool
    ) -> tuple[SchemaVersion, ParsedSchema]:
        """The proposal as a version without number and id, with its canonical text, and parsed.

        Raises RegistryError.
        """
        proposal = self.numbered(subject, proposal)
        given = proposal.schema or ""
        version = max(0, proposal.version)
        parsed = self.parsed(subject, proposal.kind, given, proposal.references, version)
        text = parsed.normalized() if normalize else parsed.canonical
        made = SchemaVersion(
            subject,
            proposal.version,
            proposal.id,
            text,
            proposal.kind,
            proposal.references,
            proposal.metadata,
            proposal.rule_set,
            digest=digest_of(text, proposal.references, proposal.metadata, proposal.rule_set),
        )
        return made, parsed

    def is_same(self, version: SchemaVersion, candidate: SchemaVersion) -> bool:
        """Whether a version has the same schema as a candidate.

        The text of a version may be from another registry, whose canonical text is another, so it
        is brought into this registry's form as well.
        """
        if (
            version.kind != candidate.kind
            or version.references != candidate.references
            or version.metadata != candidate.metadata
            or version.rule_set != candidate.rule_set
        ):
            return False
        if version.schema == candidate.schema:
            return True
        try:
            return self.of_version(version).canonical == candidate.schema
        except RegistryError:
            return False  # another registry accepted what this one cannot parse
