"""Logins, right and wrong, on kwire and on Apache Kafka: the same answers at the same moments."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.conformance.apache_kafka import QUICK_JVM, ApacheKafka
from kwire.security.sasl.scram import salted_password
from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess
from tests.conftest import finish
from tests.security import jwt_dialogues, oauth_dialogues
from tests.security.dialogues import DIALOGUES
from tests.security.sasl_client import PLAIN_LINE
from tests.security.talk import DELAY_MS, Addresses, Talk, outcome

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
    """Of the listeners that take signed tokens alone."""
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
        f"{lenient}.sub.claim.name": "name",
        f"{lenient}.scope.claim.name": "roles",
        f"{lenient}.clock.skew.seconds": "0",
    }


def settings(keys: Path) -> tuple[Addresses, dict[str, str]]:
    """Of a broker with the listeners that the dialogues are held on."""
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
    """alice by both mechanisms, bob by the longer one."""
    talk = Talk(port)
    for user, mechanism in (("alice", 1), ("alice", 2), ("bob", 2)):
        salted = salted_password(MECHANISMS[mechanism - 1], f"{user}-secret", SALT, 4096)
        upsertion = ScramCredentialUpsertion(user, mechanism, 4096, SALT, salted)
        response: Any = talk.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        assert [each.error_code for each in response.results] == [0]
    talk.close()


assert oauth_dialogues.TOKENS, "adds its own to DIALOGUES"


def held(addresses: Addresses) -> dict[str, list[Any]]:
    add_users(addresses["PLAINTEXT"])
    with ThreadPoolExecutor(TOGETHER) as threads:
        outcomes = threads.map(lambda each: outcome(each, addresses), DIALOGUES)
        return {each.name: told for each, told in zip(DIALOGUES, outcomes, strict=True)}


@pytest.fixture(scope="module")
def of_kwire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Any]]]:
    directory = tmp_path_factory.mktemp("kwire")
    ports, given = settings(directory / "jwks.json")
    broker = BrokerProcess(directory, given, port=ports["PLAINTEXT"])
    broker.start()
    try:
        yield held(ports)
    finally:
        finish(broker)


@pytest.fixture(scope="module")
def of_apache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
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
        return held(ports)


@pytest.mark.parametrize("name", [each.name for each in DIALOGUES])
def test_the_same_is_told(
    of_kwire: dict[str, list[Any]], of_apache: dict[str, list[Any]], name: str
) -> None:
    assert of_kwire[name] == of_apache[name]
