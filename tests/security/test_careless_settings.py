"""Settings that nobody means: kwire does not start with them, and what Apache Kafka 4.4.0 does.

It refuses a `ssl.protocol` that it does not know, and signed tokens without a URL of keys, an
expected audience or an expected issuer.  It starts with names of enabled protocols and of cipher
suites that it does not know: then nobody can connect.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.settings.listener_security import SIGNED_HANDLER
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerStartError
from tests.security.tls.authority import Authority

PATIENCE_S = 120.0
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
UNKNOWN_PROTOCOL = {"ssl.protocol": "TLSv9"}
UNKNOWN_NAMES = {
    "a protocol": ({"ssl.enabled.protocols": "TLSv1.2,TLSv9"}, "TLSv9 SSLContext not available"),
    "a cipher suite": (
        {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_NO_SUCH_SUITE"},
        "ssl.cipher.suites: Unsupported CipherSuite: TLS_NO_SUCH_SUITE",
    ),
}
WITHOUT_KEYS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.other.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER}.OAuthBearerLoginModule"
    " required;",
    "listener.name.other.oauthbearer.sasl.server.callback.handler.class": SIGNED_HANDLER,
}
OTHER_TOKENS = "listener.name.other.oauthbearer.sasl.oauthbearer"
WITHOUT_AUDIENCE = {**WITHOUT_KEYS, f"{OTHER_TOKENS}.jwks.endpoint.url": "file:///nowhere/keys"}
WITHOUT_ISSUER = {**WITHOUT_AUDIENCE, f"{OTHER_TOKENS}.expected.audience": "kafka"}


class Wanted:
    """Settings of a broker with a plain listener and OTHER, and the ports of both."""

    def __init__(self, directory: Path, protocol: str, more: dict[str, str]) -> None:
        self.plain, self.other = free_port(), free_port()
        listeners = f"PLAINTEXT://localhost:{self.plain},OTHER://localhost:{self.other}"
        self.settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,OTHER:{protocol}",
            "inter.broker.listener.name": "PLAINTEXT",
            **more,
        }
        if protocol == "SSL":
            own = Authority().issue().write_pem(directory / "own.pem")
            self.settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}

    def of_a_node(self) -> dict[str, str]:
        controller = free_port()
        return self.settings | {
            "listeners": f"{self.settings['listeners']},CONTROLLER://localhost:{controller}",
            "listener.security.protocol.map": self.settings["listener.security.protocol.map"]
            + ",CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@localhost:{controller}",
        }


def kwire_refuses(directory: Path, wanted: Wanted, why: str) -> None:
    broker = BrokerProcess(directory, wanted.settings, port=wanted.plain)
    with pytest.raises(BrokerStartError, match=why):
        broker.start()


@pytest.mark.slow
@pytest.mark.parametrize("what", UNKNOWN_NAMES)
def test_unknown_mechanism_names_are_refused(tmp_path: Path, what: str) -> None:
    settings, why = UNKNOWN_NAMES[what]
    kwire_refuses(tmp_path, Wanted(tmp_path, "SSL", settings), why)


@pytest.mark.slow
def test_unknown_security_protocol_is_refused(tmp_path: Path) -> None:
    wanted = Wanted(tmp_path, "SSL", UNKNOWN_PROTOCOL)
    kwire_refuses(tmp_path, wanted, "TLSv9 SSLContext not available")


@pytest.mark.slow
def test_signed_tokens_without_a_key_url_are_refused(tmp_path: Path) -> None:
    wanted = Wanted(tmp_path, "SASL_PLAINTEXT", WITHOUT_KEYS)
    kwire_refuses(tmp_path, wanted, "sasl.oauthbearer.jwks.endpoint.url must be the")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("what", UNKNOWN_NAMES)
def test_apache_kafka_starts_but_authenticates_nobody(
    tmp_path: Path, what: str, apache_kafka_libs: Path
) -> None:
    wanted = Wanted(tmp_path, "SSL", UNKNOWN_NAMES[what][0])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        ApacheKafka(tmp_path, port=wanted.plain, settings=wanted.of_a_node()),
        socket.create_connection(("localhost", wanted.other), PATIENCE_S) as plain,
        pytest.raises(OSError),  # noqa: PT011 - an alert, or nothing at all
    ):
        context.wrap_socket(plain)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "settings", "why"),
    [
        ("SSL", UNKNOWN_PROTOCOL, "TLSv9 SSLContext not available"),
        ("SASL_PLAINTEXT", WITHOUT_KEYS, 'requires "sasl.oauthbearer.jwks.endpoint.url"'),
        ("SASL_PLAINTEXT", WITHOUT_AUDIENCE, 'requires "sasl.oauthbearer.expected.audience"'),
        ("SASL_PLAINTEXT", WITHOUT_ISSUER, 'requires "sasl.oauthbearer.expected.issuer"'),
    ],
)
def test_apache_kafka_does_not_start_with_invalid_settings(
    tmp_path: Path, protocol: str, settings: dict[str, str], why: str, apache_kafka_libs: Path
) -> None:
    wanted = Wanted(tmp_path, protocol, settings)
    node = ApacheKafka(tmp_path, port=wanted.plain, settings=wanted.of_a_node())
    node.format()
    ended = node.spawn()
    try:
        assert ended.wait(PATIENCE_S) != 0
        assert why in node.log_file.read_text()
    finally:
        node.stop()
