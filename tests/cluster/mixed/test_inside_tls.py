"""Three brokers, one of them Apache Kafka's, that connect to each other by TLS only.

Each has a listener without for a test's own work.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.client.topics import create_topic
from kwire.settings.listener_security import SIGNED_HANDLER
from kwire.testing import ZooKeeperProcess
from kwire.testing.hosting.ports import free_port
from tests.cluster.mixed.clusters import APACHE, KWIRE, Mixed, mixed
from tests.security.jwt_dialogues import AUDIENCE, ISSUER, signed, write_keys
from tests.security.tls.authority import Authority
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow]

ALL = frozenset((1, 2, 3))
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOKENS = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.secure.oauthbearer"


def by_password(directory: Path) -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f"{MODULE} required "
        'username="admin" password="admin-secret" user_admin="admin-secret";',
    }


def by_token(directory: Path) -> dict[str, str]:
    """A signed certificate in a file."""
    token = directory / "token"
    token.write_text(signed())
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{PREFIX}.sasl.jaas.config": f"{TOKENS}.OAuthBearerLoginModule required;",
        f"{PREFIX}.sasl.login.callback.handler.class": (
            f"{TOKENS}.OAuthBearerLoginCallbackHandler"
        ),
        f"{PREFIX}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{PREFIX}.sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        f"{PREFIX}.sasl.oauthbearer.jwks.endpoint.url": write_keys(directory / "keys").as_uri(),
        f"{PREFIX}.sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{PREFIX}.sasl.oauthbearer.expected.issuer": ISSUER,
    }


LOGINS = {"certificate": None, "PLAIN": by_password, "OAUTHBEARER": by_token}


def settings(directory: Path, login: str) -> dict[str, str]:
    """TLS with certificates on both sides, except for brokers that log in."""
    authority = Authority()
    make = LOGINS[login]
    protocol = "SSL" if make is None else "SASL_SSL"
    given = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,SECURE:{protocol}",
        "inter.broker.listener.name": "SECURE",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue().write_pem(directory / "broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(directory / "ca.pem")),
    }
    return given | ({} if make is None else make(directory))


def listeners(_broker_id: int, port: int) -> dict[str, str]:
    found = f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{free_port()}"
    return {"listeners": found, "advertised.listeners": found}


@pytest.mark.parametrize(
    ("login", "third"),
    [
        ("PLAIN", KWIRE),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("certificate", APACHE),
                ("certificate", KWIRE),
                ("PLAIN", APACHE),
                ("OAUTHBEARER", APACHE),
            )
        ),
    ],
)
def test_records_are_replicated_and_brokers_take_over(
    zookeeper: ZooKeeperProcess,
    zookeeper_libs: Path,
    tmp_path: Path,
    unique: str,
    login: str,
    third: str,
) -> None:
    given = settings(tmp_path, login) | {"zookeeper.session.timeout.ms": "6000"}
    with mixed(
        zookeeper, tmp_path, f"/{unique}", KWIRE, KWIRE, third, settings=given, own=listeners
    ) as cluster:
        cluster.lead(3)
        with cluster.client(3) as client:
            assert create_topic(client, "t", assignment=REPLICAS).error_code == 0
        until(lambda: cluster.in_sync("t", ALL), "in sync")
        values = [str(number) for number in range(300)]
        cluster.produce("t", values[:150], 3)
        _killed_and_back(cluster, 1, values[150:])
        assert sorted(cluster.read("t", 3, 300), key=int) == values
        until(lambda: not cluster.differing("t"), "the same on each disk")


def _killed_and_back(cluster: Mixed, broker_id: int, values: list[str]) -> None:
    """Other brokers lead meanwhile, and accept records."""
    cluster.kill(broker_id)
    until(lambda: cluster.in_sync("t", ALL - {broker_id}), "led by the others")
    cluster.produce("t", values, 3)
    cluster.start(broker_id)
    until(lambda: cluster.in_sync("t", ALL), "in sync again")
