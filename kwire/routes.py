"""The registry of API keys: which are served, at which versions, by which handler.

This is the only list.  ApiVersions is answered from it, the dispatch table is filled from it, and
the table in the README is checked against it.  Handlers and their messages are imported when a
client first asks for them: a start loads a dozen modules, not all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.messages import request_class, response_class
from kwire.context import CloseConnection

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.codecs.primitives import Buffer, Frame, Message
    from kwire.context import Context

Handle = Callable[["Broker", Any, "Context"], "Any | Awaitable[Any] | None"]
"""A handler: the reply at once, an awaitable of it where the request must wait, None for none."""


class Route(NamedTuple):
    """One API key as served: its inclusive version range and its handler's module."""

    api_key: ApiKey
    min_version: int
    max_version: int

    @property
    def handler_module(self) -> str:
        return f"kwire.handlers.{self.api_key.name.lower()}"


ROUTES: tuple[Route, ...] = (
    Route(ApiKey.PRODUCE, 3, 13),
    Route(ApiKey.FETCH, 4, 18),
    Route(ApiKey.LIST_OFFSETS, 1, 11),
    Route(ApiKey.METADATA, 0, 13),
    Route(ApiKey.OFFSET_COMMIT, 2, 10),
    Route(ApiKey.OFFSET_FETCH, 1, 10),
    Route(ApiKey.FIND_COORDINATOR, 0, 6),
    Route(ApiKey.JOIN_GROUP, 0, 9),
    Route(ApiKey.HEARTBEAT, 0, 4),
    Route(ApiKey.LEAVE_GROUP, 0, 5),
    Route(ApiKey.SYNC_GROUP, 0, 5),
    Route(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Route(ApiKey.LIST_GROUPS, 0, 5),
    Route(ApiKey.SASL_HANDSHAKE, 0, 1),
    Route(ApiKey.API_VERSIONS, 0, 4),
    Route(ApiKey.CREATE_TOPICS, 2, 7),
    Route(ApiKey.DELETE_TOPICS, 1, 6),
    Route(ApiKey.DELETE_RECORDS, 0, 2),
    Route(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Route(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
    Route(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    Route(ApiKey.END_TXN, 0, 5),
    Route(ApiKey.WRITE_TXN_MARKERS, 1, 2),
    Route(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
    Route(ApiKey.DESCRIBE_ACLS, 1, 3),
    Route(ApiKey.CREATE_ACLS, 1, 3),
    Route(ApiKey.DELETE_ACLS, 1, 3),
    Route(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Route(ApiKey.ALTER_CONFIGS, 0, 2),
    Route(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2),
    Route(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    Route(ApiKey.SASL_AUTHENTICATE, 0, 2),
    Route(ApiKey.CREATE_PARTITIONS, 0, 3),
    Route(ApiKey.DELETE_GROUPS, 0, 2),
    Route(ApiKey.ELECT_LEADERS, 0, 2),
    Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    Route(ApiKey.OFFSET_DELETE, 0, 0),
    Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    Route(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    Route(ApiKey.UPDATE_FEATURES, 0, 2),
    Route(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    Route(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Route(ApiKey.LIST_TRANSACTIONS, 0, 2),
    Route(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
)

CLUSTER_ROUTES: tuple[Route, ...] = (
    Route(ApiKey.LEADER_AND_ISR, 0, 7),
    Route(ApiKey.STOP_REPLICA, 0, 4),
    Route(ApiKey.UPDATE_METADATA, 0, 8),
    Route(ApiKey.CONTROLLED_SHUTDOWN, 1, 3),
    Route(ApiKey.ALTER_PARTITION, 2, 3),
    Route(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0),
)
"""What the brokers of a cluster ask of each other, the controller of the others and they of it.

Of a broker alone nobody may ask it.
"""

ADVERTISED: dict[ApiKey, tuple[int, int]] = {
    # Kafka advertises Produce from 0 although it serves from 3: librdkafka takes a higher minimum
    # for a broker without the old message formats and drops features (KAFKA-18659).
    ApiKey.PRODUCE: (0, 13),
}
"""What ApiVersions says where it is not what is served."""

_BY_KEY = {int(route.api_key): route for route in (*ROUTES, *CLUSTER_ROUTES)}


class UnsupportedRequest(CloseConnection):
    """No such API key, or not at this version: Kafka closes the connection."""


def not_served(api_key: int) -> UnsupportedRequest:
    return UnsupportedRequest(f"API key {api_key} is not served")


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

    Raises UnsupportedRequest.
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
        raise UnsupportedRequest(
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
