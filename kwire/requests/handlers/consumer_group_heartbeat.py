"""ConsumerGroupHeartbeat (key 68): v0-1.

Behaviour
- Joins with epoch 0, leaves with -1, a static member for a while with -2; else keeps the session,
  says what the member owns, and learns what it is to own (KIP-848).
- UNSUPPORTED_VERSION where `group.version` is off, or `group.coordinator.rebalance.protocols` does
  not name the protocol.
- FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID tell a member that it is out.

Version notes: subscriptions by a regular expression from v1, from which on the member also chooses
its id.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kwire.broker.broker import Broker
from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.groups.consumer.decision import ConsumerCaller
from kwire.groups.consumer.validation import refused
from kwire.requests.context import Context

PROTOCOL = "consumer"


def is_served(broker: Broker) -> bool:
    """Whether there are groups of this protocol."""
    on = broker.image.features.level(GROUP_VERSION) > 0
    return on and PROTOCOL in broker.config.group_coordinator_rebalance_protocols


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    if not is_served(broker):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused(request, context.api_version, broker.config.group_consumer_assignors)
    if refusal is not None:
        return refusal.response()
    caller = ConsumerCaller(
        context.client_id or "", f"/{context.client_host}", context.may_describe
    )
    reply = broker.coordinators.groups.consumer_group_heartbeat(request, caller)
    return reply if isinstance(reply, ConsumerGroupHeartbeatResponse) else reply.wait()
