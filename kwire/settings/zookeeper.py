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

    controlled_shutdown_max_retries = integer(3, MEDIUM)
    controlled_shutdown_retry_backoff_ms = long(500, MEDIUM, at_least(0))
    """Apache Kafka's default is 5000.  With it, the second of three brokers that stop would take
    10 s longer, because no other broker can take over its last in-sync replicas."""
    zookeeper_connect = optional_string(HIGH)
    zookeeper_connection_timeout_ms = optional_integer(HIGH)
    zookeeper_max_in_flight_requests = integer(10, HIGH, at_least(1), effect=ONE_CONNECTION)
    zookeeper_metadata_migration_enable = boolean(False, HIGH, effect=NO_MIGRATION)
    zookeeper_session_timeout_ms = integer(18_000, HIGH)
    zookeeper_set_acl = boolean(False, HIGH)
    zookeeper_clientCnxnSocket = java_class(MEDIUM, effect=JAVA)
    zookeeper_ssl_client_enable = boolean(False, MEDIUM)
    zookeeper_ssl_keystore_location = optional_string(MEDIUM)
    zookeeper_ssl_keystore_password = optional_string(MEDIUM)
    zookeeper_ssl_keystore_type = optional_string(MEDIUM)
    zookeeper_ssl_truststore_location = optional_string(MEDIUM)
    zookeeper_ssl_truststore_password = optional_string(MEDIUM, effect=PYTHON_TLS)
    zookeeper_ssl_truststore_type = optional_string(MEDIUM)
    zookeeper_ssl_cipher_suites = strings((), LOW, effect=PYTHON_TLS)
    zookeeper_ssl_crl_enable = boolean(False, LOW, effect=PYTHON_TLS)
    zookeeper_ssl_enabled_protocols = strings((), LOW, effect=PYTHON_TLS)
    zookeeper_ssl_endpoint_identification_algorithm = string("HTTPS", LOW)
    zookeeper_ssl_ocsp_enable = boolean(False, LOW, effect=PYTHON_TLS)
    zookeeper_ssl_protocol = string("TLSv1.2", LOW, effect=PYTHON_TLS)

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        super().__init__({name: text for name, text in given.items() if name in self.DEFINITIONS})
