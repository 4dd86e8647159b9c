"""ZooKeeperConfig from a broker's settings: servers, timeouts, TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper import acl_znodes, token_znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig, ZooKeeperTls, zookeeper_config
from kwire.settings import BrokerConfig, ConfigError
from tests.security.tls.authority import Authority

CONNECT = {"zookeeper.connect": "h:1,g:2/a"}
TLS = {**CONNECT, "zookeeper.ssl.client.enable": "true"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(
    ("connect", "servers", "chroot"),
    [
        ("h:1", "h:1", ""),
        ("h:1/", "h:1", ""),
        ("h:1,g:2/a", "h:1,g:2", "/a"),
        ("h:1/a/b/", "h:1", "/a/b"),
    ],
)
def test_chroot_follows_the_servers_in_zookeeper_connect(
    connect: str, servers: str, chroot: str
) -> None:
    config = ZooKeeperConfig(connect)
    assert config.servers == servers
    assert config.chroot == chroot


def test_chroot_that_is_not_a_path_is_refused() -> None:
    with pytest.raises(
        StoreError, match=r"zookeeper\.connect: /a//b is not a valid ZooKeeper path"
    ):
        _ = ZooKeeperConfig("h:1/a//b").chroot


def test_default_settings_equal_those_of_apache_kafka() -> None:
    config = zookeeper_config(BrokerConfig(CONNECT))
    assert config == ZooKeeperConfig("h:1,g:2/a", 18_000, 18_000)
    assert config.access_paths == ()
    assert config.tls_context() is None


def test_given_settings_are_used() -> None:
    given = {
        "zookeeper.session.timeout.ms": "7000",
        "zookeeper.connection.timeout.ms": "9000",
        "zookeeper.set.acl": "true",
    }
    expected = ZooKeeperConfig("h:1,g:2/a", 7_000, 9_000, set_acl=True)
    assert zookeeper_config(BrokerConfig({**CONNECT, **given})) == expected


def test_connection_timeout_defaults_to_the_session_timeout() -> None:
    given = {**CONNECT, "zookeeper.session.timeout.ms": "7000"}
    assert zookeeper_config(BrokerConfig(given)).connection_timeout_ms == 7_000


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"authorizer.class.name": " "}, ()),
        ({"authorizer.class.name": AUTHORIZER}, acl_znodes.PERSISTENT_PATHS),
        ({"delegation.token.secret.key": "s"}, token_znodes.PERSISTENT_PATHS),
        ({"delegation.token.master.key": "s"}, token_znodes.PERSISTENT_PATHS),
        (
            {"authorizer.class.name": AUTHORIZER, "delegation.token.secret.key": "s"},
            (*acl_znodes.PERSISTENT_PATHS, *token_znodes.PERSISTENT_PATHS),
        ),
    ],
)
def test_acls_and_tokens_are_followed_if_the_broker_uses_them(
    given: dict[str, str], paths: tuple[str, ...]
) -> None:
    assert zookeeper_config(BrokerConfig({**CONNECT, **given})).access_paths == paths


def test_tls_settings_name_the_truststore_and_check_the_host_name() -> None:
    assert zookeeper_config(BrokerConfig(TLS)).tls == ZooKeeperTls()
    given = {
        "zookeeper.ssl.truststore.location": "t.pem",
        "zookeeper.ssl.truststore.type": "pem",
        "zookeeper.ssl.keystore.location": "k.pem",
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.keystore.password": "p",
        "zookeeper.ssl.endpoint.identification.algorithm": "",
    }
    found = zookeeper_config(BrokerConfig({**TLS, **given})).tls
    assert found == ZooKeeperTls("t.pem", "k.pem", "p", check_hostname=False)


@pytest.mark.parametrize("name", ["zookeeper.ssl.keystore.type", "zookeeper.ssl.truststore.type"])
def test_keystore_or_truststore_not_of_type_pem_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}=JKS: only PEM files can be read"):
        zookeeper_config(BrokerConfig({**TLS, name: "JKS"}))


@pytest.mark.parametrize("password", [None, "secret"])
def test_tls_context_has_the_key_and_trusts_only_the_truststore(
    tmp_path: Path, password: str | None
) -> None:
    authority = Authority()
    truststore = authority.write(tmp_path / "trust.pem")
    keystore = authority.issue("broker").write_pem(tmp_path / "key.pem", password)
    tls = ZooKeeperTls(str(truststore), str(keystore), password)
    context = ZooKeeperConfig("h:1", tls=tls).tls_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [each["subject"][0][0][1] for each in context.get_ca_certs()] == ["Test authority"]
    unchecked = ZooKeeperTls(str(truststore), check_hostname=False).context()
    assert not unchecked.check_hostname
    assert unchecked.verify_mode is ssl.CERT_REQUIRED


def test_keystore_without_its_password_is_an_error_without_a_prompt(tmp_path: Path) -> None:
    keystore = Authority().issue("broker").write_pem(tmp_path / "key.pem", "secret")
    config = ZooKeeperConfig("h:1", tls=ZooKeeperTls(None, str(keystore)))
    with pytest.raises(StoreError, match=r"zookeeper\.ssl\.\*: "):
        config.tls_context()
    missing = ZooKeeperConfig("h:1", tls=ZooKeeperTls(str(tmp_path / "none.pem")))
    with pytest.raises(StoreError, match=r"zookeeper\.ssl\.\*: .*No such file"):
        missing.tls_context()
