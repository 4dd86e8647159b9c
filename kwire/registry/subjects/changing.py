"""Decisions to delete versions and subjects, and to change configs and modes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kwire.registry.schemas.levels import CompatibilityLevel
from kwire.registry.subjects.errors import (
    context_not_empty,
    invalid_compatibility,
    invalid_mode,
    invalid_subject,
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from kwire.registry.subjects.names import (
    DEFAULT_CONTEXT,
    has_controls,
    split_name,
    whole_context,
)
from kwire.registry.subjects.records import (
    MAX_IDS,
    NOOP,
    JsonObject,
    Key,
    KeyKind,
    SchemaVersion,
    Write,
)
from kwire.registry.subjects.registering import check_writable
from kwire.registry.subjects.state import COMPATIBILITY, Filter, Mode, RegistryState

CONFIG_FIELDS: Final[dict[str, type]] = {
    "alias": str,
    "normalize": bool,
    "validateFields": bool,
    "validateRules": bool,
    COMPATIBILITY: str,
    "compatibilityGroup": str,
    "compatibilityPolicy": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}
"""The fields of a config, and their types."""


def max_ids_write(registry: RegistryState) -> Write:
    """A record that keeps the highest ids."""
    return Write(NOOP, {MAX_IDS: registry.max_ids()})


def delete_version(
    registry: RegistryState, subject: str, number: int | None, *, permanent: bool, shown: str
) -> tuple[int, list[Write]]:
    """Delete a version; None is the latest.  Returns its number, and the records to write.

    `shown` is the version in messages.  Raises RegistryError.
    """
    version = registry.own_version(subject, number, deleted=True)
    if version is None and not registry.has_subjects(subject, deleted=True):
        raise subject_not_found(subject)
    if version is None:
        raise version_not_found(-1 if number is None else number)
    if version.deleted and not permanent:
        raise version_soft_deleted(subject, shown)
    check_writable(registry, version.subject)
    _check_unreferenced(registry, version)
    if not permanent:
        writes = [Write(version.key, version.marked_deleted().value())]
        if len(registry.versions(version.subject)) == 1:
            writes += _forget_settings(registry, version.subject)
        return version.version, writes
    if not version.deleted:
        raise version_not_soft_deleted(subject, shown)
    return version.version, _removed(registry, [version])


def delete_subject(
    registry: RegistryState, subject: str, *, permanent: bool
) -> tuple[list[int], list[Write]]:
    """Delete a subject.  Returns the versions that it had, and the records to write.

    Raises RegistryError.
    """
    if not registry.has_subjects(subject, deleted=True):
        raise subject_not_found(subject)
    if not permanent and not registry.has_subjects(subject):
        raise subject_soft_deleted(subject)
    check_writable(registry, subject)
    versions = registry.versions(subject, Filter.ALL if permanent else Filter.LIVE)
    for version in versions:
        _check_unreferenced(registry, version)
        if permanent and not version.deleted:
            raise subject_not_soft_deleted(subject)
    numbers = [version.version for version in versions]
    if permanent:
        return numbers, _removed(registry, versions)
    value: JsonObject = {"subject": subject, "version": numbers[-1]}
    writes = [Write(Key(KeyKind.DELETE_SUBJECT, subject), value)]
    return numbers, [*writes, *_forget_settings(registry, subject)]


def _check_unreferenced(registry: RegistryState, version: SchemaVersion) -> None:
    """Raise RegistryError if a live version refers to this one."""
    if registry.referrers.get((version.subject, version.version)):
        raise reference_exists(version.subject, version.version)


def _removed(registry: RegistryState, versions: Iterable[SchemaVersion]) -> list[Write]:
    """Tombstones, and the highest ids, which are not given again."""
    return [max_ids_write(registry), *(Write(version.key, None) for version in versions)]


def _forget_settings(registry: RegistryState, subject: str) -> list[Write]:
    """Tombstones of the subject's own mode and config."""
    kept = ((KeyKind.MODE, registry.modes), (KeyKind.CONFIG, registry.configs))
    return [Write(Key(kind, subject), None) for kind, levels in kept if subject in levels]


