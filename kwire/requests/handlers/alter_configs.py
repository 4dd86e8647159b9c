"""AlterConfigs (key 33): v0-2.  Clients use IncrementalAlterConfigs instead since Kafka 2.3.

Behaviour
- Replaces all configs of a topic, broker, group or client metrics subscription; an empty list
  resets all of them to their defaults.
- Each resource is changed or refused by itself: INVALID_CONFIG or INVALID_REQUEST with Kafka's
  message, UNKNOWN_TOPIC_OR_PARTITION for unknown topics.  A resource that stands twice gives
  INVALID_REQUEST both times.  (Apache Kafka never answers such a request.)
- This request cannot change loggers.
- `validate_only` checks and changes nothing.

Version notes: v1 may be throttled, v2 is flexible.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping

from kwire.broker.broker import Broker
from kwire.cluster.decisions.config_changes import (
    ConfigChange,
    EditConfigs,
    config_decisions,
    refuse_repeated,
    refuse_unclear,
)
from kwire.cluster.membership.committing import commit_configs
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import decide_all
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kwire.requests.config_requests import refuse_or_forward
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Request, Response
from kwire.requests.guards.configs import by_resource
from kwire.requests.route import Right, Route
from kwire.requests.routes import Send
from kwire.security.store_changes import refuse_bad_stores, to_be_looked_at

log = logging.getLogger("kwire.configs")

ROUTE = Route(
    ApiKey.ALTER_CONFIGS,
    0,
    2,
    Right(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
    by_controller=True,
)


def handle(
    broker: Broker, request: AlterConfigsRequest, context: Context
) -> AlterConfigsResponse | Awaitable[AlterConfigsResponse]:
    """Replace the configs of each resource, or only check them with `validate_only`.

    The response comes at once if nothing has to be stored or looked up in files.
    """
    changes = [_change(resource) for resource in request.resources]
    refuse_repeated(changes)
    if request.validate_only and not to_be_looked_at(broker.settings, broker.image, changes):
        decide_all(broker.image, config_decisions(broker.settings, changes))
        return _response(changes)
    return _commit(broker, changes, request.validate_only)


async def forward(
    broker: Broker, request: AlterConfigsRequest, context: Context, send: Send
) -> AlterConfigsResponse:
    """Return the response whose refusals are this broker's, or else the controllers'."""
    changes = [_change(resource) for resource in request.resources]
    refuse_repeated(changes)
    await refuse_or_forward(
        broker, request, list(zip(request.resources, changes, strict=True)), send
    )
    return _response(changes)


async def _commit(
    broker: Broker, changes: list[ConfigChange], validate_only: bool
) -> AlterConfigsResponse:
    """Refuse changes that break the broker's TLS listeners, then store the others."""
    await refuse_bad_stores(broker.settings, broker.image, changes, broker.check_stores)
    if validate_only:
        decide_all(broker.image, config_decisions(broker.settings, changes))
    else:
        await commit_configs(broker.membership, broker.settings, changes, log)
    return _response(changes)


def _change(resource: AlterConfigsResource) -> ConfigChange:
    """Return the change that replaces all configs of one resource."""
    return ConfigChange(
        resource.resource_type,
        resource.resource_name,
        _replacement(resource.configs),
        [config.name for config in resource.configs],
        [config.name for config in resource.configs if config.value is None],
    )


def _replacement(configs: list[AlterableConfig]) -> EditConfigs:
    """Return an edit that replaces all configs of a resource with `configs`.

    The edit raises Refusal if a config is named twice or has a null value.
    """

    def set_configs(before: Mapping[str, str]) -> dict[str, str]:
        nulls = [config.name for config in configs if config.value is None]
        refuse_unclear([config.name for config in configs], nulls)
        return {config.name: config.value for config in configs if config.value is not None}

    return set_configs


def _response(changes: list[ConfigChange]) -> AlterConfigsResponse:
    """Return the response with the result of each change."""
    return AlterConfigsResponse(
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
