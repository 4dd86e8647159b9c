"""Delegation tokens end by the broker's clock, as docs/testing.md says."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kwire.client.access.tokens import Token, create_token, describe_tokens, renew_token
from kwire.client.access.users import set_passwords
from kwire.client.cluster import Cluster
from kwire.client.errors import AuthenticationFailed
from kwire.client.security import ClientSecurity
from kwire.client.topics import list_topics
from kwire.testing import Kafka, free_port

pytestmark = pytest.mark.slow

SCRAM = "SCRAM-SHA-256"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
REMOVED = f"{SCRAM}; the delegation token .* has expired and was removed"
DAY_MS = 24 * 3_600_000


class TokenBroker:
    """A test broker with delegation tokens, and the address of its SASL listener."""

    def __init__(self, kafka: Kafka, login_bootstrap: str) -> None:
        self.kafka = kafka
        self._login_bootstrap = login_bootstrap

    def connect(self, user: str, password: str, options: str = "") -> Cluster:
        """A client that authenticates by SCRAM; `options` are added to the JAAS line."""
        security = ClientSecurity(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": SCRAM,
                "sasl.jaas.config": f'{MODULE} username="{user}" password="{password}"{options};',
            }
        )
        return Cluster(self._login_bootstrap, security=security, timeout_s=30)

    def connect_by_token(self, token: Token) -> Cluster:
        return self.connect(token.id, token.password, ' tokenauth="true"')

    def tokens(self) -> list[str]:
        """The ids of all tokens of the broker."""
        with self.connect("alice", "pencil") as cluster:
            return [token.id for token in describe_tokens(cluster)]


@pytest.fixture(scope="module")
def broker() -> Iterator[TokenBroker]:
    port, login_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": SCRAM,
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{MODULE};",
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": "a secret of the broker",
    }
    with Kafka(settings, port=port) as kafka:
        with Cluster(kafka.bootstrap) as cluster:
            set_passwords(cluster, {"alice": "pencil"})
        yield TokenBroker(kafka, f"127.0.0.1:{login_port}")


def assert_expired(cluster: Cluster) -> None:
    """Until the token is removed its login succeeds with a lifetime of 0 ms, which fails."""
    with pytest.raises(AuthenticationFailed, match=r"the delegation token .* has expired"):
        list_topics(cluster)


def test_token_expires_when_the_clock_is_advanced(broker: TokenBroker) -> None:
    """After `delegation.token.expiry.time.ms` logins, connections and the list have ended."""
    with broker.connect("alice", "pencil") as cluster:
        token = create_token(cluster)
    assert token.expiry_ms - token.issue_ms == DAY_MS
    with broker.connect_by_token(token) as logged_in_before:
        list_topics(logged_in_before)
        broker.kafka.clock.advance(hours=23)
        list_topics(logged_in_before)
        with broker.connect_by_token(token) as cluster:
            list_topics(cluster)
        assert token.id in broker.tokens()

        broker.kafka.clock.advance(hours=1, seconds=1)
        assert_expired(logged_in_before)
    with broker.connect_by_token(token) as cluster:
        assert_expired(cluster)

    broker.kafka.clock.advance(hours=1)  # delegation.token.expiry.check.interval.ms
    deadline = time.monotonic() + 60
    while token.id in broker.tokens():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with (
        broker.connect_by_token(token) as cluster,
        pytest.raises(AuthenticationFailed, match=REMOVED),
    ):
        list_topics(cluster)


def test_renewed_token_expires_at_its_maximum_lifetime(broker: TokenBroker) -> None:
    with broker.connect("alice", "pencil") as cluster:
        token = create_token(cluster, lifetime_ms=2 * DAY_MS)
        broker.kafka.clock.advance(hours=20)
        renewed_until_ms = renew_token(cluster, token)
        assert token.expiry_ms < renewed_until_ms < token.max_ms
        broker.kafka.clock.advance(hours=20)
        assert renew_token(cluster, token) == token.max_ms
        broker.kafka.clock.advance(hours=9)
    with broker.connect_by_token(token) as cluster:
        assert_expired(cluster)  # removed or not yet: the check runs beside the login
