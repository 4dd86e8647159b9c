"""IncrementalAlterConfigs (key 44): v0-1 (KIP-339).

Behaviour
- Sets (0) or deletes (1) single configs of topics, brokers, groups and client metrics
  subscriptions, appends to (2) and subtracts from (3) lists of topics and brokers; what is not
  named stays as it is.  Appending what is there and subtracting what is not changes nothing.
- Each resource is changed whole or not at all: INVALID_CONFIG or INVALID_REQUEST with Kafka's
  sentence, unknown topics UNKNOWN_TOPIC_OR_PARTITION.  A resource named twice is INVALID_REQUEST
  both times, and so is a config named twice.
- Brokers: their own id, or the empty name for all.  What cannot change at run time is refused,
  and so are `listeners`, which Apache Kafka can bind anew.
- Broker loggers: levels of those that exist, for as long as this process runs (KIP-412); deleting
  gives a logger its parent's level again.
- `validate_only` checks and changes nothing.

Version notes: v1 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from enum import IntEnum

from kwire.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.context import Context
from kwire.controller.config_changes import (
    Change,
    EditConfigs,
    check_kind,
    check_node_id,
    commit_changes,
    decisions,
    refuse_repeated,
    refuse_unclear,
)
from kwire.metadata.changes import decide_all
from kwire.metadata.refusal import Refusal
from kwire.settings import ConfigResourceType
from kwire.settings.broker import definition_of
from kwire.settings.definition import Definition
from kwire.settings.entries import LOG_LEVELS, ROOT_LOGGER, logger_names, logger_of
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(Operation)
_NOT_SET = 0  # logging.NOTSET: a logger takes its parent's level


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse | Awaitable[IncrementalAlterConfigsResponse]:
    changes = [_change(resource) for resource in request.resources]
    refuse_repeated(changes)
    stored = []
    for change, resource in zip(changes, request.resources, strict=True):
        if change.resource_type != ConfigResourceType.BROKER_LOGGER:
            stored.append(change)
        elif change.refusal is None:
            _change_loggers(broker, change, resource.configs, request.validate_only)
    if request.validate_only:
        clear = [each for each in stored if each.refusal is None]
        decide_all(broker.image, decisions(broker, clear))
        return _response(changes)
    return _commit(broker, stored, changes)


async def _commit(
    broker: Broker, stored: list[Change], changes: list[Change]
) -> IncrementalAlterConfigsResponse:
    await commit_changes(broker, stored)
    return _response(changes)


def _response(changes: list[Change]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                change.refusal.error if change.refusal is not None else ErrorCode.NONE,
                change.refusal.message if change.refusal is not None else None,
                change.resource_type,
                change.resource_name,
            )
            for change in changes
        ]
    )


def _change(resource: AlterConfigsResource) -> Change:
    kind = resource.resource_type
    return Change(kind, resource.resource_name, _edit(kind, resource.configs))


def _edit(kind: int, edits: list[AlterableConfig]) -> EditConfigs:
    def set_configs(before: Mapping[str, str]) -> dict[str, str]:
        _refuse_unclear(edits)
        check_kind(kind)
        after = dict(before)
        for edit in edits:
            name, value = edit.name, edit.value or ""
            if edit.config_operation == Operation.DELETE:
                after.pop(name, None)
            elif edit.config_operation == Operation.SET:
                after[name] = value
            else:
                operation = Operation(edit.config_operation)
                definition = _list_definition(kind, name, operation)
                have = after.get(name, definition.default_text or "")
                after[name] = _joined(have, value, operation)
        return after

    return set_configs


def _refuse_unclear(edits: list[AlterableConfig]) -> None:
    nulls = [
        edit.name
        for edit in edits
        if edit.value is None and edit.config_operation != Operation.DELETE
    ]
    refuse_unclear([edit.name for edit in edits], nulls)
    for edit in edits:
        if edit.config_operation not in _OPERATIONS:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Unknown config operation {edit.config_operation}"
            )


def _definition(kind: int, name: str) -> Definition | None:
    if kind == ConfigResourceType.TOPIC:
        return TopicSettings.DEFINITIONS.get(name)
    return definition_of(name) if kind == ConfigResourceType.BROKER else None


def _list_definition(kind: int, name: str, operation: Operation) -> Definition:
    """What is not set begins with Kafka's default, whatever the broker's file says."""
    definition = _definition(kind, name)
    if definition is None or definition.kind is not ConfigType.LIST:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    return definition


def _joined(have: str, value: str, operation: Operation) -> str:
    parts = [part.strip() for part in have.split(",") if part.strip()]
    edited = [part.strip() for part in value.split(",") if part.strip()]
    if operation is Operation.APPEND:
        parts.extend(part for part in edited if part not in parts)
    else:
        parts = [part for part in parts if part not in edited]
    return ",".join(parts)


# -- loggers


def _change_loggers(
    broker: Broker, change: Change, edits: list[AlterableConfig], validate_only: bool
) -> None:
    try:
        _refuse_unclear(edits)
        check_node_id(
            broker, change.resource_name, "Unexpected node id. Expected {0}, but received {1}"
        )
        for edit in edits:
            _check_logger(edit)
    except Refusal as refusal:
        change.refusal = refusal
        return
    if validate_only:
        return
    for edit in edits:
        deleted = edit.config_operation == Operation.DELETE
        logger_of(edit.name).setLevel(_NOT_SET if deleted else LOG_LEVELS[edit.value or ""])


def _check_logger(edit: AlterableConfig) -> None:
    operation = Operation(edit.config_operation)
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if edit.name not in logger_names():
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {edit.name} does not exist!")
    if operation is Operation.DELETE:
        if edit.name == ROOT_LOGGER:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            )
    elif edit.value not in LOG_LEVELS:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {edit.name} to {edit.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(sorted(LOG_LEVELS))}",
        )
