"""All kinds of clients authenticate inside TLS by each mechanism, then write and read."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from kwire.conformance.pytest_apache import JavaClass
from tests.commands.forked import run_kwire
from tests.conftest import finish
from tests.security.secured import (
    MECHANISMS,
    PASSWORD,
    WAIT_S,
    SaslSsl,
    java,
    librdkafka,
    write_properties,
)

pytestmark = [
    pytest.mark.slow,
    # kafka-python leaves them to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning"),
]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslSsl]:
    broker = SaslSsl(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    finish(broker)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_authenticates(secured: SaslSsl, mechanism: str, unique: str) -> None:
    producer = Producer(librdkafka(secured, mechanism))
    producer.produce(unique, b"hello")
    assert producer.flush(WAIT_S) == 0
    reading = {"group.id": unique, "auto.offset.reset": "earliest"}
    consumer = Consumer({**librdkafka(secured, mechanism), **reading})
    consumer.subscribe([unique])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


class KafkaPythonToken(KafkaPythonTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_authenticates(secured: SaslSsl, mechanism: str, unique: str) -> None:
    options = {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(secured.trusted),
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = KafkaPythonToken(secured.token.read_text())
    else:
        options |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    producer = KafkaProducer(**options)
    producer.send(unique, b"hello").get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        unique, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000, **options
    )
    assert next(consumer).value == b"hello"
    consumer.close()


class AioToken(AbstractTokenProvider):  # type: ignore[misc]  # it has no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_authenticates(secured: SaslSsl, mechanism: str, unique: str) -> None:
    async def both() -> bytes | None:
        options = {
            "bootstrap_servers": secured.address,
            "security_protocol": "SASL_SSL",
            "ssl_context": create_ssl_context(cafile=str(secured.trusted)),
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = AioToken(secured.token.read_text())
        else:
            options |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(unique, b"hello")
        consumer = AIOKafkaConsumer(unique, auto_offset_reset="earliest", **options)
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), WAIT_S)
            value: bytes | None = message.value
            return value

    assert asyncio.run(both()) == b"hello"


@pytest.mark.java
@pytest.mark.parametrize(
    "mechanism", [pytest.param("SCRAM-SHA-512", marks=pytest.mark.long), "OAUTHBEARER"]
)
def test_java_tools_authenticate(
    secured: SaslSsl,
    mechanism: str,
    unique: str,
    java_class: JavaClass,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic made, written and read; Java's client must be told that it may read the token.

    With SCRAM-SHA-512 Spark's Java clients write and read for every change (test_secured.py).
    """
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={secured.token.as_uri()}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    properties = write_properties(tmp_path / "client.properties", java(secured, mechanism))
    where = ["--bootstrap-server", secured.address, "--command-config", str(properties)]
    where += ["--topic", unique]
    made = java_class("org.apache.kafka.tools.TopicCommand", ["--create", *where])
    assert "Created topic" in made.stdout, made.stderr
    written = java_class("org.apache.kafka.tools.ConsoleProducer", where, stdin="inside\n")
    assert written.returncode == 0, written.stderr
    read = java_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        [*where, "--from-beginning", "--max-messages", "1"],
    )
    assert read.stdout.strip() == "inside", read.stderr


def kwire(
    secured: SaslSsl, properties: Path, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    options = ["--command-config", str(properties), "--timeout", str(WAIT_S)]
    return run_kwire(*arguments, "-b", secured.address, *options, stdin=stdin)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kwire_commands_authenticate(
    secured: SaslSsl, mechanism: str, unique: str, tmp_path: Path
) -> None:
    properties = write_properties(tmp_path / "client.properties", java(secured, mechanism))
    made = kwire(secured, properties, "topics", "create", unique)
    assert made.returncode == 0, made.stderr
    written = kwire(secured, properties, "produce", unique, stdin="inside\n")
    assert written.returncode == 0, written.stderr
    read = kwire(secured, properties, "consume", unique, "--from-beginning", "--exit")
    assert "inside" in read.stdout, read.stderr


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "password": (
        {"sasl.jaas.config": 'X required username="alice" password="wrong-secret";'},
        "refused the login: Authentication failed during authentication due to invalid credentials",
    ),
    "mechanism": ({"sasl.mechanism": "GSSAPI"}, "mechanism GSSAPI is unknown"),
    "no line": ({"sasl.jaas.config": ""}, "sasl.jaas.config"),
    "protocol": ({"security.protocol": "SSL"}, "lost the connection"),
    "a listener without": ({"security.protocol": "SASL_PLAINTEXT"}, "needs no login"),
}


@pytest.mark.parametrize("name", WRONG)
def test_kwire_commands_report_a_failed_login(secured: SaslSsl, name: str, tmp_path: Path) -> None:
    changed, words = WRONG[name]
    given = {**java(secured, "SCRAM-SHA-256"), **changed}
    properties = write_properties(tmp_path / "client.properties", given)
    where = secured.bootstrap if name == "a listener without" else secured.address
    options = ["--command-config", str(properties), "--timeout", "60"]
    done = run_kwire("topics", "list", "-b", where, *options)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "secret" not in done.stderr


def test_expired_token_is_refused(secured: SaslSsl, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a.b.c")
    url = {"sasl.oauthbearer.token.endpoint.url": token.as_uri()}
    given = {**java(secured, "OAUTHBEARER"), **url}
    properties = write_properties(tmp_path / "client.properties", given)
    done = kwire(secured, properties, "topics", "list")
    assert 'refused the login: {"status":"invalid_token"}' in done.stderr
