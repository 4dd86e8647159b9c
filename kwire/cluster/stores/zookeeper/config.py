"""How to reach ZooKeeper, and as whom: the settings zookeeper.*."""

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
    """Files in PEM: whom to trust (zookeeper.ssl.truststore.location), and who this broker is
    (zookeeper.ssl.keystore.location: a key and its certificates)."""

    truststore: str | None = None
    keystore: str | None = None
    keystore_password: str | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Trusts the truststore alone, where there is one.  Raises OSError."""
        context = ssl.create_default_context(cafile=self.truststore)
        context.check_hostname = self.check_hostname
        if self.keystore is not None:
            # A key that needs a password would be asked of the terminal where there is none.
            context.load_cert_chain(self.keystore, password=self.keystore_password or "")
        return context


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """`connect` is zookeeper.connect: servers with commas between, and a chroot behind the last.

    `connection_timeout_ms` is how long whoever needs ZooKeeper waits until it is reached.
    `auth` are pairs of a scheme and a credential: ("digest", "user:password").
    With `set_acl` only who created a znode may change it.
    `has_acls`: access control lists (of Kafka's resources) are kept there, too, for an authorizer;
    `has_tokens`: so are delegation tokens, for brokers with a secret.
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
        """What must be there for those."""
        paths = acl_znodes.PERSISTENT_PATHS if self.has_acls else ()
        return paths + (token_znodes.PERSISTENT_PATHS if self.has_tokens else ())

    @property
    def servers(self) -> str:
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """What all paths begin with; empty without one.  Raises StoreError."""
        path = self.connect.partition("/")[2].rstrip("/")
        if "" in path.split("/") and path:
            raise StoreError(f"zookeeper.connect: /{path} is no path of ZooKeeper")
        return f"/{path}" if path else ""

    def tls_context(self) -> ssl.SSLContext | None:
        """None without TLS.  Raises StoreError where a file cannot be used."""
        if self.tls is None:
            return None
        try:
            return self.tls.context()
        except OSError as problem:  # that of ssl is one
            raise StoreError(f"zookeeper.ssl.*: {problem}") from problem


def zookeeper_config(config: BrokerConfig) -> ZooKeeperConfig:
    """What a broker's settings say of its ZooKeeper.  Raises ConfigError."""
    settings = ZooKeeperSettings(config.explicit)
    assert settings.zookeeper_connect is not None, "asked of members only"
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
