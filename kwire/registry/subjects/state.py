"""What the records of the registry's topic amount to: subjects, ids, configs and modes.

The log decides.  Every instance applies the same records in the same order, so all agree on which
are valid.  A writer learns by `apply` whether its own record was: `apply` rejects a version that
exists with another content, and an id that another schema has.  A writer can meet that only if
another instance took over meanwhile.  A rejected record would still win in compaction, so
`repairs` has what the primary has to write again.

One thread applies records.  Others may read meanwhile: containers are replaced or looked up by
single operations, and an index is changed after that to which it points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final

from kwire.registry.subjects.names import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    context_of,
    in_context_of,
    split_name,
    whole_context,
)
from kwire.registry.subjects.records import (
    MAX_IDS,
    InvalidRecordError,
    JsonObject,
    Key,
    KeyKind,
    SchemaVersion,
    read_key,
    read_value,
    read_version,
)

COMPATIBILITY: Final = "compatibilityLevel"
ALIAS: Final = "alias"


class Mode(StrEnum):
    """What may be changed in a subject, a context or the registry."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """Of the global level: nothing may be changed, whatever the modes of subjects are."""
    IMPORT = "IMPORT"
    """Schemas are registered with the ids and versions that they had elsewhere."""


class Filter(Enum):
    """Which versions are listed."""

    LIVE = 0
    ALL = 1
    DELETED = 2

    def takes(self, version: SchemaVersion) -> bool:
        """Whether the version is listed."""
        return self is Filter.ALL or version.deleted == (self is Filter.DELETED)


class RecordOutcome(Enum):
    """What became of a record."""

    APPLIED = 0
    REJECTED = 1
    """It contradicts an earlier record; see the module's docstring."""
    IGNORED = 2
    """It is of no kind that is known."""


Use = tuple[str, int]
"""A subject and a version."""


def same_schema(one: SchemaVersion, other: SchemaVersion) -> bool:
    """Whether two versions have the same schema, references, metadata and rules."""
    return (
        one.digest == other.digest
        and one.schema == other.schema
        and one.references == other.references
        and one.metadata == other.metadata
        and one.rule_set == other.rule_set
    )


@dataclass
class SchemaContext:
    """The ids of a context."""

    ids: dict[int, dict[Use, SchemaVersion]] = field(default_factory=dict)
    """The versions of each id, the latest registered last; also those that are deleted."""
    digests: dict[bytes, dict[int, None]] = field(default_factory=dict)
    """The ids of each digest, the latest last."""
    max_id: int = 0
    """The highest id that was ever given."""

    def add(self, version: SchemaVersion) -> None:
        """Index a version by its id and digest."""
        uses = self.ids.setdefault(version.id, {})
        uses.pop((version.subject, version.version), None)
        uses[version.subject, version.version] = version
        same = self.digests.setdefault(version.digest, {})
        same.pop(version.id, None)
        same[version.id] = None
        self.max_id = max(self.max_id, version.id)

    def remove(self, version: SchemaVersion) -> None:
        """Remove a version from the indexes.  Its id is free of no use afterwards, but given."""
        uses = self.ids.get(version.id, {})
        uses.pop((version.subject, version.version), None)
        if not uses:
            self.ids.pop(version.id, None)
            same = self.digests.get(version.digest, {})
            same.pop(version.id, None)
            if not same:
                self.digests.pop(version.digest, None)

    def of_id(self, schema_id: int) -> SchemaVersion | None:
        """A version with this id: one that is not deleted, if there is any."""
        uses = list(self.ids.get(schema_id, {}).values())
        return next((each for each in uses if not each.deleted), uses[0] if uses else None)

    def id_of(self, version: SchemaVersion) -> int | None:
        """The id of an equal schema in this context, or None."""
        for schema_id in reversed(list(self.digests.get(version.digest, ()))):
            known = self.of_id(schema_id)
            if known is not None and same_schema(known, version):
                return schema_id
        return None


