"""Tests stock clients with SSL listeners: each kind of key store, and the client's principal."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from kwire.conformance.pytest_apache import JavaClass
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from tests.clients.aio import run
from tests.commands.forked import run_kwire
from tests.conftest import finish
from tests.security.tls.authority import PASSWORD, Authority

pytestmark = pytest.mark.slow
TIMEOUT_S = 120.0


class Secured(NamedTuple):
    """A broker whose SSL listener requires certificates, and the files of a client."""

    bootstrap: str
    broker: BrokerProcess
    authority: Path
    own: Path
    p12: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, plain, port = Authority(), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{port}"
    server = authority.issue()
    broker = BrokerProcess(
        directory / "broker",
        {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "ssl.client.auth": "required",
            "listener.name.ssl.ssl.keystore.type": "PKCS12",
            "listener.name.ssl.ssl.keystore.location": str(server.write_p12(directory / "s.p12")),
            "listener.name.ssl.ssl.keystore.password": PASSWORD,
            "listener.name.ssl.ssl.truststore.type": "PEM",
            "listener.name.ssl.ssl.truststore.location": str(authority.write(directory / "ca.pem")),
        },
        port=plain,
    )
    broker.start()
    own = authority.issue("alice")
    yield Secured(
        f"127.0.0.1:{port}",
        broker,
        directory / "ca.pem",
        own.write_pem(directory / "alice.pem"),
        own.write_p12(directory / "alice.p12"),
    )
    finish(broker)


def librdkafka(secured: Secured, *, own: bool = True) -> dict[str, str]:
    mine = {
        "ssl.certificate.location": str(secured.own),
        "ssl.key.location": str(secured.own),
    }
    return {
        "bootstrap.servers": secured.bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": str(secured.authority),
        **(mine if own else {}),
    }


def test_librdkafka_writes_and_reads_through_tls(secured: Secured, unique: str) -> None:
    """Writes and reads values of sizes around that of a TLS record."""
    topic = unique
    values = [bytes([size % 256]) * size for size in (1, 100, 16_383, 16_384, 16_385, 900_000)] * 5
    producer = Producer(librdkafka(secured))
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**librdkafka(secured), "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes | None] = []
    while len(read) < len(values):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value())
    consumer.close()
    assert read == values


def test_librdkafka_without_certificate_is_refused(secured: Secured) -> None:
    failures: list[str] = []

    def failed(error: KafkaError) -> None:
        failures.append(str(error))

    producer = Producer(librdkafka(secured, own=False), error_cb=failed, logger=logging.getLogger())
    deadline = time.monotonic() + TIMEOUT_S
    while not failures and time.monotonic() < deadline:
        producer.poll(0.1)
    assert "certificate required" in failures[0]


def test_kafka_python_writes_and_reads_through_tls(secured: Secured, unique: str) -> None:
    topic = unique
    common = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority),
        "ssl_certfile": str(secured.own),
        "ssl_keyfile": str(secured.own),
    }
    producer = KafkaProducer(**common)
    producer.send(topic, b"inside").get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **common)
    assert next(consumer).value == b"inside"
    consumer.close()


def test_aiokafka_writes_and_reads_through_tls(secured: Secured, unique: str) -> None:
    topic = unique
    context = create_ssl_context(cafile=str(secured.authority), certfile=str(secured.own))

    async def produce() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=secured.bootstrap, security_protocol="SSL", ssl_context=context
        ) as producer:
            sent = await producer.send_and_wait(topic, b"inside")
            assert sent.offset == 0

    run(produce)


def kwire(secured: Secured, properties: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = secured.own.parent / "client.properties"
    file.write_text(properties)
    options = ["-b", secured.bootstrap, "--command-config", str(file), "--timeout", "30"]
    return run_kwire(*arguments, *options, timeout_s=TIMEOUT_S)


def java_properties(secured: Secured) -> str:
    return f"""\
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={secured.authority}
ssl.keystore.type=PKCS12
ssl.keystore.location={secured.p12}
ssl.keystore.password={PASSWORD}
"""


def test_kwire_commands_work_through_tls(secured: Secured, unique: str) -> None:
    topic = unique
    made = kwire(secured, java_properties(secured), "topics", "create", topic)
    assert made.returncode == 0, made.stderr
    listed = kwire(secured, java_properties(secured), "topics", "list")
    assert topic in listed.stdout


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("ssl.truststore.location", "its certificate is not trusted"),
        ("ssl.keystore.password", "keystore password was incorrect"),
        ("ssl.keystore", "certificate required"),
    ],
)
def test_kwire_commands_report_wrong_tls_settings(
    secured: Secured, changed: str, words: str
) -> None:
    other = Authority().write(secured.own.parent / "other.pem")
    values = {
        "ssl.truststore.location": f"{changed}={other}",
        "ssl.keystore.password": f"{changed}=x",
    }
    lines = java_properties(secured).splitlines()
    kept = [line for line in lines if not line.startswith(changed)]
    done = kwire(secured, "\n".join([*kept, values.get(changed, "")]), "topics", "list")
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert PASSWORD not in done.stderr


@pytest.mark.long
def test_java_tools_write_and_read_through_tls(
    secured: Secured, unique: str, java_class: JavaClass, tmp_path: Path
) -> None:
    """Writes and reads a topic with the client's stores as PKCS12, JKS and PEM."""
    trusted = tmp_path / "trusted.jks"
    imported = [
        "keytool",
        "-importcert",
        "-noprompt",
        "-alias",
        "ca",
        "-storetype",
        "JKS",
        "-storepass",
    ]
    imported += [PASSWORD, "-file", str(secured.authority), "-keystore", str(trusted)]
    subprocess.run(imported, check=True, capture_output=True, timeout=TIMEOUT_S)
    first, second = tmp_path / "first.properties", tmp_path / "second.properties"
    first.write_text(java_properties(secured))
    second.write_text(
        f"security.protocol=SSL\nssl.truststore.location={trusted}\n"
        f"ssl.truststore.password={PASSWORD}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={secured.own}\n"
    )
    where = ["--bootstrap-server", secured.bootstrap, "--topic", unique]
    made = java_class(
        "org.apache.kafka.tools.TopicCommand",
        ["--create", *where, "--command-config", str(first)],
    )
    assert "Created topic" in made.stdout, made.stderr
    produced = java_class(
        "org.apache.kafka.tools.ConsoleProducer",
        [*where, "--command-config", str(second)],
        stdin="inside\n",
    )
    assert produced.returncode == 0, produced.stderr
    read = java_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        [*where, "--from-beginning", "--max-messages", "1", "--command-config", str(first)],
    )
    assert read.stdout.strip() == "inside", read.stderr
