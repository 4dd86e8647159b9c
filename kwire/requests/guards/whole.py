"""Guards of requests that need one right, and are otherwise refused as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.messages import response_class

if TYPE_CHECKING:
    from kwire.codecs.primitives import Message
    from kwire.requests.guards.base import Access, Guard, Proceed, Refuse, Request, Response

ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a request whose sender lacks the right, by the type of the resource."""


def nothing(access: Access, request: Request, proceed: Proceed) -> Response:
    """Pass every request on to the handler: its API key needs no right."""
    return proceed(request)


def one(operation: AclOperation, kind: ResourceType, refuse: Refuse) -> Guard:
    """Return a guard that requires the right `operation` on the request's one resource.

    Without the right `refuse` makes the response.
    """

    def guard(access: Access, request: Request, proceed: Proceed) -> Response:
        if access.may(operation, kind, _name(kind, request)):
            return proceed(request)
        message = f"Request needs {operation.name} permission."
        return refuse(request, ERRORS[kind], access.version, message)

    return guard


def _name(kind: ResourceType, request: Request) -> str:
    """Return the name of the resource of type `kind` that the request is about."""
    if kind is ResourceType.CLUSTER:
        return CLUSTER_NAME
    name: str = request.group_id if kind is ResourceType.GROUP else request.transactional_id
    return name


def with_error(request: Request, error: ErrorCode, version: int, message: str) -> Message:
    """Return a response with `error` for the whole request.

    The response class must have a field `error_code` at its top level.
    """
    response = response_class(request.API_KEY)()
    has_field = put_error(response, error)
    assert has_field, f"{type(response).__name__} has no error_code: its handler needs `refuse`"
    return response
