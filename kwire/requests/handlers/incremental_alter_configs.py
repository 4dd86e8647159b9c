"""IncrementalAlterConfigs (key 44): v0-1 (KIP-339).

Behaviour
- Sets (0) or deletes (1) single configs of topics, brokers, groups and client metrics
  subscriptions; appends to (2) and subtracts from (3) lists of topics and brokers.  Other configs
  do not change.  Appending an existing item and subtracting a missing one change nothing.
- A resource is changed as a whole or not at all: INVALID_CONFIG or INVALID_REQUEST with Kafka's
  message, UNKNOWN_TOPIC_OR_PARTITION for unknown topics.  A resource that stands twice gives
  INVALID_REQUEST both times, and so does a config.
- A broker resource is the broker's own id, or the empty name for all brokers.  Configs that cannot
  change at run time are refused; so are certificates that a listener cannot use, and `listeners`,
  which Apache Kafka can change.
- Broker loggers: sets the levels of existing loggers until the process ends (KIP-412); deleting
  gives a logger its parent's level again.
- `validate_only` checks and changes nothing.

Version notes: v1 is flexible.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.config_changes import (
    ConfigChange,
    config_decisions,
    refuse_repeated,
    refuse_unclear,
)
from kwire.cluster.decisions.config_edits import ConfigEdit, edited_by, names_without_value
from kwire.cluster.decisions.logger_levels import levels
from kwire.cluster.membership.committing import commit_configs
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import decide_all
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.requests.config_requests import refuse_or_forward
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Request, Response
from kwire.requests.guards.configs import by_resource, denial_of
from kwire.requests.route import Right, Route
from kwire.requests.routes import Send
from kwire.security.store_changes import refuse_bad_stores, to_be_looked_at
from kwire.settings import ConfigResourceType
from kwire.settings.entries import logger_names, logger_of

log = logging.getLogger("kwire.configs")

ROUTE = Route(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    1,
    Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
    by_controller=True,
)


def handle(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse | Awaitable[IncrementalAlterConfigsResponse]:
    """Edit single configs of each resource, and return one result per resource.

    The levels of broker loggers change at once and are not stored.  With `validate_only` nothing
    changes.
    """
    edits = [_edits(resource) for resource in request.resources]
    changes = _changes(request, edits)
    stored = []
    for change, resource_edits in zip(changes, edits, strict=True):
        if change.resource_type != ConfigResourceType.BROKER_LOGGER:
            stored.append(change)
        elif change.refusal is None:
            _change_loggers(broker, change, resource_edits, request.validate_only)
    if request.validate_only and not to_be_looked_at(broker.settings, broker.image, stored):
        decide_all(broker.image, config_decisions(broker.settings, stored))
        return _response(changes)
    return _commit(broker, stored, changes, request.validate_only)


def _changes(
    request: IncrementalAlterConfigsRequest, edits: Sequence[Sequence[ConfigEdit]]
) -> list[ConfigChange]:
    """Return the change of each resource; those that stand twice are refused."""
    changes = [
        ConfigChange(
            resource.resource_type,
            resource.resource_name,
            edited_by(resource.resource_type, resource_edits),
            [edit.name for edit in resource_edits],
            names_without_value(resource_edits),
        )
        for resource, resource_edits in zip(request.resources, edits, strict=True)
    ]
    refuse_repeated(changes)
    return changes


async def forward(
    broker: Broker, request: IncrementalAlterConfigsRequest, context: Context, send: Send
) -> IncrementalAlterConfigsResponse:
    """Return the response whose refusals are this broker's, or else the controllers'.

    The broker changes its own loggers, and checks the right to do so, itself.
    """
    edits = [_edits(resource) for resource in request.resources]
    changes = _changes(request, edits)
    stored = []
    for resource, change, resource_edits in zip(request.resources, changes, edits, strict=True):
        if change.resource_type != ConfigResourceType.BROKER_LOGGER:
            stored.append((resource, change))
        elif change.refusal is None:
            change.refusal = _logger_denial(broker, resource, change, context)
            if change.refusal is None:
                _change_loggers(broker, change, resource_edits, request.validate_only)
    await refuse_or_forward(broker, request, stored, send)
    return _response(changes)


def _logger_denial(
    broker: Broker, resource: AlterConfigsResource, change: ConfigChange, context: Context
) -> Refusal | None:
    """Return why the sender may not change this broker's loggers; None if it may."""
    try:
        refuse_unclear(change.named, change.nulls)
    except Refusal as refusal:
        return refusal
    if broker.authorizer is None:
        return None
    access = Access(broker, broker.authorizer, context)
    denial = denial_of(access, AclOperation.ALTER_CONFIGS, resource)
    return None if denial is None else Refusal(*denial)


async def _commit(
    broker: Broker, stored: list[ConfigChange], changes: list[ConfigChange], validate_only: bool
) -> IncrementalAlterConfigsResponse:
    """Refuse changes that break the broker's TLS listeners, then store the others.

    `stored` are those of `changes` that are stored; the response is about all `changes`.
    """
    await refuse_bad_stores(broker.settings, broker.image, stored, broker.check_stores)
    if validate_only:
        decide_all(broker.image, config_decisions(broker.settings, stored))
    else:
        await commit_configs(broker.membership, broker.settings, stored, log)
    return _response(changes)


def _edits(resource: AlterConfigsResource) -> list[ConfigEdit]:
    """Return the requested edits of one resource: config name, operation and value."""
    return [
        ConfigEdit(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]


def _change_loggers(
    broker: Broker, change: ConfigChange, edits: Sequence[ConfigEdit], validate_only: bool
) -> None:
    """Set the levels of this broker's loggers, or set the refusal of `change`."""
    try:
        new_levels = levels(broker.settings, change.resource_name, edits, logger_names())
    except Refusal as refusal:
        change.refusal = refusal
        return
    if not validate_only:
        for name, level in new_levels.items():
            logger_of(name).setLevel(level)


def _response(changes: list[ConfigChange]) -> IncrementalAlterConfigsResponse:
    """Return the response with the result of each change."""
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


# -- rights


def guard(access: Access, request: Request, proceed: Proceed) -> Response:
    operation = AclOperation.ALTER_CONFIGS
    return by_resource(
        access, request, proceed, operation, "responses", AlterConfigsResourceResponse
    )
