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

    advertised_listeners = endpoints(
        None,
        HIGH,
        members(empty=False, nullable=True),
        doc="The addresses that clients connect to, by listener. A listener that is not named here "
        "advertises its address in listeners.",
    )
    connections_max_idle_ms = long(
        600_000, MEDIUM, doc="How long a connection may be idle before the broker closes it."
    )
    controller_listener_names = strings(
        (), HIGH, members(), doc="Listeners of a KRaft controller. The broker does not open them."
    )
    early_start_listeners = optional_strings(HIGH, members(nullable=True), effect=ALL_AT_ONCE)
    inter_broker_listener_name = optional_string(
        MEDIUM,
        doc="The listener that brokers use between each other. max.connections never blocks it.",
    )
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        mode=PER_BROKER,
        doc="The security protocol of each listener, as LISTENER:PROTOCOL,LISTENER:PROTOCOL.",
    )
    listeners = endpoints(
        ("PLAINTEXT://:9092",),
        HIGH,
        members(empty=False),
        mode=PER_BROKER,
        doc="The addresses that the broker listens on, as LISTENER://host:port.",
    )
    max_connection_creation_rate = integer(
        INT_MAX,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The largest number of new connections in a second, measured over ten seconds.",
    )
    max_connections = integer(
        INT_MAX,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The largest number of connections at the same time.",
    )
    max_connections_per_ip = integer(
        INT_MAX,
        MEDIUM,
        at_least(0),
        mode=CLUSTER_WIDE,
        doc="The largest number of connections at the same time from one address.",
    )
    max_connections_per_ip_overrides = string(
        "",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="Other limits for single addresses, as host:count,host:count.",
    )
    num_io_threads = integer(8, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP)
    num_network_threads = integer(3, HIGH, at_least(1), mode=CLUSTER_WIDE, effect=ONE_LOOP)
    queued_max_request_bytes = long(
        -1,
        MEDIUM,
        doc="The most memory for requests that are being received, in bytes; -1 means no limit.",
    )
    queued_max_requests = integer(500, HIGH, at_least(1), effect=NO_QUEUE)
    request_timeout_ms = integer(
        30_000,
        HIGH,
        doc="How long the transaction coordinator waits until a record of its log is replicated, "
        "and a broker waits for another broker's response, replication excepted.",
    )
    socket_connection_setup_timeout_max_ms = long(30_000, MEDIUM, effect=CLUSTER)
    socket_connection_setup_timeout_ms = long(
        10_000, MEDIUM, doc="How long a broker waits for a connection to another broker."
    )
    socket_listen_backlog_size = integer(
        50,
        MEDIUM,
        at_least(1),
        doc="The number of connections that the kernel queues until the broker accepts them. kwire "
        "uses 4096 if it is not set; the kernel allows no more than net.core.somaxconn.",
    )
    socket_receive_buffer_bytes = integer(
        102_400, HIGH, doc="The receive buffer of each socket; -1 means the system's default."
    )
    socket_request_max_bytes = integer(
        104_857_600, HIGH, at_least(1), doc="The largest request that the broker accepts, in bytes."
    )
    socket_send_buffer_bytes = integer(
        102_400, HIGH, doc="The send buffer of each socket; -1 means the system's default."
    )
