"""Additional listeners of a suite's broker, for its tests of SASL and TLS."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kwire.conformance import local
from kwire.conformance.certificates import Certificates
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.testing.hosting.ports import free_port

SASL_ADDRESS: Final = "SASL_BOOTSTRAP"
TLS_ADDRESS: Final = "TLS_BOOTSTRAP"
TLS_AUTHORITY: Final = "TLS_AUTHORITY"
"""Environment variables of `run` with the listeners' addresses and the certificate authority."""
HASHES: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""The number of each SCRAM mechanism in requests, and its hash function."""
ITERATIONS: Final = 4096
SALT: Final = b"a salt of the suites"
_MODULES: Final = "org.apache.kafka.common.security"


class SuiteUser(NamedTuple):
    """A user who logs in with that mechanism."""

    name: str
    mechanism: str
    password: str


def users_in(lines: dict[str, str]) -> list[SuiteUser]:
    """Return the users of `name=MECHANISM,... password` lines. Raises ValueError."""
    users = []
    for name, text in lines.items():
        mechanisms, password = text.split()
        users += [SuiteUser(name, mechanism, password) for mechanism in mechanisms.split(",")]
    for user in users:
        if user.mechanism not in {"PLAIN", *HASHES}:
            raise ValueError(f"{user.name}: {user.mechanism} is no mechanism of a suite")
    return users


class Ports(NamedTuple):
    """The ports of a single broker's listeners."""

    plain: int
    sasl: int
    tls: int


def settings(
    users: Sequence[SuiteUser], ports: Ports, certificates: Certificates
) -> dict[str, str]:
    """Return the settings of a broker with these listeners."""
    listeners = ",".join(
        f"{name}://localhost:{port}"
        for name, port in zip(("PLAINTEXT", "SASL", "TLS"), ports, strict=True)
    )
    secrets = {user.name: user.password for user in users}
    plain = " ".join(f'user_{name}="{password}"' for name, password in secrets.items())
    jaas = "listener.name.sasl.{}.sasl.jaas.config"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *HASHES]),
        jaas.format("plain"): f"{_MODULES}.plain.PlainLoginModule required {plain};",
        **{
            jaas.format(mechanism.lower()): f"{_MODULES}.scram.ScramLoginModule required;"
            for mechanism in HASHES
        },
        **{f"listener.name.tls.{name}": value for name, value in certificates.settings().items()},
    }


def of_a_node(given: dict[str, str], controller: int) -> dict[str, str]:
    """Return the settings that a node of Apache Kafka needs in addition, if its listeners are
    given."""
    protocols = given["listener.security.protocol.map"]
    return given | {
        "listeners": f"{given['listeners']},CONTROLLER://localhost:{controller}",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{given.get('node.id', '1')}@localhost:{controller}",
    }


@contextmanager
def broker(
    folder: Path, users: Sequence[SuiteUser], given: dict[str, str], *, apache: bool
) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a broker with all three listeners and the suite's settings `given`.

    Yields the address of the plain listener, and the environment variables for the other ones.
    """
    ports = Ports(free_port(), free_port(), free_port())
    certificates = Certificates(folder)
    all_settings = {**given, **settings(users, ports, certificates)}
    if apache:
        all_settings = of_a_node(all_settings, free_port())
    start = local.apache if apache else local.kwire
    with start(folder / "data", all_settings, port=ports.plain):
        add_users(ports.plain, users)
        yield (
            f"localhost:{ports.plain}",
            {
                SASL_ADDRESS: f"localhost:{ports.sasl}",
                TLS_ADDRESS: f"localhost:{ports.tls}",
                TLS_AUTHORITY: str(certificates.authority),
            },
        )


def add_users(port: int, users: Sequence[SuiteUser]) -> None:
    """Create the SCRAM users, one in each request, since no request may have a name twice.

    The other users are in the broker's settings.
    """
    peer = ClientConnection(("localhost", port))
    for user in users:
        if user.mechanism in HASHES:
            _add(peer, AlterUserScramCredentialsRequest(upsertions=[_upsertion(user)]))
    peer.close()


def _add(peer: ClientConnection, request: AlterUserScramCredentialsRequest) -> None:
    """Create SCRAM credentials on the broker; fail if it returns an error."""
    assert request.API_KEY is not None
    peer.send(request.API_KEY, 0, request.encode(0))
    outcome = peer.receive()
    assert isinstance(outcome, Reply), outcome
    assert isinstance(outcome.message, AlterUserScramCredentialsResponse)
    assert not any(result.error_code for result in outcome.message.results), outcome.message


def _upsertion(user: SuiteUser) -> ScramCredentialUpsertion:
    number, name = HASHES[user.mechanism]
    salted = hashlib.pbkdf2_hmac(name, user.password.encode(), SALT, ITERATIONS)
    return ScramCredentialUpsertion(user.name, number, ITERATIONS, SALT, salted)
