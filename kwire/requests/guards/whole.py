"""Guards of requests that need one right, and are otherwise refused as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode, put_error
from kwire.codecs.messages import response_class
from kwire.requests.guards.refusals import REFUSALS

if TYPE_CHECKING:
    from kwire.codecs.primitives import Message
    from kwire.requests.guards.base import Access, Guard, Proceed, Request, Response

ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a request whose sender lacks the right, by the type of the resource."""


def nothing(access: Access, request: Request, proceed: Proceed) -> Response:
    """The guard of a request that needs no right."""
    return proceed(request)


def one(operation: AclOperation, kind: ResourceType) -> Guard:
    """The guard of a request that needs `operation` on its one resource of type `kind`."""

    def guard(access: Access, request: Request, proceed: Proceed) -> Response:
        if access.may(operation, kind, _name(kind, request)):
            return proceed(request)
        return refused(access, request, ERRORS[kind], operation)

    return guard


def _name(kind: ResourceType, request: Request) -> str:
    if kind is ResourceType.CLUSTER:
        return CLUSTER_NAME
    name: str = request.group_id if kind is ResourceType.GROUP else request.transactional_id
    return name


def refused(access: Access, request: Message, error: ErrorCode, operation: AclOperation) -> Message:
    """The response to a request that is refused as a whole."""
    api_key = ApiKey(access.context.api_key)
    if api_key in REFUSALS:
        refusal: Message = REFUSALS[api_key](
            request, error, access.version, f"Request needs {operation.name} permission."
        )
        return refusal
    response = response_class(api_key)()
    put_error(response, error)  # responses without this field are in REFUSALS
    return response
