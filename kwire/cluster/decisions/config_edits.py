"""Changes of single configs; the others keep their values (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from kwire.cluster.decisions.config_changes import EditConfigs, check_kind, refuse_unclear
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import ConfigResourceType
from kwire.settings.broker import definition_of
from kwire.settings.definition import Definition
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(ConfigOperation)


class ConfigEdit(NamedTuple):
    """An edit of one config as a client sent it; `operation` may be an unknown number."""

    name: str
    operation: int
    value: str | None


def edited_by(kind: int, edits: Sequence[ConfigEdit]) -> EditConfigs:
    """A function that applies `edits` to the configs of a resource of this type."""
    return partial(_edited, kind, edits)


def _edited(kind: int, edits: Sequence[ConfigEdit], before: Mapping[str, str]) -> dict[str, str]:
    """Return a resource's configs after `edits`.  Raises Refusal.

    `kind` is the type of the resource.  APPEND and SUBTRACT change a list, which starts with the
    config's default value if the resource has none of its own.
    """
    refuse_unclear_edits(edits)
    check_kind(kind)
    after = dict(before)
    for edit in edits:
        name, value = edit.name, edit.value or ""
        if edit.operation == ConfigOperation.DELETE:
            after.pop(name, None)
        elif edit.operation == ConfigOperation.SET:
            after[name] = value
        else:
            operation = ConfigOperation(edit.operation)
            definition = _list_definition(kind, name, operation)
            have = after.get(name, definition.default_text or "")
            after[name] = _joined(have, value, operation)
    return after


def names_without_value(edits: Sequence[ConfigEdit]) -> list[str]:
    """Return the configs whose edit needs a value and has none."""
    return [
        edit.name
        for edit in edits
        if edit.value is None and edit.operation != ConfigOperation.DELETE
    ]


def refuse_unclear_edits(edits: Sequence[ConfigEdit]) -> None:
    """Raises Refusal for an edit that has no value, repeats a config, or is of unknown kind."""
    refuse_unclear([edit.name for edit in edits], names_without_value(edits))
    for edit in edits:
        if edit.operation not in _OPERATIONS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown config operation {edit.operation}")


def _definition(kind: int, name: str) -> Definition | None:
    if kind == ConfigResourceType.TOPIC:
        return TopicSettings.DEFINITIONS.get(name)
    return definition_of(name) if kind == ConfigResourceType.BROKER else None


def _list_definition(kind: int, name: str, operation: ConfigOperation) -> Definition:
    """Return the definition of a config, which must be of type LIST.  Raises Refusal.

    A config that is not set starts with Kafka's default, whatever the broker's file says.
    """
    definition = _definition(kind, name)
    if definition is not None and definition.kind is ConfigType.LIST:
        return definition
    if kind != ConfigResourceType.BROKER:
        sentence = f"Can't {operation.name} to key {name} because its type is not LIST."
    elif definition is None:
        sentence = f"Unknown config name: {name}"
    else:
        sentence = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
    raise Refusal(ErrorCode.INVALID_CONFIG, sentence)


def _joined(have: str, value: str, operation: ConfigOperation) -> str:
    """Return the list `have` with the elements of `value` appended or removed.

    Both are comma-separated.  An element that the list has already is not appended again.
    """
    parts = [part.strip() for part in have.split(",") if part.strip()]
    edited = [part.strip() for part in value.split(",") if part.strip()]
    if operation is ConfigOperation.APPEND:
        parts.extend(part for part in edited if part not in parts)
    else:
        parts = [part for part in parts if part not in edited]
    return ",".join(parts)
