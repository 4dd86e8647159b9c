"""Levels of the broker's own loggers (KIP-412).  No image holds them; a restart resets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kwire.cluster.decisions.config_changes import check_node_id
from kwire.cluster.decisions.config_edits import ConfigEdit, ConfigOperation, refuse_unclear_edits
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings.entries import LOG_LEVELS, ROOT_LOGGER
from kwire.settings.live import LiveSettings

NOT_SET = 0  # logging.NOTSET: a logger takes its parent's level


def levels(
    settings: LiveSettings,
    resource_name: str,
    edits: Sequence[ConfigEdit],
    logger_names: Collection[str],
) -> dict[str, int]:
    """The new level of each logger that `edits` name.

    Raises Refusal, also for a name that is not one of `logger_names`.
    """
    refuse_unclear_edits(edits)
    check_node_id(settings, resource_name, "Unexpected node id. Expected {0}, but received {1}")
    for edit in edits:
        _check(edit, logger_names)
    return {
        edit.name: NOT_SET
        if edit.operation == ConfigOperation.DELETE
        else LOG_LEVELS[edit.value or ""]
        for edit in edits
    }


def _check(edit: ConfigEdit, logger_names: Collection[str]) -> None:
    """Raise Refusal if a logger's level cannot be changed as `edit` requests."""
    operation = ConfigOperation(edit.operation)
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if edit.name not in logger_names:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {edit.name} does not exist!")
    if operation is ConfigOperation.DELETE:
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
