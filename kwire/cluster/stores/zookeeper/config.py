"""ZooKeeperConfig: the settings zookeeper.*, with servers, timeouts, credentials and TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper import acl_znodes, token_znodes
from kwire.security.chosen import token_secret
from kwire.settings import BrokerConfig, ConfigError
from kwire.settings.zookeeper import ZooKeeperSettings

SESSION_TIMEOUT_MS = 18_000
"""zookeeper.session.timeout.ms of Apache Kafka 3.9."""


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """PEM files for TLS: `truststore` has the trusted certificates
    (zookeeper.ssl.truststore.location), `keystore` the key and certificates of this broker
    (zookeeper.ssl.keystore.location)."""

    truststore: str | None = None
    keystore: str | None = None
    keystore_password: str | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a TLS context, which trusts only the truststore, if there is one.

        Raises OSError.
        """
        context = ssl.create_default_context(cafile=self.truststore)
        context.check_hostname = self.check_hostname
        if self.keystore is not None:
            # Without a password argument OpenSSL would ask on the terminal for the key's password.
            context.load_cert_chain(self.keystore, password=self.keystore_password or "")
        return context


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """How to connect to ZooKeeper, and what the store keeps there.

    `connect` is zookeeper.connect: servers separated by commas, a chroot after the last one.
    `connection_timeout_ms`: how long a request waits for a connection.
    `auth`: pairs of a scheme and a credential, such as ("digest", "user:password").
    `set_acl`: only the creator of a znode may change it.
    `has_acls`: the store follows Kafka's access control lists, for an authorizer.
    `has_tokens`: the store follows delegation tokens, for brokers with a secret key.
    """

    connect: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    connection_timeout_ms: int = SESSION_TIMEOUT_MS
    set_acl: bool = False
    auth: tuple[tuple[str, str], ...] = ()
    tls: ZooKeeperTls | None = None
    has_acls: bool = False
    has_tokens: bool = False

    @property
    def access_paths(self) -> tuple[str, ...]:
        """Paths that access control lists and tokens need, as far as the store follows them."""
        paths = acl_znodes.PERSISTENT_PATHS if self.has_acls else ()
        return paths + (token_znodes.PERSISTENT_PATHS if self.has_tokens else ())

    @property
    def servers(self) -> str:
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The prefix of all paths; empty without a chroot.  Raises StoreError."""
        path = self.connect.partition("/")[2].rstrip("/")
        if "" in path.split("/") and path:
            raise StoreError(f"zookeeper.connect: /{path} is not a valid ZooKeeper path")
        return f"/{path}" if path else ""

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS context, None without TLS.  Raises StoreError if a file cannot be used."""
        if self.tls is None:
            return None
        try:
            return self.tls.context()
        except OSError as problem:  # ssl.SSLError is an OSError
            raise StoreError(f"zookeeper.ssl.*: {problem}") from problem


def zookeeper_config(config: BrokerConfig) -> ZooKeeperConfig:
    """Return the ZooKeeper configuration in a broker's settings.  Raises ConfigError."""
    settings = ZooKeeperSettings(config.explicit)
    assert settings.zookeeper_connect is not None, "only cluster members have a ZooKeeper store"
    timeout_ms = settings.zookeeper_session_timeout_ms
    connection_timeout_ms = settings.zookeeper_connection_timeout_ms
    return ZooKeeperConfig(
        settings.zookeeper_connect,
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=timeout_ms
        if connection_timeout_ms is None
        else connection_timeout_ms,
        set_acl=settings.zookeeper_set_acl,
        tls=_tls(settings),
        has_acls=bool(config.authorizer_class_name.strip()),
        has_tokens=token_secret(config) is not None,
    )


def _tls(settings: ZooKeeperSettings) -> ZooKeeperTls | None:
    """Return the TLS settings; None if TLS is off.

    Raises ConfigError for formats other than PEM.
    """
    if not settings.zookeeper_ssl_client_enable:
        return None
    for name, kind in (
        ("zookeeper.ssl.keystore.type", settings.zookeeper_ssl_keystore_type),
        ("zookeeper.ssl.truststore.type", settings.zookeeper_ssl_truststore_type),
    ):
        if kind is not None and kind.upper() != "PEM":
            raise ConfigError(f"{name}={kind}: only PEM files can be read")
    return ZooKeeperTls(
        settings.zookeeper_ssl_truststore_location,
        settings.zookeeper_ssl_keystore_location,
        settings.zookeeper_ssl_keystore_password,
        check_hostname=bool(settings.zookeeper_ssl_endpoint_identification_algorithm),
    )
