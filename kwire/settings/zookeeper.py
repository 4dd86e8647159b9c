"""The settings of brokers on ZooKeeper, from Apache Kafka 3.9: zookeeper.* and a few others.

Apache Kafka 4 has none of them, so `BrokerConfig` does not declare them.  A broker whose file has
`zookeeper.connect` is a member of a cluster on ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.settings.definition import (
    HIGH,
    LOW,
    MEDIUM,
    Settings,
    boolean,
    integer,
    java_class,
    long,
    optional_integer,
    optional_string,
    string,
    strings,
)
from kwire.settings.effects import JAVA, NO_MIGRATION, ONE_CONNECTION, PYTHON_TLS
from kwire.settings.validators import at_least

CONNECT = "zookeeper.connect"


class ZooKeeperSettings(Settings):
    """The address of ZooKeeper, timeouts, and TLS between broker and ZooKeeper.

    The settings of the controlled shutdown also apply to the brokers of `kwire serve --brokers`.
    """

    controlled_shutdown_max_retries = integer(
        3,
        MEDIUM,
        doc="How often a broker that stops asks the controller again to move the leadership of its "
        "partitions. All attempts and pauses together take controller.socket.timeout.ms at "
        "most.",
    )
    controlled_shutdown_retry_backoff_ms = long(
        500,
        MEDIUM,
        at_least(0),
        doc="How long it waits before it asks again. Apache Kafka's default is 5000.",
    )
    """Apache Kafka's default is 5000.  With it, the second of three brokers that stop would take
    10 s longer, because no other broker can take over its last in-sync replicas."""
    zookeeper_connect = optional_string(
        HIGH,
        doc="The ZooKeeper servers as host:port,host:port, and a chroot after the last if the "
        "cluster has one. The broker is a member of the cluster there.",
    )
    zookeeper_connection_timeout_ms = optional_integer(
        HIGH,
        doc="How long the broker waits until ZooKeeper is connected; by default "
        "zookeeper.session.timeout.ms.",
    )
    zookeeper_max_in_flight_requests = integer(10, HIGH, at_least(1), effect=ONE_CONNECTION)
    zookeeper_metadata_migration_enable = boolean(False, HIGH, effect=NO_MIGRATION)
    zookeeper_session_timeout_ms = integer(
        18_000,
        HIGH,
        doc="How long ZooKeeper waits for a silent broker before it ends the broker's session.",
    )
    zookeeper_set_acl = boolean(
        False, HIGH, doc="Whether only brokers may change the znodes that they create."
    )
    zookeeper_clientCnxnSocket = java_class(MEDIUM, effect=JAVA)
    zookeeper_ssl_client_enable = boolean(
        False, MEDIUM, doc="Whether the connection to ZooKeeper uses TLS."
    )
    zookeeper_ssl_keystore_location = optional_string(
        MEDIUM, doc="A PEM file with the broker's key and its certificates."
    )
    zookeeper_ssl_keystore_password = optional_string(
        MEDIUM, doc="The password of the private key."
    )
    zookeeper_ssl_keystore_type = optional_string(
        MEDIUM, doc="PEM. The broker cannot read other formats."
    )
    zookeeper_ssl_truststore_location = optional_string(
        MEDIUM, doc="A PEM file with the certificates of the issuers that the broker trusts."
    )
    zookeeper_ssl_truststore_password = optional_string(MEDIUM, effect=PYTHON_TLS)
    zookeeper_ssl_truststore_type = optional_string(
        MEDIUM, doc="PEM. The broker cannot read other formats."
    )
    zookeeper_ssl_cipher_suites = strings((), LOW, effect=PYTHON_TLS)
    zookeeper_ssl_crl_enable = boolean(False, LOW, effect=PYTHON_TLS)
    zookeeper_ssl_enabled_protocols = strings((), LOW, effect=PYTHON_TLS)
    zookeeper_ssl_endpoint_identification_algorithm = string(
        "HTTPS",
        LOW,
        doc="HTTPS compares the server's host name with its certificate; empty does not.",
    )
    zookeeper_ssl_ocsp_enable = boolean(False, LOW, effect=PYTHON_TLS)
    zookeeper_ssl_protocol = string("TLSv1.2", LOW, effect=PYTHON_TLS)

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raise ConfigError."""
        super().__init__({name: text for name, text in given.items() if name in self.DEFINITIONS})
