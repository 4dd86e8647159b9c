"""Connecting to ZooKeeper: several servers, chroot, digest credentials, TLS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kwire.cluster.metadata.changes import CreateTopic, SetConfigs
from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.cluster.stores.contract import SessionResumed, SessionSuspended, StoreError
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig, ZooKeeperTls
from kwire.conformance.apache_kafka import ZooKeeperBroker
from kwire.testing import ZooKeeperProcess
from kwire.testing.hosting.ports import free_port
from tests.cluster.observing import broker
from tests.cluster.stores.zookeeper.apache import Znode, tree
from tests.cluster.stores.zookeeper.proxy import proxied
from tests.cluster.stores.zookeeper.stores import TOPIC, Observed, leading, opened, running

pytestmark = [pytest.mark.java, pytest.mark.slow]

ALL, READ = 31, 1
OPEN = ((ALL, "world"),)


# -- where it is


async def test_store_connects_to_a_server_that_answers(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    async with proxied(zookeeper.port) as first, proxied(zookeeper.port) as second:
        servers = ",".join(f"127.0.0.1:{port}" for port in (free_port(), first.port, second.port))
        async with opened(f"{servers}/{unique}/deep/er") as store:
            await leading(store)
            session_id = store.session.id
            for _ in range(2):
                used, other = (first, second) if first.carries else (second, first)
                other.accept()
                used.refuse()
                await store.next_event(SessionSuspended)
                await store.next_event(SessionResumed)
                assert other.carries
                await store.commit([SetConfigs(4, "1", *_next(store))])
            assert store.session.id == session_id
            assert store.is_controller
        async with opened(zookeeper.connect(f"/{unique}/deep/er/")) as again:
            assert again.image.cluster_id == store.image.cluster_id


def _next(store: Observed) -> tuple[dict[str, str], dict[str, str]]:
    before = dict(store.image.configs_of(4, "1"))
    return before, {"n": str(len(before.get("n", "")) + 1)}


@pytest.mark.parametrize("connect", ["h:1/a//b", "h:1//"])
def test_chroot_that_is_not_a_path_is_refused(connect: str) -> None:
    config = ZooKeeperConfig(connect)
    if connect.endswith("//"):
        assert config.chroot == ""
        return
    with pytest.raises(StoreError, match="is not a valid ZooKeeper path"):
        _ = config.chroot


# -- as whom


async def test_set_acl_lets_others_read_but_not_write(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    me = (("digest", "kwire:secret"),)
    config = ZooKeeperConfig(zookeeper.connect(f"/{unique}"), set_acl=True, auth=me)
    async with running(config) as store:
        await leading(store)
        await store.commit([CreateTopic(TOPIC, {"a": "b"})])
        await store.commit([SetConfigs(ENTITY_RESOURCE, "users/bob", {}, {"x": "1"})])
        found = {
            path: each.access
            for path, each in tree(zookeeper.address, f"/{unique}", {"auth_data": [*me]}).items()
        }
        assert found.pop("/consumers") == OPEN
        for path in ("/config/users", "/config/users/bob", "/config/brokers"):
            assert found.pop(path) == ((ALL, "digest"),), "nobody else reads credentials"
        assert set(found.values()) == {((READ, "world"), (ALL, "digest"))}
        stranger = Observed(ZooKeeperConfig(config.connect), 2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stranger.session.run)
            with pytest.raises(
                StoreError, match=r"does not let this broker write /.*brokers/ids/2"
            ):
                await stranger._try_to_register(broker(2), None)
            stranger.close()
        async with running(config, 2) as known:
            await known.register(broker(2))
            await store.shows(lambda image: 2 in image.brokers)


async def test_set_acl_without_credentials_is_a_store_error(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    config = ZooKeeperConfig(zookeeper.connect(f"/{unique}"), set_acl=True)
    with pytest.RaisesGroup(
        pytest.RaisesExc(StoreError, match="does not let"), flatten_subgroups=True
    ):
        async with running(config):
            raise AssertionError("nobody is the creator")


# -- TLS


@dataclass(frozen=True)
class Secured:
    """A ZooKeeper with TLS that accepts clients with a certificate of `authority`."""

    zookeeper: ZooKeeperProcess
    port: int
    tls: ZooKeeperTls
    directory: Path

    def connect(self, chroot: str) -> str:
        return f"127.0.0.1:{self.port}/{chroot}"

    def tree(self, chroot: str) -> dict[str, Znode]:
        """The znodes below a chroot, read with the broker's certificate."""
        files = {"ca": self.tls.truststore, "certfile": self.tls.keystore}
        options = {"use_ssl": True, "keyfile": self.tls.keystore, **files}
        return tree(f"127.0.0.1:{self.port}", chroot, options)


