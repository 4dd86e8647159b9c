"""FindCoordinator (key 10): v0-6.

Behaviour
- Names the leader of the partition that the key's state lives in: of `__consumer_offsets` for a
  group, `__transaction_state` for a transactional id, `__share_group_state` for a share partition.
- Any key is good, the empty one too; only a share partition's must read `group:topic id:number`.
- `__consumer_offsets` and `__transaction_state` are created when they are first looked for.  Apache
  Kafka answers COORDINATOR_NOT_AVAILABLE until they are there and clients ask again; here they
  need not.
- COORDINATOR_NOT_AVAILABLE where the topic does not exist or the partition has no leader that can
  be reached by the client's listener; INVALID_REQUEST for an unknown kind of key.

Version notes: groups only in v0; other kinds of key and error messages (`NONE` too) from v1;
flexible from v3; several keys from v4 (KIP-699); share partitions from v6, INVALID_REQUEST before.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.uuids import uuid_bytes
from kwire.groups.java import partition_for
from kwire.requests.context import Context

SEVERAL_KEYS_SINCE = 4
SHARE_KEYS_SINCE = 6

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {
    GROUP: GROUP_METADATA_TOPIC,
    TRANSACTION: TRANSACTION_STATE_TOPIC,
    SHARE: SHARE_GROUP_STATE_TOPIC,
}
MADE_ON_FIRST_USE = frozenset({GROUP, TRANSACTION})

MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details."
    ),
}
"""Apache Kafka's own sentences: clients show them."""


class Found(NamedTuple):
    """Where a key's coordinator is, or why that cannot be said."""

    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


NOT_AVAILABLE = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def handle(
    broker: Broker, request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    kind = request.key_type
    if kind in MADE_ON_FIRST_USE and TOPICS[kind] not in broker.image.topics:
        return _create_and_find(broker, request, context.api_version, context.listener)
    return _find(broker, request, context.api_version, context.listener)


async def _create_and_find(
    broker: Broker, request: FindCoordinatorRequest, version: int, listener: str
) -> FindCoordinatorResponse:
    await create_internal_topic(broker.membership, TOPICS[request.key_type])
    return _find(broker, request, version, listener)


def _find(
    broker: Broker, request: FindCoordinatorRequest, version: int, listener: str
) -> FindCoordinatorResponse:
    kind = request.key_type
    if version < SEVERAL_KEYS_SINCE:
        found = _coordinator(broker, kind, request.key, version, listener)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=MESSAGES[found.error],
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = []
    for key in request.coordinator_keys:
        found = _coordinator(broker, kind, key, version, listener)
        # With an unknown kind the request as a whole is refused, and then the sentence is there.
        message = "" if kind in TOPICS else MESSAGES[found.error]
        coordinators.append(
            Coordinator(key, found.node_id, found.host, found.port, found.error, message)
        )
    return FindCoordinatorResponse(coordinators=coordinators)


def _coordinator(broker: Broker, kind: int, key: str, version: int, listener: str) -> Found:
    if kind not in TOPICS or (kind == SHARE and not _is_share_key(key, version)):
        return Found(ErrorCode.INVALID_REQUEST)
    topic = broker.image.topics.get(TOPICS[kind])
    if topic is None:
        return NOT_AVAILABLE
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    node = broker.image.brokers.get(leader)
    endpoint = None if node is None else node.endpoint(listener)
    if endpoint is None:
        return NOT_AVAILABLE
    return Found(ErrorCode.NONE, leader, endpoint.host, endpoint.port)


def _is_share_key(key: str, version: int) -> bool:
    """`group:topic id:partition`, the id in Kafka's base64."""
    parts = key.split(":")
    if version < SHARE_KEYS_SINCE or len(parts) != 3 or not parts[0]:
        return False
    try:
        uuid_bytes(parts[1])
        int(parts[2])
    except ValueError:
        return False
    return True
