"""StreamsGroupHeartbeat (key 88): v0.

Behaviour
- Joins with epoch 0 and the topology, leaves with -1; else keeps the session, says which tasks the
  member owns, and learns which it is to have (KIP-1071).
- UNSUPPORTED_VERSION where `streams.version` is off, or `group.coordinator.rebalance.protocols`
  does not name the protocol.
- Internal topics that are missing are made behind the reply, for who may make them; why one could
  not be is told with the next replies.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID tell a member that it is out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kwire.broker.broker import Broker
from kwire.cluster.metadata.features import STREAMS_VERSION
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kwire.coordinators.runtime.promise import then
from kwire.groups.streams.configuring import StatusCode
from kwire.groups.streams.decision import HeartbeatReply
from kwire.groups.streams.validation import refused, refused_topics
from kwire.requests.context import Context

PROTOCOL = "streams"
FAILURES_TOLD_MAX = 3


def is_served(broker: Broker) -> bool:
    """Whether there are groups of this protocol."""
    on = broker.image.features.level(STREAMS_VERSION) > 0
    return on and PROTOCOL in broker.config.group_coordinator_rebalance_protocols


def handle(
    broker: Broker, request: StreamsGroupHeartbeatRequest, context: Context
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    if not is_served(broker):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused_topics(request.topology) or refused(request)
    if refusal is not None:
        return refusal.response()
    reply = broker.coordinators.groups.streams_group_heartbeat(
        request, context.client_id or "", f"/{context.client_host}"
    )
    may_create = context.may_create
    return then(reply, lambda told: _response(broker, told, may_create))


def _response(
    broker: Broker, reply: HeartbeatReply, may_create: Callable[[str], bool] | None
) -> StreamsGroupHeartbeatResponse:
    response, topics = reply.response, reply.to_create
    if topics:
        denied = [name for name in topics if may_create is not None and not may_create(name)]
        if denied:
            _add(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
        else:
            failures = broker.coordinators.groups.streams_topics(
                broker.settings, broker.membership
            ).want(topics, 2 * response.heartbeat_interval_ms)
            if failures:
                _add(response, f"; Creation failed: {_listed(failures)}.")
    return response


def _add(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """To what it is told of the topics that are missing."""
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += detail


def _listed(failures: Mapping[str, str]) -> str:
    told = [f"{name} ({why})" for name, why in failures.items()][:FAILURES_TOLD_MAX]
    more = len(failures) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")
