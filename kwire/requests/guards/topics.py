"""The guard of requests about several topics, of which each is allowed or refused by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.requests.guards.base import Access, Proceed, Request, Response, reshaped


def by_topic(
    access: Access,
    request: Request,
    proceed: Proceed,
    operation: AclOperation,
    refuse: Callable[[Response], Response],
    name_of: Callable[[Any], str] = lambda topic: str(topic.name),
) -> Response:
    """Let the handler answer for topics on which the sender may do `operation`.

    The answers of the other topics, which `refuse` makes, come first in the response.
    """
    topics = request.topics
    allowed, denied = access.split(operation, ResourceType.TOPIC, topics, name_of)
    if not denied:
        return proceed(request)
    refused = [refuse(topic) for topic in denied]
    # A copy: a shortcut must not learn from a request that lacks what its bytes contain.
    request = replace(request, topics=allowed)

    def merge(response: Response) -> Response:
        response.topics = [*refused, *response.topics]
        return response

    return reshaped(proceed(request), merge)
