"""All kinds of clients authenticate by each mechanism, and get the error of a failed login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer

from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security.sasl_client import PLAIN_LINE

# kafka-python leaves them to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAIT_S = 240
JavaClass = Callable[..., CompletedProcess[str]]
LISTENER = "listener.name.sasl"


class Secured(BrokerProcess):
    """A broker with a plain listener for the setup, and `sasl_port` for clients."""

    def __init__(self, directory: Path) -> None:
        port, self.sasl_port = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{self.sasl_port}"
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{LISTENER}.plain.sasl.jaas.config": PLAIN_LINE,
        }
        super().__init__(directory, settings, port=port)

    @property
    def sasl(self) -> str:
        return f"127.0.0.1:{self.sasl_port}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    broker = Secured(tmp_path_factory.mktemp("secured"))
    broker.start()
    add_alice(broker.bootstrap)
    yield broker
    finish(broker)


def add_alice(bootstrap: str) -> None:
    """Set alice's password for both SCRAM mechanisms with librdkafka's admin client."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion("alice", info, b"alice-secret")
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(WAIT_S)
    described = admin.describe_user_scram_credentials(["alice"])
    assert isinstance(described, dict)
    assert len(described["alice"].result(WAIT_S).scram_credential_infos) == 2


def confluent(broker: Secured, mechanism: str, password: str = "alice-secret") -> dict[str, object]:
    return {
        "bootstrap.servers": broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_authenticates(secured: Secured, mechanism: str, unique: str) -> None:
    producer = Producer(confluent(secured, mechanism))
    producer.produce(unique, b"hello")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            **confluent(secured, mechanism),
            "group.id": unique,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([unique])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_gets_the_error_of_a_failed_login(secured: Secured, mechanism: str) -> None:
    errors: list[KafkaError] = []
    settings = {**confluent(secured, mechanism, "wrong"), "error_cb": errors.append}
    producer = Producer(settings, logger=None)
    for _ in range(WAIT_S):
        producer.poll(1)
        if errors:
            break
    assert errors[0].code() == KafkaError._AUTHENTICATION


def kafka_python(broker: Secured, mechanism: str, password: str = "alice-secret") -> dict[str, str]:
    return {
        "bootstrap_servers": broker.sasl,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_authenticates(secured: Secured, mechanism: str, unique: str) -> None:
    producer = KafkaProducer(**kafka_python(secured, mechanism))
    producer.send(unique, b"hello").get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(
        unique,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
        **kafka_python(secured, mechanism),
    )
    assert next(consumer).value == b"hello"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_authenticates(secured: Secured, mechanism: str, unique: str) -> None:
    async def both() -> bytes | None:
        options = kafka_python(secured, mechanism)
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(unique, b"hello")
        consumer = AIOKafkaConsumer(unique, auto_offset_reset="earliest", **options)
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), WAIT_S)
            value: bytes | None = message.value
            return value

    assert asyncio.run(both()) == b"hello"


MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_properties(directory: Path, user: str, password: str) -> Path:
    path = directory / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={MODULE} required username="{user}" password="{password}";\n'
    )
    return path


@pytest.mark.java
@pytest.mark.slow
def test_kafka_configs_and_kafka_topics_use_scram_users(
    secured: Secured, java_class: JavaClass, tmp_path: Path, unique: str
) -> None:
    """A user added by kafka-configs can use kafka-topics until it is deleted."""

    def configs(*arguments: str) -> str:
        given = ["--bootstrap-server", secured.bootstrap, "--entity-type", "users"]
        done = java_class("kafka.admin.ConfigCommand", [*given, *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def topics() -> CompletedProcess[str]:
        properties = java_properties(tmp_path, unique, "pa,ss")
        given = ["--bootstrap-server", secured.sasl, "--command-config", str(properties)]
        return java_class("org.apache.kafka.tools.TopicCommand", [*given, "--list"])

    own = ["--entity-name", unique]
    configs("--alter", *own, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=pa,ss]")
    assert "SCRAM-SHA-256=iterations=8192" in configs("--describe", *own)
    assert topics().returncode == 0
    configs("--alter", *own, "--delete-config", "SCRAM-SHA-256")
    assert "SaslAuthenticationException: Authentication failed during" in topics().stderr


def test_log_has_no_secret(secured: Secured) -> None:
    """This test must be the last of the file."""
    for secret in ("alice-secret", "bob-secret", "stored_key", "salt="):
        assert secret not in secured.log
