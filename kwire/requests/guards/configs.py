"""Guards of requests about configs, of which each resource is allowed or refused by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import alter_configs as alter
from kwire.codecs.messages import incremental_alter_configs as incremental
from kwire.codecs.messages.describe_configs import DescribeConfigsResult
from kwire.requests.guards.base import Access, Proceed, Request, Response, then
from kwire.settings import ConfigResourceType

if TYPE_CHECKING:
    from kwire.codecs.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    )

Errors = tuple[ErrorCode, str]

_OF_TOPICS: Final = (
    ResourceType.TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "Topic authorization failed.",
)
_OF_GROUPS: Final = (
    ResourceType.GROUP,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    "Group authorization failed.",
)
_OF_THE_CLUSTER: Final = (
    ResourceType.CLUSTER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    "Cluster authorization failed.",
)
_RULES: Final = {
    ConfigResourceType.TOPIC: _OF_TOPICS,
    ConfigResourceType.GROUP: _OF_GROUPS,
    ConfigResourceType.BROKER: _OF_THE_CLUSTER,
    ConfigResourceType.BROKER_LOGGER: _OF_THE_CLUSTER,
    ConfigResourceType.CLIENT_METRICS: _OF_THE_CLUSTER,
}
"""For each type of config resource: the type of the needed right, the error and the message."""


def _denial(access: Access, operation: AclOperation, resource: Request) -> Errors | None:
    rule = _RULES.get(resource.resource_type)
    if rule is None:
        return None  # the handler refuses it
    kind, error, message = rule
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
    return None if access.may(operation, kind, name) else (error, message)


def _allowed_and_denied(
    access: Access, operation: AclOperation, resources: list[Request]
) -> tuple[list[Request], list[tuple[Request, Errors]]]:
    allowed, denied = [], []
    for resource in resources:
        denial = _denial(access, operation, resource)
        if denial is None:
            allowed.append(resource)
        else:
            denied.append((resource, denial))
    return allowed, denied


def describe_configs(access: Access, request: DescribeConfigsRequest, proceed: Proceed) -> Response:
    if any(each.resource_type not in _RULES for each in request.resources):
        return proceed(request)  # the handler refuses the whole request
    request.resources, denied = _allowed_and_denied(
        access, AclOperation.DESCRIBE_CONFIGS, request.resources
    )

    def merge(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        response.results += [
            DescribeConfigsResult(*error, resource.resource_type, resource.resource_name)
            for resource, error in denied
        ]
        return response

    return then(proceed(request), merge)


def alter_configs(access: Access, request: Request, proceed: Proceed) -> Response:
    return _altering(access, request, proceed, alter.AlterConfigsResourceResponse)


def incremental_alter_configs(access: Access, request: Request, proceed: Proceed) -> Response:
    return _altering(access, request, proceed, incremental.AlterConfigsResourceResponse)


def _altering(
    access: Access,
    request: Request,
    proceed: Proceed,
    answer: Callable[..., Response],
) -> Response:
    request.resources, denied = _allowed_and_denied(
        access, AclOperation.ALTER_CONFIGS, request.resources
    )

    def merge(response: Response) -> Response:
        response.responses += [
            answer(*error, resource.resource_type, resource.resource_name)
            for resource, error in denied
        ]
        return response

    return then(proceed(request), merge)
