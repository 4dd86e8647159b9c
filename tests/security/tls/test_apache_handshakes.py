"""Failing handshakes on kwire and on Apache Kafka: what the client sees."""

from __future__ import annotations

import datetime
import socket
import ssl
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security.tls.authority import Authority, Certificate
from tests.security.token_play import wait_until_open

pytestmark = pytest.mark.slow

API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
PATIENCE_S = 60.0
AUTHORITY, STRANGERS = Authority(), Authority("Another authority")
OWN, STRANGER = AUTHORITY.issue("alice"), STRANGERS.issue("alice")
OLD = AUTHORITY.issue("alice", ends_in=datetime.timedelta(hours=-1))
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def context(
    own: Certificate | None = OWN, version: ssl.TLSVersion | None = None, ciphers: str = ""
) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=AUTHORITY.pem)
    if own is not None:
        with tempfile.NamedTemporaryFile() as file:
            made.load_cert_chain(own.write_pem(Path(file.name)))
    if version is not None:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            made.minimum_version, made.maximum_version = version, version
    if ciphers:
        made.set_ciphers(ciphers)
    return made


def asked(stream: socket.socket) -> str:
    stream.sendall(API_VERSIONS)
    return "served" if stream.recv(4) else "closed"


def inside(made: Callable[[], ssl.SSLContext], host: str = "localhost") -> Callable[[int], str]:
    """The outcome of a request inside TLS; alerts have OpenSSL's names."""

    def ask(port: int) -> str:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
                made().wrap_socket(plain, server_hostname=host) as stream,
            ):
                return asked(stream)
        except ssl.SSLCertVerificationError as problem:
            return f"the client goes: {problem.verify_message}"
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # the latter up to Python 3.11.2
            return "closed"
        except ssl.SSLError as problem:
            return problem.reason or repr(problem)
        except ConnectionError:
            return "closed"

    return ask


def outside(data: bytes) -> Callable[[int], str]:
    """The bytes that answer a client without TLS."""

    def ask(port: int) -> str:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            plain.sendall(data)
            answer = b""
            with suppress(ConnectionError):  # as good an end
                while piece := plain.recv(4096):
                    answer += piece
        return f"alert {answer[6]}" if answer[:1] == b"\x15" else f"{len(answer)} bytes"

    return ask


HANDSHAKE_FAILURE = "SSLV3_ALERT_HANDSHAKE_FAILURE"
BAD = "SSLV3_ALERT_BAD_CERTIFICATE"
UNKNOWN = "SSLV3_ALERT_CERTIFICATE_UNKNOWN"
EXPIRED = "SSLV3_ALERT_CERTIFICATE_EXPIRED"
UNKNOWN_CA = "TLSV1_ALERT_UNKNOWN_CA"
REQUIRED = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
MISMATCH = "the client goes: Hostname mismatch, certificate is not valid for 'elsewhere'."
NO_ISSUER = "the client goes: self-signed certificate in certificate chain"


class Case(NamedTuple):
    """A client's action and its outcome; OpenSSL's alerts are more specific than Java's."""

    ask: Callable[[int], str]
    of_kwire: str
    of_apache: str


CASES: dict[str, Case] = {
    "right, 1.3": Case(inside(lambda: context(version=TLS_1_3)), "served", "served"),
    "right, 1.2": Case(inside(lambda: context(version=TLS_1_2)), "served", "served"),
    "no certificate, 1.3": Case(inside(lambda: context(None, TLS_1_3)), REQUIRED, BAD),
    "no certificate, 1.2": Case(inside(lambda: context(None, TLS_1_2)), HANDSHAKE_FAILURE, BAD),
    "a stranger's, 1.3": Case(inside(lambda: context(STRANGER, TLS_1_3)), UNKNOWN_CA, UNKNOWN),
    "a stranger's, 1.2": Case(inside(lambda: context(STRANGER, TLS_1_2)), UNKNOWN_CA, UNKNOWN),
    "an old one, 1.3": Case(inside(lambda: context(OLD, TLS_1_3)), EXPIRED, UNKNOWN),
    "an old one, 1.2": Case(inside(lambda: context(OLD, TLS_1_2)), EXPIRED, UNKNOWN),
    "an old protocol": Case(
        inside(lambda: context(None, ssl.TLSVersion.TLSv1_1, "DEFAULT@SECLEVEL=0")),
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "TLSV1_ALERT_PROTOCOL_VERSION",
    ),
    "no common cipher": Case(
        inside(lambda: context(OWN, TLS_1_2, "AES256-SHA256")),
        HANDSHAKE_FAILURE,
        HANDSHAKE_FAILURE,
    ),
    "another host": Case(inside(context, "elsewhere"), MISMATCH, MISMATCH),
    "a server that is not trusted": Case(
        inside(lambda: ssl.create_default_context(cadata=STRANGERS.pem)), NO_ISSUER, NO_ISSUER
    ),
    "no TLS": Case(outside(API_VERSIONS), "0 bytes", "alert 80"),
    "HTTP": Case(outside(b"GET / HTTP/1.1\r\n\r\n"), "0 bytes", "alert 80"),
    "an alert": Case(outside(bytes.fromhex("15 0303 0002 0228")), "alert 10", "0 bytes"),
    "a record that is too long": Case(
        outside(bytes.fromhex("16 0301 ffff") + bytes(20)), "0 bytes", "alert 10"
    ),
    "a record of nothing known": Case(
        outside(bytes.fromhex("63 0301 0004") + bytes(4)), "alert 10", "alert 80"
    ),
}


class Ports(NamedTuple):
    plain: int
    tls: int


def settings(directory: Path, ports: Ports) -> dict[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    listeners = f"PLAINTEXT://127.0.0.1:{ports.plain},SSL://127.0.0.1:{ports.tls}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(AUTHORITY.issue().write_pem(directory / "own.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(AUTHORITY.write(directory / "ca.pem")),
        "ssl.client.auth": "required",
    }


@pytest.fixture(scope="module")
def kwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    directory, ports = tmp_path_factory.mktemp("kwire"), Ports(free_port(), free_port())
    given = settings(directory / "stores", ports)
    broker = BrokerProcess(directory / "broker", given, port=ports.plain)
    broker.start()
    yield ports
    finish(broker)


WAITS = "a record that is too long"
"""OpenSSL waits for what is missing of it, to the end of a handshake's time."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.long] * (each == WAITS)) for each in CASES]
)
def test_kwire_handshakes_match_the_recorded_ones(kwire: Ports, name: str) -> None:
    assert CASES[name].ask(kwire.tls) == CASES[name].of_kwire


def test_tls_client_on_a_plain_listener_is_disconnected(kwire: Ports) -> None:
    assert inside(context)(kwire.plain) == "closed"


@pytest.mark.java
def test_apache_kafka_handshakes_match_the_recorded_ones(tmp_path: Path) -> None:
    ports, controller = Ports(free_port(), free_port()), free_port()
    given = settings(tmp_path / "stores", ports)
    given["listeners"] += f",CONTROLLER://localhost:{controller}"
    given["controller.quorum.voters"] = f"1@localhost:{controller}"
    given["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
    with ApacheKafka(tmp_path / "broker", port=ports.plain, settings=given):
        wait_until_open(ports.tls)
        assert inside(context)(ports.plain) == "closed"
        found = {name: case.ask(ports.tls) for name, case in CASES.items()}
    assert found == {name: case.of_apache for name, case in CASES.items()}
