"""A stand-in for the controllers of a cluster with KRaft, and a broker that forwards to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.stores.kraft.forwarding import Forwarding, NotForwarded
from kwire.codecs.messages.describe_quorum import DescribeQuorumResponse
from kwire.codecs.primitives import Message
from kwire.requests.context import Context
from kwire.requests.routes import bind, handle_guarded
from tests.requests.handlers.node import Node

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@dataclass
class Controllers:
    """Stands for `Forwarding`: answers each request by `respond`, or fails."""

    respond: Callable[[Any], Message] = lambda request: DescribeQuorumResponse()
    failure: NotForwarded | None = None
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    forwarded: list[Any] = field(default_factory=list)

    async def forward(self, request: Message, version: int, context: Context) -> Message:
        assert version == context.api_version
        self.forwarded.append(type(request).decode(request.encode(version), version))
        if self.failure is not None:
            raise self.failure
        return self.respond(request)


def join(node: Node, controllers: Controllers) -> None:
    """Let the broker forward requests."""
    membership = node.broker.membership
    assert isinstance(membership, LoneMembership)
    membership.forwarding = cast(Forwarding, controllers)


async def answer(
    node: Node,
    request: Message,
    version: int,
    *,
    principal: str = "User:alice",
    listener: str = "PLAINTEXT",
) -> Any:  # noqa: ANN401 - by API key
    """The broker's answer, through the guard if there is an authorizer."""
    assert request.API_KEY is not None
    binding = bind(request.API_KEY, version)
    context = Context(
        listener, "127.0.0.1", "a:1-b:2-3", principal, request.API_KEY, api_version=version
    )
    authority = node.broker.authorizer
    if authority is None:
        reply = binding.handle(node.broker, request, context)
    else:
        reply = handle_guarded(binding, node.broker, authority, request, context)
    return await reply if isinstance(reply, Awaitable) else reply