# -- configs


def read_config(fields: dict[str, Any]) -> JsonObject:
    """The config in the body of a request, with the names of records.

    Fields that are null are kept, because they remove what was set.  Raises RegistryError.
    """
    given = dict(fields)
    if "compatibility" in given:
        given[COMPATIBILITY] = given.pop("compatibility")
    config = {name: given[name] for name in CONFIG_FIELDS if name in given}
    for name, value in config.items():
        if value is not None and not isinstance(value, CONFIG_FIELDS[name]):
            raise invalid_compatibility()
    level = config.get(COMPATIBILITY)
    if isinstance(level, str):
        if level.upper() not in CompatibilityLevel.__members__:
            raise invalid_compatibility()
        config[COMPATIBILITY] = level.upper()
    if not config:
        raise invalid_compatibility()
    return config


def set_config(registry: RegistryState, subject: str, config: JsonObject) -> list[Write]:
    """Change the config of a subject, a context or, with an empty name, of all."""
    check_level(subject)
    check_writable(registry, subject)
    level = subject or None
    merged = {**(registry.config(subject) or {}), **config}
    value = {name: each for name, each in merged.items() if each is not None and name != "subject"}
    named = {"subject": level} if level else {}
    return [Write(Key(KeyKind.CONFIG, level), {**named, **value})]


def delete_config(registry: RegistryState, subject: str) -> tuple[JsonObject, list[Write]]:
    """Remove the config of a level.  Returns what it was.  Raises RegistryError."""
    check_writable(registry, subject)
    config = registry.config(subject)
    if config is None and subject:
        raise subject_not_found(subject)
    writes = [] if config is None else [Write(Key(KeyKind.CONFIG, subject or None), None)]
    return config or {}, writes


# -- modes


def set_mode(registry: RegistryState, subject: str, text: object, *, force: bool) -> list[Write]:
    """Change the mode of a subject, a context or, with an empty name, of all.

    Import mode needs a level without schemas, unless `force`.  Raises RegistryError.
    """
    check_level(subject)
    mode = str(text).upper()
    if mode not in Mode.__members__:
        raise invalid_mode()
    writes: list[Write] = []
    if mode == Mode.IMPORT and registry.mode_in_scope(subject) != Mode.IMPORT and not force:
        names = [subject] if split_name(subject).subject else registry.matching(subject)
        versions = [each for name in names for each in registry.versions(name, Filter.ALL)]
        if not all(version.deleted for version in versions):
            raise not_permitted("Cannot import since found existing subjects")
        for version in versions:
            _check_unreferenced(registry, version)
        if versions:
            writes += _removed(registry, versions)
        level = subject or None
        value: JsonObject = {"subject": level} if level else {}
        writes.append(Write(Key(KeyKind.CLEAR_SUBJECT, level), value))
    named: JsonObject = {"subject": subject} if subject else {}
    return [*writes, Write(Key(KeyKind.MODE, subject or None), {**named, "mode": mode})]


def delete_mode(registry: RegistryState, subject: str) -> tuple[str, list[Write]]:
    """Remove the mode of a level.  Returns what it was.  Raises RegistryError."""
    mode = registry.mode(subject)
    if mode is None and subject:
        raise subject_not_found(subject)
    writes = [] if mode is None else [Write(Key(KeyKind.MODE, subject or None), None)]
    return mode or Mode.READWRITE, writes


def delete_context(registry: RegistryState, context: str) -> list[Write]:
    """Remove a context without subjects.  Raises RegistryError."""
    if context == DEFAULT_CONTEXT or registry.has_subjects(whole_context(context), deleted=True):
        raise context_not_empty(context)
    if context not in registry.contexts:
        raise subject_not_found(whole_context(context))
    return [Write(Key(KeyKind.CONTEXT, context), None)]


def check_level(subject: str) -> None:
    """Raise RegistryError if the name cannot have a config or mode."""
    if has_controls(subject):
        raise invalid_subject(subject)
