"""StreamsGroupHeartbeat (key 88): v0-1.

Behaviour
- Member epoch 0 joins the group with its topology, -1 leaves it.  With any other epoch the
  heartbeat keeps the session, has the tasks that the member owns, and the response has its
  assignment (KIP-1071).
- UNSUPPORTED_VERSION if feature `streams.version` is 0 or `group.coordinator.rebalance.protocols`
  does not have the protocol.
- The broker creates missing internal topics after the response, if the sender has the right to
  create them.  If that fails, the next responses have the reasons.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID say that the sender is no longer a member.

Version notes: v1 has the acceptable recovery lag as 64 bits, the status MISSING_CLIENT_TAGS
(KIP-1357), and asks one member at a time for a description of the topology (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import STREAMS_VERSION
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kwire.coordinators.runtime.promise import then
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import JOIN_EPOCH
from kwire.groups.streams.configuring import StatusCode
from kwire.groups.streams.decision import StreamsHeartbeatReply
from kwire.groups.streams.validation import refused, refused_topics, topics_of
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.describing import may_know
from kwire.requests.route import Right, Route

PROTOCOL = "streams"
FAILURES_LISTED_MAX = 3


def is_served(broker: Broker) -> bool:
    """Whether this protocol is enabled."""
    is_finalized = broker.image.features.level(STREAMS_VERSION) > 0
    return is_finalized and PROTOCOL in broker.config.group_coordinator_rebalance_protocols


ROUTE = Route(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 1, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: StreamsGroupHeartbeatRequest, context: Context
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    """Pass a valid heartbeat to the group coordinator, and return its response.

    UNSUPPORTED_VERSION if the protocol is disabled; an invalid request has Kafka's error.
    """
    if not is_served(broker):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused_topics(request.topology) or refused(request)
    if refusal is not None:
        return StreamsGroupHeartbeatResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    caller = HeartbeatCaller(
        context.client_id or "", f"/{context.client_host}", api_version=context.api_version
    )
    reply = broker.coordinators.groups.streams_group_heartbeat(request, caller)
    may_create, version = context.may_create, context.api_version

    def shape(heartbeat_reply: StreamsHeartbeatReply) -> StreamsGroupHeartbeatResponse:
        descriptions = broker.coordinators.groups.descriptions
        if descriptions is not None and request.member_epoch >= JOIN_EPOCH:
            descriptions.ask(heartbeat_reply, request.group_id, version)
        return _response(broker, heartbeat_reply, may_create)

    return then(reply, shape)


def _response(
    broker: Broker, reply: StreamsHeartbeatReply, may_create: Callable[[str], bool] | None
) -> StreamsGroupHeartbeatResponse:
    """Create missing internal topics in the background; return the response with their status.

    If the sender may not create one of them, none is created.
    """
    response, topics = reply.response, reply.to_create
    if topics:
        denied = [name for name in topics if may_create is not None and not may_create(name)]
        if denied:
            _add(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
        else:
            # A topic that could not be created is tried again after two heartbeats.
            failures = broker.coordinators.groups.streams_topics(
                broker.settings, broker.membership
            ).want(topics, 2 * response.heartbeat_interval_ms)
            if failures:
                _add(response, f"; Creation failed: {_listed(failures)}.")
    return response


def _add(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """Append `detail` to the status about missing internal topics."""
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += detail


def _listed(failures: Mapping[str, str]) -> str:
    """Return the first failures as text for the client, and how many more there are."""
    listed = [f"{name} ({reason})" for name, reason in failures.items()][:FAILURES_LISTED_MAX]
    more = len(failures) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


# -- rights


def guard(access: Access, request: StreamsGroupHeartbeatRequest, proceed: Proceed) -> Response:
    """Require READ on the group and DESCRIBE on all topics of the topology.

    The handler refuses topics with invalid names; that error comes before missing rights.  The
    handler also asks `context.may_create` before it creates internal topics.
    """
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topology = request.topology
    if refused_topics(topology) is None and not may_know(access, topics_of(topology)):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    authority, sender = access.authority, copy(access.context)
    access.context.may_create = lambda name: (
        authority.on_cluster(sender, AclOperation.CREATE, quiet=True)
        or authority.allows(sender, AclOperation.CREATE, ResourceType.TOPIC, name)
    )
    return proceed(request)
