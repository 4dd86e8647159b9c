"""The decision to register a schema, and look-ups of schemas that are registered.

Source of the order of checks: Confluent Schema Registry's documentation, API reference, and how
its releases 7 answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kwire.registry.schemas.kinds import ParsedSchema
from kwire.registry.schemas.levels import CompatibilityLevel
from kwire.registry.subjects.errors import (
    RegistryError,
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
)
from kwire.registry.subjects.merging import merged_metadata, merged_rule_set
from kwire.registry.subjects.names import (
    DEFAULT_CONTEXT,
    context_of,
    is_valid,
)
from kwire.registry.subjects.proposals import NONE_GIVEN, Proposal, Schemas
from kwire.registry.subjects.records import (
    TENANT,
    Key,
    KeyKind,
    SchemaVersion,
    Write,
)
from kwire.registry.subjects.state import COMPATIBILITY, Filter, Mode, RegistryState

LEVEL_DEFAULT: Final = CompatibilityLevel.BACKWARD
GROUP: Final = "compatibilityGroup"
NORMALIZE: Final = "normalize"


@dataclass(frozen=True, slots=True)
class SchemaRegistration:
    """The decision about a schema: the version that it is or becomes."""

    version: SchemaVersion
    writes: list[Write] = field(default_factory=list)
    """The records to write; none if the schema is registered already."""


def check_writable(registry: RegistryState, subject: str) -> None:
    """Raise RegistryError if the mode forbids changes of the subject."""
    if registry.mode_in_scope(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise not_permitted(f"Subject {subject} is in read-only mode")


def register(
    registry: RegistryState, schemas: Schemas, subject: str, proposal: Proposal, *, normalize: bool
) -> SchemaRegistration:
    """Register a schema under a subject, unless it is there.  Raises RegistryError."""
    if not is_valid(subject):
        raise invalid_subject(subject)
    _check_mode(registry, subject, proposal)
    live = registry.versions(subject)
    every = registry.versions(subject, Filter.ALL)
    next_number = every[-1].version + 1 if every else 1
    is_import = registry.mode_in_scope(subject) == Mode.IMPORT
    if not is_import:
        proposal = _completed(registry, subject, proposal, live)
    elif proposal.is_empty:
        raise invalid_schema("Empty schema")
    normalize = normalize or bool(registry.config_in_scope(subject).get(NORMALIZE))
    candidate, parsed = schemas.candidate(subject, proposal, normalize=normalize)
    if proposal.version == 0:
        for version in reversed(live):
            has_id = proposal.id in (NONE_GIVEN, version.id)
            if has_id and schemas.is_same(version, candidate):
                return SchemaRegistration(version)
    if not is_import:
        found = problems(registry, schemas, subject, candidate, parsed, live)
        if found:
            raise incompatible(subject, found)
    number = proposal.version if proposal.version > 0 else next_number
    if number != next_number and not is_import:
        raise invalid_schema("Version is not one more than previous version")
    schema_id = _id_for(registry, candidate)
    made = candidate._replace(version=number, id=schema_id)
    return SchemaRegistration(made, _writes(registry, made, every))


def _check_mode(registry: RegistryState, subject: str, proposal: Proposal) -> None:
    """Raise RegistryError if the mode does not allow to register this."""
    check_writable(registry, subject)
    mode = registry.mode_in_scope(subject)
    if proposal.id >= 0 and mode != Mode.IMPORT:
        raise not_permitted(f"Subject {subject} is not in import mode")
    if proposal.id < 0 and mode != Mode.READWRITE:
        raise not_permitted(f"Subject {subject} is not in read-write mode")


def _completed(
    registry: RegistryState, subject: str, proposal: Proposal, live: list[SchemaVersion]
) -> Proposal:
    """The proposal with what it lacks: from the previous version, and from the config.

    Raises RegistryError if it has no schema, and there is no previous one.
    """
    previous = live[-1] if live else None
    if proposal.is_empty:
        if previous is None:
            raise invalid_schema("Empty schema")
        proposal = replace(
            proposal,
            schema=previous.schema,
            kind=previous.kind,
            references=previous.references,
        )
    config = registry.config_in_scope(subject)
    metadata, rule_set = proposal.metadata, proposal.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    return replace(
        proposal,
        metadata=merged_metadata(
            config.get("defaultMetadata"), metadata, config.get("overrideMetadata")
        ),
        rule_set=merged_rule_set(
            config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet")
        ),
    )


def _id_for(registry: RegistryState, candidate: SchemaVersion) -> int:
    """The id of the candidate: that of an equal schema of its context, the one that the client
    gives, or the next.  Raises RegistryError if another schema has the id that the client gives."""
    context = registry.context(candidate.subject)
    if candidate.id < 0:
        same = context.id_of(candidate)
        return context.max_id + 1 if same is None else same
    known = context.of_id(candidate.id)
    if known is not None and known.schema != candidate.schema:
        raise not_permitted(f"Overwrite new schema with id {candidate.id} is not permitted.")
    return candidate.id


def _writes(
    registry: RegistryState, made: SchemaVersion, every: list[SchemaVersion]
) -> list[Write]:
    """The records of a new version.

    Deleted versions of the same schema are removed: who asks for their id gets the new version.
    """
    writes = []
    context = context_of(made.subject)
    if context != DEFAULT_CONTEXT and context not in registry.contexts:
        value = {"tenant": TENANT, "context": context}
        writes.append(Write(Key(KeyKind.CONTEXT, context), value))
    writes += [
        Write(old.key, None)
        for old in every
        if old.deleted and old.id == made.id and old.version < made.version
    ]
    return [*writes, Write(made.key, made.value())]


def problems(
    registry: RegistryState,
    schemas: Schemas,
    subject: str,
    candidate: SchemaVersion,
    parsed: ParsedSchema,
    earlier: list[SchemaVersion],
) -> list[str]:
    """Why a schema is not compatible with earlier versions; empty if it is.

    A version that this registry cannot parse is one reason.
    """
    config = registry.config_in_scope(subject)
    configured = str(config.get(COMPATIBILITY))
    known = CompatibilityLevel.__members__
    level = known.get(configured, LEVEL_DEFAULT)  # another registry may know other levels
    group = config.get(GROUP)
    if isinstance(group, str):
        wanted = _property(candidate, group)
        earlier = [each for each in earlier if _property(each, group) == wanted]
    if level is CompatibilityLevel.NONE:
        return []
    if not level.is_transitive:
        earlier = earlier[-1:]
    try:
        pairs = [(each.version, schemas.of_version(each)) for each in earlier]
    except RegistryError as error:
        return [f"an earlier version cannot be read: {error.message}"]
    return schemas.compare(level, parsed, pairs)


def _property(version: SchemaVersion, name: str) -> object:
    """A property of a version's metadata."""
    properties = (version.metadata or {}).get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def find(
    registry: RegistryState,
    schemas: Schemas,
    subject: str,
    proposal: Proposal,
    *,
    normalize: bool,
    deleted: bool,
) -> SchemaVersion | None:
    """The version of a subject that has this schema, or None.

    Metadata and rules count if they are given.  Raises RegistryError if it is no schema.
    """
    if proposal.is_empty:
        raise invalid_schema("Empty schema")
    normalize = normalize or bool(registry.config_in_scope(subject).get(NORMALIZE))
    candidate, _ = schemas.candidate(subject, proposal, normalize=normalize)
    versions = registry.versions(subject, Filter.ALL if deleted else Filter.LIVE)
    for version in reversed(versions):
        wanted = candidate._replace(
            metadata=version.metadata if proposal.metadata is None else proposal.metadata,
            rule_set=version.rule_set if proposal.rule_set is None else proposal.rule_set,
        )
        if schemas.is_same(version, wanted):
            return version
    return None
