"""Valid and invalid logins on kwire and on Apache Kafka give the same answers at the same steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.conformance.apache_kafka import QUICK_JVM, ApacheKafka
from kwire.security.sasl.scram import salted_password
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security import jwt_dialogues, oauth_dialogues
from tests.security.dialogues import DIALOGUES
from tests.security.sasl_client import PLAIN_LINE
from tests.security.talk import DELAY_MS, PATIENCE_S, Addresses, Over, Talk, outcome
from tests.security.token_play import wait_until_open

pytestmark = [pytest.mark.java, pytest.mark.slow]

SASL_LISTENERS = ("SASL", "RENEWED", "ENDING")
SIGNED_LISTENERS = (jwt_dialogues.STRICT, jwt_dialogues.LENIENT)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOGETHER = 32
SALT = b"0123456789abcdef"


OAUTH_LINE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="kafka";'
)


OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"


def signed_settings(keys: Path) -> dict[str, str]:
    """Settings of the listeners with signed tokens only."""
    given: dict[str, str] = {}
    for name in SIGNED_LISTENERS:
        prefix = f"listener.name.{name.lower()}.oauthbearer.sasl"
        given |= {
            f"{prefix}.jaas.config": f"{OAUTHBEARER}.OAuthBearerLoginModule required;",
            f"{prefix}.server.callback.handler.class": (
                f"{OAUTHBEARER}.OAuthBearerValidatorCallbackHandler"
            ),
            f"{prefix}.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"listener.name.{name.lower()}.sasl.enabled.mechanisms": "OAUTHBEARER",
        }
    strict, lenient = (
        f"listener.name.{name.lower()}.oauthbearer.sasl.oauthbearer" for name in SIGNED_LISTENERS
    )
    return given | {
        f"{strict}.expected.audience": f"{jwt_dialogues.AUDIENCE},everybody",
        f"{strict}.expected.issuer": jwt_dialogues.ISSUER,
        f"{lenient}.allow.unverified.audience": "true",
        f"{lenient}.allow.unverified.issuer": "true",
        f"{lenient}.sub.claim.name": "name",
        f"{lenient}.scope.claim.name": "roles",
        f"{lenient}.clock.skew.seconds": "0",
    }


def settings(keys: Path) -> tuple[Addresses, dict[str, str]]:
    """Settings of a broker with the listeners of all dialogues."""
    jwt_dialogues.write_keys(keys)
    ports = {name: free_port() for name in ("PLAINTEXT", *SASL_LISTENERS, *SIGNED_LISTENERS)}
    protocols = [f"{name}:SASL_PLAINTEXT" for name in (*SASL_LISTENERS, *SIGNED_LISTENERS)]
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", *protocols]),
        "inter.broker.listener.name": "PLAINTEXT",
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
        "sasl.enabled.mechanisms": ",".join(["PLAIN", "OAUTHBEARER", *MECHANISMS]),
    }
    given["advertised.listeners"] = given["listeners"]
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for name in SASL_LISTENERS:
        prefix = f"listener.name.{name.lower()}"
        given[f"{prefix}.plain.sasl.jaas.config"] = PLAIN_LINE
        given[f"{prefix}.oauthbearer.sasl.jaas.config"] = OAUTH_LINE
        for mechanism in MECHANISMS:
            given[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = scram
    for mechanism in ("plain", *(each.lower() for each in MECHANISMS)):
        given[f"listener.name.renewed.{mechanism}.connections.max.reauth.ms"] = "60000"
        given[f"listener.name.ending.{mechanism}.connections.max.reauth.ms"] = "1"
    return ports, given | signed_settings(keys)


def apache_settings(given: dict[str, str]) -> dict[str, str]:
    controller = free_port()
    return given | {
        "listeners": f"{given['listeners']},CONTROLLER://localhost:{controller}",
        "listener.security.protocol.map": given["listener.security.protocol.map"]
        + ",CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@localhost:{controller}",
    }


def add_users(port: int) -> None:
    """Set the credentials: alice for both mechanisms, bob for SCRAM-SHA-512."""
    talk = Talk(port)
    for user, mechanism in (("alice", 1), ("alice", 2), ("bob", 2)):
        salted = salted_password(MECHANISMS[mechanism - 1], f"{user}-secret", SALT, 4096)
        upsertion = ScramCredentialUpsertion(user, mechanism, 4096, SALT, salted)
        response: Any = talk.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        assert [each.error_code for each in response.results] == [0]
    talk.close()


assert oauth_dialogues.TOKENS, "adds its own to DIALOGUES"
BY_NAME = {each.name: each for each in DIALOGUES}


def wait_for_users(port: int) -> None:
    """Wait until Apache Kafka's broker knows the users: it learns of bob last."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        talk = Talk(port)
        with suppress(Over):
            talk.scram("bob", "bob-secret", MECHANISMS[1])
            if "no login" not in talk.told:
                talk.close()
                return
        talk.close()
        assert time.monotonic() < deadline, talk.told


class Held:
    """A broker's answers in each dialogue, and a function to repeat one."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        for port in addresses.values():
            wait_until_open(port)
        add_users(addresses["PLAINTEXT"])
        wait_for_users(addresses["SASL"])
        with ThreadPoolExecutor(TOGETHER) as threads:
            told = threads.map(self.again, BY_NAME)
            self.told = dict(zip(BY_NAME, told, strict=True))

    def again(self, name: str) -> list[Any]:
        return outcome(BY_NAME[name], self._addresses)


@pytest.fixture(scope="module")
def of_kwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    directory = tmp_path_factory.mktemp("kwire")
    ports, given = settings(directory / "jwks.json")
    broker = BrokerProcess(directory, given, port=ports["PLAINTEXT"])
    broker.start()
    try:
        yield Held(ports)
    finally:
        finish(broker)


@pytest.fixture(scope="module")
def of_apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    directory: Path = tmp_path_factory.mktemp("apache")
    keys = directory / "jwks.json"
    ports, given = settings(keys)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    with ApacheKafka(
        directory,
        port=ports["PLAINTEXT"],
        settings=apache_settings(given),
        jvm=(*QUICK_JVM, allowed),
    ):
        yield Held(ports)


@pytest.mark.parametrize("name", BY_NAME)
def test_sasl_dialogues_match_apache_kafka(of_kwire: Held, of_apache: Held, name: str) -> None:
    """A dialogue that differs is repeated alone: a busy machine delays answers."""
    ours, theirs = of_kwire.told[name], of_apache.told[name]
    for _ in range(3):
        if ours != theirs:
            ours, theirs = of_kwire.again(name), of_apache.again(name)
    assert ours == theirs
