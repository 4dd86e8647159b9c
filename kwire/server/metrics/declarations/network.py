"""Metrics of connections and sessions, requests that wait, and quotas."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, counter, gauge

_QUOTA: Final = "resource user clientId"
_PEER: Final = "broker work"
_LISTENER: Final = "listener networkProcessor"


def _connections(name: str, unit: str, text: str) -> Metric:
    """A counter of one listener; the network processor is always 0, the only loop."""
    metric = f"kafka_server_socket_server_metrics_{name.replace('-', '_')}"
    source = f"kafka.server:type=socket-server-metrics,listener=*,networkProcessor=* {name}"
    return counter(metric, _LISTENER, unit, text, source)


def _waiting(name: str, text: str) -> Metric:
    kind = "kafka.server:type=DelayedOperationPurgatory"
    return gauge(
        f"kafka_server_delayedoperationpurgatory_{name.lower()}",
        "delayedOperation",
        "requests",
        text,
        f"{kind},name={name},delayedOperation=* Value",
    )


def _sessions(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type=FetchSessionCache,name={name} Value"
    return gauge(f"kafka_server_fetchsessioncache_{name.lower()}", "", unit, text, source)


def _quota(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type={{Produce,Fetch,Request}},user=*,client-id=* {name}"
    return gauge(f"kafka_server_quota_{name.replace('-', '_')}", _QUOTA, unit, text, source)


def _pool(name: str, text: str) -> Metric:
    source = f"kafka.network:type=SocketServer,name={name} Value"
    return gauge(f"kafka_network_socketserver_{name.lower()}", "", "bytes", text, source)


def _expired(request: str, labels: str, unit: str, text: str) -> Metric:
    kind = f"Delayed{request}Metrics"
    source = (
        f"kafka.server:type={kind},name=ExpiresPerSec{',fetcherType=*' if labels else ''} Count"
    )
    return counter(f"kafka_server_{kind.lower()}_expires_total", labels, unit, text, source)


def _peers(name: str, unit: str, text: str) -> Metric:
    return counter(f"kwire_peer_{name}_total", _PEER, unit, text)


NETWORK: Final = (
    gauge(
        "kafka_server_socket_server_metrics_connection_count",
        _LISTENER,
        "connections",
        "Open connections",
        "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=* connection-count",
    ),
    _connections("connection-creation-total", "connections", "Connections that were admitted"),
    _connections("connection-close-total", "connections", "Connections that have ended"),
    _connections("successful-authentication-total", "logins", "Logins that succeeded"),
    _connections("failed-authentication-total", "logins", "Logins that failed"),
    _connections("successful-reauthentication-total", "logins", "Logins on open connections"),
    _connections("incoming-byte-total", "bytes", "Bytes of requests"),
    _connections("outgoing-byte-total", "bytes", "Bytes of responses"),
    _connections("request-total", "requests", "Requests"),
    _pool("MemoryPoolUsed", "Memory of large requests that are being received"),
    _pool("MemoryPoolAvailable", "What is left of `queued.max.request.bytes`; huge without it"),
    counter(
        "kwire_refused_connections_total",
        "listener",
        "connections",
        "Connections that a limit or a quota on new connections refused",
    ),
    _waiting("NumDelayedOperations", "Requests that wait: Produce, Fetch, ShareFetch and others"),
    _waiting("PurgatorySize", "The same, counted once for each partition that they wait for"),
    _expired(
        "Fetch", "fetcherType", "requests", "Fetches without enough records until `max.wait.ms`"
    ),
    _expired("ShareFetch", "", "requests", "The same for fetches of members of share groups"),
    _expired(
        "Produce", "", "partitions", "Partitions of Produce that replicas did not have in time"
    ),
    gauge(
        "kwire_peer_connections",
        _PEER,
        "connections",
        "Open connections to another broker, by the kind of work",
    ),
    _peers("connections_opened", "connections", "Connections to another broker that were opened"),
    _peers("connection_failures", "attempts", "Attempts to connect to another broker that failed"),
    _peers("requests", "requests", "Requests that were sent to another broker"),
    _peers("outgoing_bytes", "bytes", "Bytes of these requests"),
    _peers("incoming_bytes", "bytes", "Bytes of their responses"),
    _sessions("NumIncrementalFetchSessions", "sessions", "Fetch sessions (KIP-227)"),
    _sessions("NumIncrementalFetchPartitionsCached", "partitions", "Partitions in fetch sessions"),
    counter(
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
        "",
        "sessions",
        "Fetch sessions that ended because another one needed the slot",
        "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec Count",
    ),
    gauge(
        "kafka_server_client_metrics_instance_count",
        "",
        "clients",
        "Clients that push their metrics (KIP-714)",
        "kafka.server:type=ClientMetrics instance-count",
    ),
    _quota("byte-rate", "bytes per second", "Bytes of clients that share a quota"),
    _quota("request-time", "percent", "Time of the broker's loop that clients with a quota take"),
    _quota("throttle-time", "ms", "Throttle time of a request that would come now"),
    gauge(
        "kwire_quota_limit",
        _QUOTA,
        "as the quota",
        "The limit of a quota that clients use",
    ),
)
