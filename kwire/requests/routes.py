"""The registry of API keys: the versions, the handler and the required right of each.

This is the only list.  The ApiVersions response and the dispatch table are made from it, and a test
checks docs/apis.md against it.  A handler and its messages are imported at its first request,
so that the broker starts with few modules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.messages import request_class, response_class
from kwire.requests.context import CloseConnection

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.primitives import Buffer, Frame, Message
    from kwire.requests.context import Context
    from kwire.requests.guards.base import Guard
    from kwire.security.authority import Authority

Handled = Any | Awaitable[Any] | None
Handle = Callable[["Broker", Any, "Context"], Handled]
"""A handler.  It returns the response, an awaitable of it if the request has to wait, or None if no
response is sent."""


class Needs(NamedTuple):
    """The right that a request needs if there is an authorizer.

    Without a `rule` the request needs `operation` on its one resource of that type and otherwise
    fails as a whole.  A `rule` names a module of kwire.requests.guards.  Its function with the API
    key's name checks each resource in the request, and may require other rights as well.
    """

    operation: AclOperation
    resource_type: ResourceType
    rule: str = ""


NOTHING = None
on = Needs

READ, WRITE, CREATE, DELETE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
)
ALTER, DESCRIBE, CLUSTER_ACTION = (
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
)
CREATE_TOKENS, DESCRIBE_TOKENS = AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS
ALTER_CONFIGS, DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, USER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)


class Route(NamedTuple):
    """One API key: its inclusive range of versions and the right it needs, `NOTHING` if none."""

    api_key: ApiKey
    min_version: int
    max_version: int
    needs: Needs | None

    @property
    def handler_module(self) -> str:
        return f"kwire.requests.handlers.{self.api_key.name.lower()}"


ROUTES: tuple[Route, ...] = (
    Route(ApiKey.PRODUCE, 3, 13, on(WRITE, TOPIC, "records")),
    Route(ApiKey.FETCH, 4, 18, on(READ, TOPIC, "records")),
    Route(ApiKey.LIST_OFFSETS, 1, 11, on(DESCRIBE, TOPIC, "topics")),
    Route(ApiKey.METADATA, 0, 13, on(DESCRIBE, TOPIC, "visibility")),
    Route(ApiKey.OFFSET_COMMIT, 2, 10, on(READ, GROUP, "groups")),
    Route(ApiKey.OFFSET_FETCH, 1, 10, on(DESCRIBE, GROUP, "groups")),
    Route(ApiKey.FIND_COORDINATOR, 0, 6, on(DESCRIBE, GROUP, "groups")),
    Route(ApiKey.JOIN_GROUP, 0, 9, on(READ, GROUP)),
    Route(ApiKey.HEARTBEAT, 0, 4, on(READ, GROUP)),
    Route(ApiKey.LEAVE_GROUP, 0, 5, on(READ, GROUP)),
    Route(ApiKey.SYNC_GROUP, 0, 5, on(READ, GROUP)),
    Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, on(READ, GROUP, "groups")),
    Route(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, on(DESCRIBE, GROUP, "groups")),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6, on(DESCRIBE, GROUP, "groups")),
    Route(ApiKey.LIST_GROUPS, 0, 5, on(DESCRIBE, GROUP, "groups")),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1, NOTHING),
    Route(ApiKey.API_VERSIONS, 0, 4, NOTHING),
    Route(ApiKey.CREATE_TOPICS, 2, 7, on(CREATE, TOPIC, "administration")),
    Route(ApiKey.DELETE_TOPICS, 1, 6, on(DELETE, TOPIC, "administration")),
    Route(ApiKey.DELETE_RECORDS, 0, 2, on(DELETE, TOPIC, "topics")),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5, on(WRITE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, on(DESCRIBE, TOPIC, "topics")),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, on(WRITE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, on(WRITE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.END_TXN, 0, 5, on(WRITE, TRANSACTIONAL_ID)),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, on(CLUSTER_ACTION, CLUSTER, "transactions")),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5, on(WRITE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.DESCRIBE_ACLS, 1, 3, on(DESCRIBE, CLUSTER)),
    Route(ApiKey.CREATE_ACLS, 1, 3, on(ALTER, CLUSTER)),
    Route(ApiKey.DELETE_ACLS, 1, 3, on(ALTER, CLUSTER)),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4, on(DESCRIBE_CONFIGS, TOPIC, "configs")),
    Route(ApiKey.ALTER_CONFIGS, 0, 2, on(ALTER_CONFIGS, TOPIC, "configs")),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, on(ALTER, CLUSTER)),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, on(DESCRIBE, CLUSTER)),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2, NOTHING),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3, on(ALTER, TOPIC, "topics")),
    Route(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, on(CREATE_TOKENS, USER, "tokens")),
    Route(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, NOTHING),
    Route(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, NOTHING),
    Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, on(DESCRIBE_TOKENS, USER, "tokens")),
    Route(ApiKey.DELETE_GROUPS, 0, 2, on(DELETE, GROUP, "groups")),
    Route(ApiKey.ELECT_LEADERS, 0, 2, on(ALTER, CLUSTER)),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, on(ALTER_CONFIGS, TOPIC, "configs")),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, on(ALTER, CLUSTER)),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, on(DESCRIBE, CLUSTER)),
    Route(ApiKey.OFFSET_DELETE, 0, 0, on(DELETE, GROUP, "groups")),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, on(DESCRIBE_CONFIGS, CLUSTER)),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, on(ALTER_CONFIGS, CLUSTER)),
    Route(ApiKey.UPDATE_FEATURES, 0, 2, on(ALTER, CLUSTER)),
    Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, on(DESCRIBE, CLUSTER)),
    Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, on(ALTER, CLUSTER)),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2, on(DESCRIBE, CLUSTER, "visibility")),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, on(READ, TOPIC, "topics")),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, on(DESCRIBE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2, on(DESCRIBE, TRANSACTIONAL_ID, "transactions")),
    Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, NOTHING),
    Route(ApiKey.PUSH_TELEMETRY, 0, 0, NOTHING),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, on(DESCRIBE_CONFIGS, CLUSTER)),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, on(DESCRIBE, TOPIC, "visibility")),
    Route(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, on(READ, GROUP, "shares")),
    Route(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, on(DESCRIBE, GROUP, "shares")),
    Route(ApiKey.SHARE_FETCH, 1, 2, on(READ, GROUP, "shares")),
    Route(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, on(READ, GROUP, "shares")),
    Route(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, 0, on(CLUSTER_ACTION, CLUSTER, "share_states")),
    Route(ApiKey.READ_SHARE_GROUP_STATE, 0, 0, on(CLUSTER_ACTION, CLUSTER, "share_states")),
    Route(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, on(CLUSTER_ACTION, CLUSTER, "share_states")),
    Route(ApiKey.DELETE_SHARE_GROUP_STATE, 0, 0, on(CLUSTER_ACTION, CLUSTER, "share_states")),
    Route(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 0, 1, on(CLUSTER_ACTION, CLUSTER, "share_states")),
    Route(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, on(DESCRIBE, GROUP, "share_offsets")),
    Route(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, on(READ, GROUP, "share_offsets")),
    Route(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, on(DELETE, GROUP, "share_offsets")),
    Route(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0, on(READ, GROUP, "streams")),
    Route(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, on(DESCRIBE, GROUP, "streams")),
)

CLUSTER_ROUTES: tuple[Route, ...] = (
    Route(ApiKey.LEADER_AND_ISR, 0, 7, on(CLUSTER_ACTION, CLUSTER)),
    Route(ApiKey.STOP_REPLICA, 0, 4, on(CLUSTER_ACTION, CLUSTER)),
    Route(ApiKey.UPDATE_METADATA, 0, 8, on(CLUSTER_ACTION, CLUSTER)),
    Route(ApiKey.CONTROLLED_SHUTDOWN, 1, 3, on(CLUSTER_ACTION, CLUSTER)),
    Route(ApiKey.ALTER_PARTITION, 2, 3, on(CLUSTER_ACTION, CLUSTER)),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, on(CLUSTER_ACTION, CLUSTER)),
)
"""Requests between the brokers of a cluster and their controller.

