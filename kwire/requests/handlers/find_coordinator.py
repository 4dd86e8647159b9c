"""FindCoordinator (key 10): v0-6.

Behaviour
- The coordinator of a key is the leader of the partition that stores the key's state: a partition
  of `__consumer_offsets` for a group, of `__transaction_state` for a transactional id, of
  `__share_group_state` for a share partition.
- Any key is valid, also the empty one.  Only the key of a share partition has a form,
  `group:topic id:partition`.
- The first valid request creates the topic.  Apache Kafka then answers COORDINATOR_NOT_AVAILABLE
  until the topic exists, and clients ask again; this broker waits for the topic and answers with
  the coordinator.  Share groups of Apache Kafka's brokers ask any broker to create
  `__share_group_state`.
- While new leaders are elected for a broker whose process has just ended, the answer waits for
  them (kwire.cluster.membership.ended).
- COORDINATOR_NOT_AVAILABLE if the topic does not exist, or the partition's leader has no endpoint
  on the client's listener.  INVALID_REQUEST for an unknown type of key.

Version notes: groups only in v0; other kinds of key and error messages (`NONE` too) from v1;
flexible from v3; several keys from v4 (KIP-699); share partitions from v6, INVALID_REQUEST before.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, NamedTuple

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.membership.ended import is_election_pending, wait_for_election
from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.uuids import uuid_bytes
from kwire.groups.java import partition_for
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route

SEVERAL_KEYS_SINCE = 4
SHARE_KEYS_SINCE = 6

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {
    GROUP: GROUP_METADATA_TOPIC,
    TRANSACTION: TRANSACTION_STATE_TOPIC,
    SHARE: SHARE_GROUP_STATE_TOPIC,
}
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details."
    ),
}
"""Apache Kafka's messages, which clients show."""


class CoordinatorAddress(NamedTuple):
    """The broker that coordinates a key, or the error if there is none."""

    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


NOT_AVAILABLE = CoordinatorAddress(ErrorCode.COORDINATOR_NOT_AVAILABLE)

