"""The broker settings of listeners, sockets and connections."""

from __future__ import annotations

from kwire.settings.definition import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MEDIUM,
    PER_BROKER,
    Settings,
    endpoints,
    integer,
    long,
    optional_string,
    optional_strings,
    string,
    strings,
)
from kwire.settings.effects import ALL_AT_ONCE, CLUSTER, NO_QUEUE, ONE_LOOP
from kwire.settings.validators import at_least, members
from kwire.settings.values import INT_MAX


class NetworkSettings(Settings):
    """Listeners and the addresses that are advertised for them, sockets, connection limits.

    `listeners` and `advertised.listeners` are lists of text in a file.  BrokerConfig parses them
    into endpoints.
    """

    advertised_listeners = endpoints(None, HIGH, members(empty=False, nullable=True))
    connections_max_idle_ms = long(600_000, MEDIUM)
    controller_listener_names = strings((), HIGH, members())
    early_start_listeners = optional_strings(HIGH, members(nullable=True), effect=ALL_AT_ONCE)
    inter_broker_listener_name = optional_string(MEDIUM)
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        mode=PER_BROKER,
    )
    listeners = endpoints(("PLAINTEXT://:9092",), HIGH, members(empty=False), mode=PER_BROKER)
    max_connection_creation_rate = integer(INT_MAX, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    max_connections = integer(INT_MAX, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    max_connections_per_ip = integer(INT_MAX, MEDIUM, at_least(0), mode=CLUSTER_WIDE)
    max_connections_per_ip_overrides = string("", MEDIUM, mode=CLUSTER_WIDE)
    num_io_threads = integer(8, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP)
    num_network_threads = integer(3, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP)
    queued_max_request_bytes = long(-1, MEDIUM)
    queued_max_requests = integer(500, HIGH, at_least(1), effect=NO_QUEUE)
    request_timeout_ms = integer(30_000, HIGH)
    socket_connection_setup_timeout_max_ms = long(30_000, MEDIUM, effect=CLUSTER)
    socket_connection_setup_timeout_ms = long(10_000, MEDIUM)
    socket_listen_backlog_size = integer(50, MEDIUM, at_least(1))
    socket_receive_buffer_bytes = integer(102_400, HIGH)
    socket_request_max_bytes = integer(104_857_600, HIGH, at_least(1))
    socket_send_buffer_bytes = integer(102_400, HIGH)
