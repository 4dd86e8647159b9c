"""A second listener of a suite's broker, for its tests of SASL."""

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
from kwire.conformance.wire.peer import Peer, Reply
from kwire.testing.ports import free_port

ENVIRONMENT: Final = "SASL_BOOTSTRAP"
"""Where `run` finds the listener's address."""
HASHES: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""The number of a mechanism in requests, and its hash."""
ITERATIONS: Final = 4096
SALT: Final = b"a salt of the suites"
_MODULES: Final = "org.apache.kafka.common.security"


class User(NamedTuple):
    """Somebody who logs in by that mechanism."""

    name: str
    mechanism: str
    password: str


def users_in(found: dict[str, str]) -> list[User]:
    """Of `name=MECHANISM password` lines.  Raises ValueError."""
    users = [User(name, *said.split()) for name, said in found.items()]
    for user in users:
        if user.mechanism not in {"PLAIN", *HASHES}:
            raise ValueError(f"{user.name}: {user.mechanism} is no mechanism of a suite")
    return users


def settings(users: Sequence[User], port: int, sasl_port: int) -> dict[str, str]:
    """Of a broker on its own, with the port of its listener that asks nobody who they are."""
    listeners = f"PLAINTEXT://localhost:{port},SASL://localhost:{sasl_port}"
    plain = " ".join(f'user_{each.name}="{each.password}"' for each in users)
    jaas = "listener.name.sasl.{}.sasl.jaas.config"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *HASHES]),
        jaas.format("plain"): f"{_MODULES}.plain.PlainLoginModule required {plain};",
        **{
            jaas.format(each.lower()): f"{_MODULES}.scram.ScramLoginModule required;"
            for each in HASHES
        },
    }


def of_a_node(given: dict[str, str], controller: int) -> dict[str, str]:
    """What Apache Kafka needs beside it, where its listeners are given."""
    protocols = given["listener.security.protocol.map"]
    return given | {
        "listeners": f"{given['listeners']},CONTROLLER://localhost:{controller}",
        "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{given.get('node.id', '1')}@localhost:{controller}",
    }


@contextmanager
def broker(
    folder: Path, users: Sequence[User], given: dict[str, str], *, apache: bool
) -> Iterator[tuple[str, str]]:
    """One with both listeners, and their addresses; `given` are the suite's own settings."""
    port, sasl_port = free_port(), free_port()
    both = {**given, **settings(users, port, sasl_port)}
    if apache:
        both = of_a_node(both, free_port())
    start = local.apache if apache else local.kwire
    with start(folder, both, port=port) as address:
        add_users(port, users)
        yield address, f"localhost:{sasl_port}"


def add_users(port: int, users: Sequence[User]) -> None:
    """Those of SCRAM; the others stand in the broker's settings."""
    upsertions = [_upsertion(user) for user in users if user.mechanism in HASHES]
    peer = Peer(("localhost", port))
    request = AlterUserScramCredentialsRequest(upsertions=upsertions)
    assert request.API_KEY is not None
    peer.send(request.API_KEY, 0, request.encode(0))
    outcome = peer.receive()
    peer.close()
    assert isinstance(outcome, Reply), outcome
    assert isinstance(outcome.message, AlterUserScramCredentialsResponse)
    assert not any(each.error_code for each in outcome.message.results), outcome.message


def _upsertion(user: User) -> ScramCredentialUpsertion:
    number, name = HASHES[user.mechanism]
    salted = hashlib.pbkdf2_hmac(name, user.password.encode(), SALT, ITERATIONS)
    return ScramCredentialUpsertion(user.name, number, ITERATIONS, SALT, salted)