A broker that is not part of a cluster does not serve them.
"""

OF_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Advertised only if client metrics are collected, which is impossible on ZooKeeper."""

ADVERTISED: dict[ApiKey, tuple[int, int]] = {
    # Kafka advertises Produce from 0 although it serves from 3: librdkafka takes a higher minimum
    # for a broker without the old message formats and drops features (KAFKA-18659).
    ApiKey.PRODUCE: (0, 13),
}
"""What ApiVersions says where it is not what is served."""

_BY_KEY = {int(route.api_key): route for route in (*ROUTES, *CLUSTER_ROUTES)}


class UnservedRequest(CloseConnection):
    """No such API key, or not at this version: Kafka closes the connection."""


def not_served(api_key: int) -> UnservedRequest:
    return UnservedRequest(f"API key {api_key} is not served")


@dataclass(slots=True)
class Binding:
    """All that serving one API key at one version takes, resolved once."""

    api_key: int
    api_version: int
    read: Callable[[Buffer, int, int], tuple[Any, int]]
    handle: Handle
    write: Callable[[Frame, Any], None]
    response_class: type[Message]
    flexible_request: bool
    flexible_response: bool


_bindings: dict[int, Binding] = {}


def bind(api_key: int, api_version: int) -> Binding:
    """The binding of `api_key` at `api_version`; imports the handler at first use.

    Raises UnservedRequest.
    """
    number = api_key << 16 | api_version & 0xFFFF
    found = _bindings.get(number)
    if found is None:
        found = _bindings[number] = _resolve(api_key, api_version)
    return found


def _resolve(api_key: int, api_version: int) -> Binding:
    route = _BY_KEY.get(api_key)
    if route is None:
        raise not_served(api_key)
    if not route.min_version <= api_version <= route.max_version:
        raise UnservedRequest(
            f"{route.api_key.name} version {api_version} is not served: "
            f"only {route.min_version} to {route.max_version}"
        )
    response = response_class(api_key)
    return Binding(
        api_key,
        api_version,
        request_class(api_key).READERS[api_version],
        import_module(route.handler_module).handle,
        response.WRITERS[api_version],
        response,
        request_header_version(api_key, api_version) >= 2,
        response_header_version(api_key, api_version) >= 1,
    )


_guards: dict[int, Guard] = {}


def handle_guarded(
    binding: Binding, broker: Broker, authority: Authority, request: Message, context: Context
) -> Handled:
    """Have a request handled as far as its sender may."""
    from kwire.requests.guards.base import Access

    guard = _guards.get(binding.api_key)
    if guard is None:
        guard = _guards[binding.api_key] = guard_of(_BY_KEY[binding.api_key])

    def proceed(allowed: Message) -> Handled:
        return binding.handle(broker, allowed, context)

    return guard(Access(broker, authority, context), request, proceed)


def guard_of(route: Route) -> Guard:
    """What asks for the right that a route takes."""
    from kwire.requests.guards.whole import nothing, one

    needs = route.needs
    if needs is None:
        return nothing
    if not needs.rule:
        return one(needs.operation, needs.resource_type)
    rules = import_module(f"kwire.requests.guards.{needs.rule}")
    guard: Guard = getattr(rules, route.api_key.name.lower())
    return guard