ROUTE = Route(ApiKey.FIND_COORDINATOR, 0, 6, Right(AclOperation.DESCRIBE, ResourceType.GROUP))


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Return the coordinator of each key; create its internal topic at the first use."""
    kind, version = request.key_type, context.api_version
    keys = [request.key] if version < SEVERAL_KEYS_SINCE else request.coordinator_keys
    is_valid = any(_is_valid(kind, key, version) for key in keys)
    if is_valid and TOPICS[kind] not in broker.image.topics:
        return _create_and_find(broker, request, version, context.listener)
    if is_valid and is_election_pending(broker.membership, [TOPICS[kind]]):
        return _find_after_election(broker, request, version, context.listener)
    return _find(broker, request, version, context.listener)


async def _create_and_find(
    broker: Broker, request: FindCoordinatorRequest, version: int, listener: str
) -> FindCoordinatorResponse:
    """Create the internal topic of the type of key, then return the coordinators."""
    topic = TOPICS[request.key_type]
    await broker.coordinators.import_for(topic)
    await create_internal_topic(broker.membership, topic)
    return _find(broker, request, version, listener)


async def _find_after_election(
    broker: Broker, request: FindCoordinatorRequest, version: int, listener: str
) -> FindCoordinatorResponse:
    """Return the coordinators once their partitions have new leaders."""
    await wait_for_election(broker.membership, [TOPICS[request.key_type]])
    return _find(broker, request, version, listener)


def _find(
    broker: Broker, request: FindCoordinatorRequest, version: int, listener: str
) -> FindCoordinatorResponse:
    """Return the coordinators of the request's keys; before version 4 it has only one key."""
    kind = request.key_type
    if version < SEVERAL_KEYS_SINCE:
        address = _coordinator(broker, kind, request.key, version, listener)
        return FindCoordinatorResponse(
            error_code=address.error,
            error_message=MESSAGES[address.error],
            node_id=address.node_id,
            host=address.host,
            port=address.port,
        )
    coordinators = []
    for key in request.coordinator_keys:
        address = _coordinator(broker, kind, key, version, listener)
        # Kafka refuses an unknown type of key as a whole request, and only then has a message.
        message = "" if kind in TOPICS else MESSAGES[address.error]
        coordinators.append(
            Coordinator(key, address.node_id, address.host, address.port, address.error, message)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _coordinator(
    broker: Broker, kind: int, key: str, version: int, listener: str
) -> CoordinatorAddress:
    """Return the address of the coordinator of `key` on `listener`, or an error.

    The coordinator leads the partition of the internal topic that `key` belongs to.
    """
    if not _is_valid(kind, key, version):
        return CoordinatorAddress(ErrorCode.INVALID_REQUEST)
    topic = broker.image.topics.get(TOPICS[kind])
    if topic is None:
        return NOT_AVAILABLE
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    node = broker.image.brokers.get(leader)
    endpoint = None if node is None else node.endpoint(listener)
    if endpoint is None:
        return NOT_AVAILABLE
    return CoordinatorAddress(ErrorCode.NONE, leader, endpoint.host, endpoint.port)


def _is_valid(kind: int, key: str, version: int) -> bool:
    """Whether `key` can be the key of a coordinator of this type."""
    return kind in TOPICS and (kind != SHARE or _is_share_key(key, version))


def _is_share_key(key: str, version: int) -> bool:
    """Whether `key` is `group:topic id:partition`, with the id in Kafka's base64."""
    parts = key.split(":")
    if version < SHARE_KEYS_SINCE or len(parts) != 3 or not parts[0]:
        return False
    try:
        uuid_bytes(parts[1])
        int(parts[2])
    except ValueError:
        return False
    return True


# -- rights


class CoordinatorKeyRight(NamedTuple):
    """The right that a type of coordinator key needs, and the error and message without it.

    `name` is the resource of the right; empty stands for the key itself.
    """

    operation: AclOperation
    resource_type: ResourceType
    name: str
    error: ErrorCode
    message: str


RIGHTS_BY_KEY_TYPE: Final = {
    0: CoordinatorKeyRight(
        AclOperation.DESCRIBE,
        ResourceType.GROUP,
        "",
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        "Group authorization failed.",
    ),
    1: CoordinatorKeyRight(
        AclOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        "",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
    2: CoordinatorKeyRight(
        AclOperation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        CLUSTER_NAME,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    ),
}


def guard(access: Access, request: FindCoordinatorRequest, proceed: Proceed) -> Response:
    """Require the right that the type of key needs on each key; refuse the others one by one.

    Keys are groups, transactional ids or share partitions.  Only brokers may ask for share
    partitions.  The handler refuses unknown types.
    """
    kind = RIGHTS_BY_KEY_TYPE.get(request.key_type)
    if kind is None:
        return proceed(request)
    if access.version < SEVERAL_KEYS_SINCE:
        if access.may(kind.operation, kind.resource_type, kind.name or request.key):
            return proceed(request)
        return FindCoordinatorResponse(
            error_code=kind.error, error_message=kind.message, node_id=-1, port=-1
        )
    requested = request.coordinator_keys
    allowed = [
        access.may(kind.operation, kind.resource_type, kind.name or key) for key in requested
    ]
    request.coordinator_keys = [key for key, may in zip(requested, allowed, strict=True) if may]
    if not request.coordinator_keys:
        return FindCoordinatorResponse(coordinators=[_denied(key, kind) for key in requested])

    def merge(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        """Put the answers of the refused keys in their places."""
        coordinators = iter(response.coordinators)
        response.coordinators = [
            next(coordinators) if may else _denied(key, kind)
            for key, may in zip(requested, allowed, strict=True)
        ]
        return response

    return reshaped(proceed(request), merge)


def _denied(key: str, kind: CoordinatorKeyRight) -> Coordinator:
    return Coordinator(key, -1, "", -1, kind.error, "")
