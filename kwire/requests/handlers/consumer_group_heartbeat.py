"""ConsumerGroupHeartbeat (key 68): v0-1.

Behaviour
- Member epoch 0 joins the group, -1 leaves it, -2 leaves it for a while as a static member.  With
  any other epoch the heartbeat keeps the session, has the partitions that the member owns, and the
  response has its assignment (KIP-848).
- UNSUPPORTED_VERSION if feature `group.version` is 0 or `group.coordinator.rebalance.protocols`
  does not have the protocol.
- FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID say that the sender is no longer a
  member.

Version notes: from v1 members can subscribe by a regular expression, and choose their ids.
"""

from __future__ import annotations

from collections.abc import Awaitable
from copy import copy

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import GROUP_VERSION
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.consumer.validation import refused
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.describing import may_know
from kwire.requests.route import Right, Route

PROTOCOL = "consumer"


def is_served(broker: Broker) -> bool:
    """Whether this protocol is enabled."""
    is_finalized = broker.image.features.level(GROUP_VERSION) > 0
    return is_finalized and PROTOCOL in broker.config.group_coordinator_rebalance_protocols


ROUTE = Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, Right(AclOperation.READ, ResourceType.GROUP))


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Pass a valid heartbeat to the group coordinator, and return its response.

    UNSUPPORTED_VERSION if the protocol is disabled; an invalid request has Kafka's error.
    """
    if not is_served(broker):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    refusal = refused(request, context.api_version, broker.config.group_consumer_assignors)
    if refusal is not None:
        return ConsumerGroupHeartbeatResponse(
            error_code=refusal.error, error_message=refusal.message
        )
    caller = HeartbeatCaller(
        context.client_id or "", f"/{context.client_host}", context.may_describe
    )
    reply = broker.coordinators.groups.consumer_group_heartbeat(request, caller)
    return reply if isinstance(reply, ConsumerGroupHeartbeatResponse) else reply.wait()


# -- rights


def guard(access: Access, request: ConsumerGroupHeartbeatRequest, proceed: Proceed) -> Response:
    """Require READ on the group and DESCRIBE on all topics that the request names.

    A subscription by a regular expression matches only topics that the sender may describe; the
    coordinator checks that later with `context.may_describe`.
    """
    if not access.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not may_know(access, request.subscribed_topic_names or ()):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    authority, sender = access.authority, copy(access.context)
    access.context.may_describe = lambda name: authority.allows(
        sender, AclOperation.DESCRIBE, ResourceType.TOPIC, name, quiet=True
    )
    return proceed(request)
