"""The guards of requests about configs: each resource is allowed or refused by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.requests.guards.base import Access, Proceed, Request, Response, reshaped
from kwire.settings import ConfigResourceType

Errors = tuple[ErrorCode, str | None]

_TOPIC: Final = (
    ResourceType.TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "Topic authorization failed.",
)
_GROUP: Final = (
    ResourceType.GROUP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "Group authorization failed.",
)
_CLUSTER: Final = (
    ResourceType.CLUSTER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "Cluster authorization failed.",
)
RULES: Final = {
    ConfigResourceType.TOPIC: _TOPIC,
    ConfigResourceType.GROUP: _GROUP,
    ConfigResourceType.BROKER: _CLUSTER,
    ConfigResourceType.BROKER_LOGGER: _CLUSTER,
    ConfigResourceType.CLIENT_METRICS: _CLUSTER,
}
"""For each type of config resource: the type of the needed right, the error and the message."""

OF_ONE_BROKER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
"""Types of resources whose refused changes have no message, as in Apache Kafka 4.4."""


def denial_of(access: Access, operation: AclOperation, resource: Request) -> Errors | None:
    """Return the error and message if the sender lacks the right on `resource`, else None.

    A type of resource without a rule also gives None: the handler refuses it.
    """
    rule = RULES.get(resource.resource_type)
    if rule is None:
        return None  # the handler refuses it
    kind, error, message = rule
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
    if access.may(operation, kind, name):
        return None
    is_change = operation is AclOperation.ALTER_CONFIGS
    is_silent = is_change and resource.resource_type in OF_ONE_BROKER
    return error, None if is_silent else message


def _allowed_and_denied(
    access: Access, operation: AclOperation, resources: list[Request]
) -> tuple[list[Request], list[tuple[Request, Errors]]]:
    """Split `resources` into those that the sender may access, and the others with their error."""
    allowed, denied = [], []
    for resource in resources:
        denial = denial_of(access, operation, resource)
        if denial is None:
            allowed.append(resource)
        else:
            denied.append((resource, denial))
    return allowed, denied


def by_resource(
    access: Access,
    request: Request,
    proceed: Proceed,
    operation: AclOperation,
    results: str,
    answer: Callable[..., Response],
) -> Response:
    """Let the handler serve the permitted resources, then add the refusals to its response.

    `results` is the field of the response that lists the results, and `answer` makes the result of
    one refused resource.
    """
    request.resources, denied = _allowed_and_denied(access, operation, request.resources)

    def merge(response: Response) -> Response:
        getattr(response, results).extend(
            answer(*error, resource.resource_type, resource.resource_name)
            for resource, error in denied
        )
        return response

    return reshaped(proceed(request), merge)