def _keystore(path: Path, certificate: trustme.LeafCert) -> Path:
    """A PEM keystore: a key in the form that Java reads, and the certificates."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(each.bytes() for each in certificate.cert_chain_pems)
    path.write_bytes(pem + chain)
    return path


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperProcess
) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    trusted = directory / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    server = _keystore(directory / "server.pem", authority.issue_cert("127.0.0.1", "localhost"))
    mine = _keystore(directory / "broker.pem", authority.issue_cert("broker.example"))
    port = free_port()
    settings = {
        "secureClientPort": str(port),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": str(server),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(trusted),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
        "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",  # Apache Kafka's default is 1.2
        "forceSync": "no",
    }
    with ZooKeeperProcess(directory / "zk", settings, jars=zookeeper.jars) as process:
        tls = ZooKeeperTls(str(trusted), str(mine))
        yield Secured(process, port, tls, directory)


async def test_store_connects_with_tls(secured: Secured, unique: str) -> None:
    config = ZooKeeperConfig(secured.connect(unique), set_acl=True, tls=secured.tls)
    async with running(config) as store:
        await leading(store)
        changes = [SetConfigs(4, str(number), {}, {"n": "x" * 500}) for number in range(300)]
        await store.commit(changes)
        async with running(config, 2) as other:
            assert len(other.image.configs) == 300
        found = secured.tree(f"/{unique}")
        assert {scheme for each in found.values() for _, scheme in each.access} == {"world", "x509"}


async def test_tls_connection_with_an_untrusted_side_fails(
    secured: Secured, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = secured.directory / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    tls = ZooKeeperTls(str(other), secured.tls.keystore)
    for timeout_ms in (1_000, 10_000, 60_000):  # a busy machine may not come to it at once
        config = ZooKeeperConfig(secured.connect(unique), connection_timeout_ms=timeout_ms, tls=tls)
        with pytest.RaisesGroup(
            pytest.RaisesExc(StoreError, match="was not reached within"), flatten_subgroups=True
        ):
            async with running(config):
                raise AssertionError("it is another's certificate")
        if "CERTIFICATE_VERIFY_FAILED" in caplog.text:
            return
    pytest.fail("the certificate was not looked at")


@pytest.mark.parametrize("keystore", ["none.pem", "ca.pem"])
def test_unusable_keystore_is_named_in_the_error(secured: Secured, keystore: str) -> None:
    tls = ZooKeeperTls(secured.tls.truststore, str(secured.directory / keystore))
    with pytest.raises(StoreError, match=r"zookeeper\.ssl"):
        ZooKeeperConfig("h:1", tls=tls).tls_context()


@pytest.mark.long
async def test_broker_with_set_acl_creates_the_znodes_and_rights_of_apache_kafka(
    secured: Secured, zookeeper_libs: Path, unique: str, tmp_path: Path
) -> None:
    assert secured.tls.truststore is not None
    assert secured.tls.keystore is not None
    settings = {
        "zookeeper.set.acl": "true",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "delegation.token.secret.key": "secret",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": secured.tls.keystore,
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.truststore.location": secured.tls.truststore,
        "zookeeper.ssl.truststore.type": "PEM",
    }
    apache = ZooKeeperBroker(tmp_path, secured.connect(f"{unique}/a"), settings=settings)
    config, follow = (
        ZooKeeperConfig(
            secured.connect(f"{unique}/{each}"), set_acl=True, tls=secured.tls, has_acls=True
        )
        for each in "ba"
    )
    with apache:
        async with running(follow, 7) as onlooker, running(config) as store:
            await store.register(onlooker.image.brokers[1])
            assert await store.campaign()
            theirs, ours = (secured.tree(f"/{unique}/{each}") for each in "ab")
            others = {path for path in theirs if path.startswith("/delegation")}
            assert ours == {path: each for path, each in theirs.items() if path not in others}
            # Of tokens, whose paths only a broker makes that has them.
            assert "/delegation_token/tokens" in others
            for path in others:
                access = {each.id.scheme for each in store.session._acl(path)}
                assert ("world" in access) is ((READ, "world") in theirs[path].access), path