class RegistryState:
    """The state of a registry."""

    def __init__(self) -> None:
        """An empty registry."""
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        """The versions of each subject, also those that are deleted."""
        self.contexts: dict[str, SchemaContext] = {DEFAULT_CONTEXT: SchemaContext()}
        self.configs: dict[str | None, JsonObject] = {}
        self.modes: dict[str | None, str] = {}
        self.referrers: dict[Use, dict[Use, int]] = {}
        """The live versions that refer to a version, with their ids."""
        self.repairs: dict[Key, SchemaVersion | None] = {}
        """Versions that a rejected record has replaced in the topic, until they are written
        again; None: there was no such version, and the key is to be removed."""

    def become(self, other: RegistryState) -> None:
        """Take over the state of another registry, which is not used any longer."""
        self.subjects, self.contexts = other.subjects, other.contexts
        self.configs, self.modes = other.configs, other.modes
        self.referrers, self.repairs = other.referrers, other.repairs

    # -- records

    def apply(self, key_bytes: bytes | None, value_bytes: bytes | None) -> RecordOutcome:
        """Apply a record.  Raises InvalidRecordError if no registry writes such a record."""
        key = read_key(key_bytes)
        if key is None:
            return RecordOutcome.IGNORED
        value = read_value(value_bytes)
        if key.kind is KeyKind.SCHEMA:
            return self._apply_schema(key, value)
        if key.kind is KeyKind.CONFIG:
            self._set(self.configs, key.subject, value)
        elif key.kind is KeyKind.MODE:
            self._set(self.modes, key.subject, None if value is None else value.get("mode"))
        elif key.kind is KeyKind.DELETE_SUBJECT:
            self._delete_until(key.subject or "", value)
        elif key.kind is KeyKind.CLEAR_SUBJECT:
            self._forget_deleted(key.subject)
        elif key.kind is KeyKind.CONTEXT:
            self._apply_context(key.subject or DEFAULT_CONTEXT, value)
        elif key.kind is KeyKind.NOOP:
            self._raise_max_ids({} if value is None else value.get(MAX_IDS))
        return RecordOutcome.APPLIED

    def _apply_schema(self, key: Key, value: JsonObject | None) -> RecordOutcome:
        """Add, replace or remove a version."""
        assert key.subject is not None
        assert key.version is not None
        old = self.subjects.get(key.subject, {}).get(key.version)
        if value is None:
            self.repairs.pop(key, None)
            if old is not None:
                self._remove(old)
            return RecordOutcome.APPLIED
        new = read_version(value)
        if (new.subject, new.version) != (key.subject, key.version):
            raise InvalidRecordError("the value is of another version than the key")
        if not self._is_valid(old, new):
            self.repairs[key] = old
            return RecordOutcome.REJECTED
        self.repairs.pop(key, None)
        self._add(new, old)
        return RecordOutcome.APPLIED

    def _is_valid(self, old: SchemaVersion | None, new: SchemaVersion) -> bool:
        """Whether the record of a version agrees with earlier records."""
        is_same_version = old is None or (old.id == new.id and old.schema == new.schema)
        uses = self.context(new.subject).ids.get(new.id, {})
        is_same_id = all(each.schema == new.schema for each in list(uses.values())[:1])
        if is_same_version and is_same_id:
            return True
        if self.mode_in_scope(new.subject) != Mode.IMPORT:
            return False
        # In import mode a version may be replaced, and with it the only use of an id.
        return is_same_id or list(uses) == [(new.subject, new.version)]

    def context(self, subject: str) -> SchemaContext:
        """The context of a subject; an empty one if it is not known."""
        return self.contexts.get(context_of(subject)) or SchemaContext()

    def _add(self, new: SchemaVersion, old: SchemaVersion | None) -> None:
        versions = self.subjects.setdefault(new.subject, {})
        context = self.contexts.setdefault(context_of(new.subject), SchemaContext())
        if old is not None:
            context.remove(old)
            self._refer(old, is_live=False)
        versions[new.version] = new
        context.add(new)
        self._refer(new, is_live=not new.deleted)

    def _remove(self, old: SchemaVersion) -> None:
        self.contexts[context_of(old.subject)].remove(old)
        self._refer(old, is_live=False)
        versions = self.subjects[old.subject]
        del versions[old.version]
        if not versions:
            del self.subjects[old.subject]

    def _refer(self, version: SchemaVersion, *, is_live: bool) -> None:
        """Note or forget that a version refers to others."""
        own = (version.subject, version.version)
        for each in version.references:
            target = (in_context_of(version.subject, each.subject), each.version)
            if is_live:
                self.referrers.setdefault(target, {})[own] = version.id
            elif target in self.referrers:
                self.referrers[target].pop(own, None)
                if not self.referrers[target]:
                    del self.referrers[target]

    def _delete_until(self, subject: str, value: JsonObject | None) -> None:
        """Mark versions up to the one in the value as deleted."""
        last = 0 if value is None else value.get("version", 0)
        if not isinstance(last, int):
            raise InvalidRecordError("the version is no number")
        for version in self.versions(subject):
            if version.version <= last:
                self._add(version.marked_deleted(), version)

    def _forget_deleted(self, subject: str | None) -> None:
        """Remove the deleted versions of a subject, a context, or everywhere (None)."""
        for name in self.matching(subject or ""):
            for version in self.versions(name, Filter.DELETED):
                self._remove(version)

    def _apply_context(self, context: str, value: JsonObject | None) -> None:
        if value is not None:
            self.contexts.setdefault(context, SchemaContext())
        elif context != DEFAULT_CONTEXT and not self.has_subjects(whole_context(context)):
            self.contexts.pop(context, None)

    def _raise_max_ids(self, max_ids: object) -> None:
        given = max_ids if isinstance(max_ids, dict) else {}
        if not all(isinstance(max_id, int) for max_id in given.values()):
            raise InvalidRecordError("an id is no number")
        for name, max_id in given.items():
            context = self.contexts.setdefault(name, SchemaContext())
            context.max_id = max(context.max_id, max_id)

    @staticmethod
    def _set(kept: dict[str | None, Any], subject: str | None, value: object) -> None:
        """Keep a config or mode under the name of its level; of the default context: None."""
        level = subject or None
        if value is None:
            kept.pop(level, None)
        else:
            kept[level] = value

    # -- subjects

    def versions(self, subject: str, which: Filter = Filter.LIVE) -> list[SchemaVersion]:
        """The versions of a subject, the oldest first."""
        found = sorted(self.subjects.get(subject, {}).items())
        return [version for _, version in found if which.takes(version)]

    def version(
        self, subject: str, number: int | None, *, deleted: bool = False
    ) -> SchemaVersion | None:
        """As `own_version`; a name without a context is looked for in all contexts, the default
        one first."""
        found = (self.own_version(each, number, deleted=deleted) for each in self._names(subject))
        return next((each for each in found if each is not None), None)

    def own_version(
        self, subject: str, number: int | None, *, deleted: bool = False
    ) -> SchemaVersion | None:
        """A version, or the latest that is not deleted (None).

        One that is deleted is returned with `deleted` only.
        """
        if number is None:
            live = [
                each for each in list(self.subjects.get(subject, {}).values()) if not each.deleted
            ]
            return max(live, key=lambda each: each.version, default=None)
        found = self.subjects.get(subject, {}).get(number)
        return None if found is None or (found.deleted and not deleted) else found

    def _names(self, subject: str) -> Iterator[str]:
        """The subject, and subjects of the same name in other contexts."""
        yield subject
        name = split_name(subject)
        if name.context == DEFAULT_CONTEXT:
            for context in list(self.contexts):
                if context != DEFAULT_CONTEXT:
                    yield name._replace(context=context).text

    def matching(self, prefix: str) -> list[str]:
        """The subjects that begin with a prefix, sorted.

        Without a context those of the default context match, with `:*:` those of all contexts.
        """
        subjects = sorted(list(self.subjects))
        if prefix.startswith(ALL_CONTEXTS):
            rest = prefix.removeprefix(ALL_CONTEXTS)
            return [each for each in subjects if split_name(each).subject.startswith(rest)]
        wanted = split_name(prefix)
        return [
            each
            for each in subjects
            if (name := split_name(each)).context == wanted.context
            and name.subject.startswith(wanted.subject)
        ]

    def has_subjects(self, subject: str, *, deleted: bool = False) -> bool:
        """Whether a subject, or any of a context (`:.context:`), has versions."""
        which = Filter.ALL if deleted else Filter.LIVE
        names = [subject] if split_name(subject).subject else self.matching(subject)
        return any(self.versions(name, which) for name in names)

    # -- ids

    def by_id(self, schema_id: int, subject: str = "") -> SchemaVersion | None:
        """A version with this id, if possible of the subject, which names the context, too."""
        if split_name(subject).subject:
            for name in self._names(subject):
                for use, version in list(self.context(name).ids.get(schema_id, {}).items()):
                    if use[0] == name:
                        return version
        return self.context(subject).of_id(schema_id)

    def uses(self, version: SchemaVersion, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions with the same id in the same context, sorted by subject and version."""
        context = self.contexts[context_of(version.subject)]
        found = sorted(context.ids.get(version.id, {}).items())
        return [each for _, each in found if deleted or not each.deleted]

    def by_guid(self, guid: str) -> list[SchemaVersion]:
        """One version for each context and id with this globally unique id."""
        try:
            digest = bytes.fromhex(guid.replace("-", ""))
        except ValueError:
            return []
        found = [
            context.of_id(schema_id)
            for context in list(self.contexts.values())
            for schema_id in list(context.digests.get(digest, ()))
        ]
        return [each for each in found if each is not None]

    # -- configs and modes

    def config(self, subject: str | None) -> JsonObject | None:
        """The config of exactly this level, or None.  None is the global level."""
        return self.configs.get(subject or None)

    def config_in_scope(self, subject: str | None) -> JsonObject:
        """The config that holds for a subject: its own, then its context's, then the global one.

        An alias is of one subject alone, so it is left out.
        """
        merged: JsonObject = {}
        for level in reversed(list(_levels(subject))):
            merged |= self.configs.get(level, {})
        merged.pop(ALIAS, None)
        return merged

    def mode(self, subject: str | None) -> str | None:
        """The mode of exactly this level, or None."""
        return self.modes.get(subject or None)

    def mode_in_scope(self, subject: str | None) -> str:
        """The mode that holds for a subject."""
        if self.modes.get(None) == Mode.READONLY_OVERRIDE:
            return Mode.READONLY_OVERRIDE
        found = next((self.modes[each] for each in _levels(subject) if each in self.modes), None)
        try:
            return Mode.READWRITE if found is None else Mode(found)
        except ValueError:
            return found or Mode.READWRITE

    def resolved_alias(self, subject: str) -> str:
        """The subject for which a name stands, if a config makes it an alias."""
        alias = self.configs.get(subject, {}).get(ALIAS)
        return alias if isinstance(alias, str) and alias else subject

    def max_ids(self) -> dict[str, int]:
        """The highest id of each context that has any."""
        return {name: each.max_id for name, each in list(self.contexts.items()) if each.max_id}


def _levels(subject: str | None) -> Iterator[str | None]:
    """The levels that hold for a subject, the nearest first: itself, its context, all."""
    if subject:
        yield subject
        whole = whole_context(context_of(subject))
        if whole and whole != subject:
            yield whole
    yield None
