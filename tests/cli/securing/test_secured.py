"""`kwire serve --secure`: clients of all kinds come in by the files that it writes, no others."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from kwire.cli.app import app
from kwire.security.tls.making import DevelopmentAuthority, certificates_in, properties_text
from kwire.settings.properties import read_properties
from tests.commands.forked import run_kwire

# kafka-python leaves them to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

WAIT_S = 60
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
Settings = dict[str, str | int | float | bool]
JavaClass = Callable[..., CompletedProcess[str]]


class Running:
    """The broker, and what it said until it was ready."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.folder = data.with_name(f"{data.name}-secure")
        words = ["serve", "--secure", "--port", "0", "--data", str(data), *arguments]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", *words], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        self.said = ""
        for line in self._process.stderr:
            self.said += line
            if " is ready." in line or " are ready:" in line:
                return
        raise AssertionError(self.said)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.said += self._process.communicate(timeout=120)[1]

    def properties(self, name: str) -> dict[str, str]:
        return read_properties(self.folder / name)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("secured") / "data")
    yield running
    running.stop()


def test_librdkafka_client_logs_in_with_its_file(secured: Running, unique: str) -> None:
    settings = secured.properties("librdkafka.properties")
    producer = Producer(settings)
    producer.produce(unique, b"hello")
    assert producer.flush(WAIT_S) == 0
    group = {"group.id": unique, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe([unique])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"hello"
    consumer.close()


def test_kafka_python_client_logs_in_with_its_file(secured: Running, unique: str) -> None:
    settings = json.loads((secured.folder / "kafka-python.json").read_text())
    producer = KafkaProducer(**settings)
    producer.send(unique, b"hello").get(WAIT_S)
    producer.close()
    consumer = KafkaConsumer(unique, auto_offset_reset="earliest", group_id=None, **settings)
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


def failure(settings: Settings) -> int:
    """Why a client does not come in."""
    errors: list[KafkaError] = []
    watched: Any = {**settings, "error_cb": errors.append}
    client = AdminClient(watched)
    while not errors:
        client.poll(0.1)
    return errors[0].code()


def test_wrong_password_and_untrusted_certificate_are_refused(
    secured: Running, tmp_path: Path
) -> None:
    right = secured.properties("librdkafka.properties")
    strangers = DevelopmentAuthority(tmp_path).path
    assert failure({**right, "sasl.password": "wrong"}) == KafkaError._AUTHENTICATION
    assert failure({**right, "ssl.ca.location": str(strangers)}) == KafkaError._SSL


def test_secret_files_are_readable_by_their_owner_only(secured: Running) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in secured.folder.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(secured.folder.stat().st_mode) == 0o700
    password = secured.properties("librdkafka.properties")["sasl.password"]
    assert password in (secured.folder / "client.properties").read_text()
    assert password not in secured.said


def test_spark_options_match_the_java_properties(secured: Running) -> None:
    spark = json.loads((secured.folder / "spark.json").read_text())
    java = secured.properties("client.properties")
    assert spark == {f"kafka.{name}": value for name, value in java.items()}


def tool(java_class: JavaClass, name: str, properties: Path, *arguments: str) -> str:
    bootstrap = read_properties(properties)["bootstrap.servers"]
    given = ["--bootstrap-server", bootstrap, "--command-config", str(properties)]
    done = java_class(f"org.apache.kafka.tools.{name}", [*given, *arguments])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
@pytest.mark.slow
def test_apache_kafkas_tools_log_in_and_use_a_delegation_token(
    secured: Running, java_class: JavaClass, tmp_path: Path, unique: str
) -> None:
    """kafka-delegation-tokens makes a token, by which kafka-topics logs in as its owner."""
    properties = secured.folder / "client.properties"
    tool(java_class, "TopicCommand", properties, "--create", "--topic", unique)
    hour = ["--max-life-time-period", "3600000"]
    made = tool(
        java_class, "DelegationTokenCommand", properties, "--create", *hour,
        "--renewer-principal", "User:bob",
    )  # fmt: skip
    found = re.search(r"^(\S{22})\s+(\S{86}==)\s+User:admin\s+User:admin\s+\S*User:bob", made, re.M)
    assert found is not None, made
    token_id, hmac = found.groups()
    assert unique in tool(
        java_class, "TopicCommand", by_token(properties, token_id, hmac, tmp_path), "--list"
    )
    describe = ["--describe", "--owner-principal", "User:admin"]
    described = tool(java_class, "DelegationTokenCommand", properties, *describe)
    assert token_id in described
    renewal = ["--renew", "--renew-time-period", "-1", "--hmac", hmac]
    assert "Completed renew operation" in tool(
        java_class, "DelegationTokenCommand", properties, *renewal
    )
    ending = ["--expire", "--expiry-time-period", "-1", "--hmac", hmac]
    assert "Completed expire operation" in tool(
        java_class, "DelegationTokenCommand", properties, *ending
    )
    assert token_id not in tool(java_class, "DelegationTokenCommand", properties, *describe)


def by_token(properties: Path, token_id: str, hmac: str, directory: Path) -> Path:
    """The properties of who has a token."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    line = f'{module} username="{token_id}" password="{hmac}" tokenauth="true";'
    path = directory / "token.properties"
    settings = {**read_properties(properties), "sasl.jaas.config": line}
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def is_served(running: Running) -> bool:
    settings: Settings = {**running.properties("librdkafka.properties")}
    return bool(AdminClient(settings).list_topics(timeout=WAIT_S).brokers)


@pytest.mark.slow
def test_secured_broker_keeps_its_secrets_after_a_restart(tmp_path: Path) -> None:
    """Also with a new certificate, where the last one ends soon, and after its folder is lost."""
    data = tmp_path / "data"
    running = Running(data)
    password = (running.folder / "password").read_text()
    running.stop()
    authority = DevelopmentAuthority(running.folder)
    authority.broker("broker", ["localhost"], days=10)
    running = Running(data)
    try:
        own = certificates_in(running.folder / "broker.pem")[0]
        assert (own.not_valid_after_utc - own.not_valid_before_utc).days == 365
        assert (running.folder / "password").read_text() == password
        assert is_served(running)
    finally:
        running.stop()
    for path in running.folder.iterdir():
        path.unlink()
    running = Running(data)
    try:
        assert (running.folder / "password").read_text() != password
        assert is_served(running)
    finally:
        running.stop()


def kwire(running: Running, *words: str, config: Path | None = None, stdin: str = "") -> str:
    """What the command prints that goes by the file, which alone says where the broker is."""
    environ = {name: os.environ[name] for name in os.environ if not name.startswith("KWIRE_")}
    file = str(config or running.folder / "client.properties")
    done = run_kwire(*words, "--command-config", file, stdin=stdin, environment=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_logins(running: Running, topic: str, directory: Path) -> None:
    """By a token's file as it was printed, and by the defaults of `users add`, one comes in."""
    kwire(running, "topics", "create", topic)
    token = directory / "token.properties"
    token.write_text(kwire(running, "tokens", "create"))
    assert topic in kwire(running, "topics", "list", config=token)
    password = kwire(running, "users", "add", "alice", "--generate").strip()
    kwire(running, "acls", "add", "--allow-principal", "User:alice", "--topic", topic,
          "--operation", "Describe")  # fmt: skip
    own = {
        **running.properties("client.properties"),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="alice" password="{password}";',
    }
    alice = directory / "alice.properties"
    alice.write_text(properties_text(own))
    assert topic in kwire(running, "topics", "list", config=alice)


@pytest.mark.slow
def test_token_and_user_of_the_commands_log_in_to_a_secured_broker(
    secured: Running, tmp_path: Path, unique: str
) -> None:
    check_logins(secured, unique, tmp_path)


@pytest.mark.slow
def test_secured_cluster_serves_only_clients_that_log_in(tmp_path: Path, unique: str) -> None:
    """Brokers replicate by mutual TLS; clients find all of them by the files."""
    data = tmp_path / "data"
    running = Running(data, "--brokers", "2")
    try:
        check_logins(running, unique, tmp_path)
        settings = running.properties("librdkafka.properties")
        assert settings["bootstrap.servers"].count(":") == 2
        producer = Producer({**settings, "acks": "all"})
        for number in range(20):
            producer.produce(unique, f"{number}".encode())
        assert producer.flush(WAIT_S) == 0
        (described,) = json.loads(kwire(running, "topics", "describe", unique, "--json"))
        assert {len(each["in_sync"]) for each in described["partitions"]} == {2}
        assert not (running.folder / "broker.properties").exists()
        for number in (1, 2):
            assert not open_or_broken(running.folder / f"broker-{number}.properties")
    finally:
        running.stop()


def open_or_broken(properties: Path) -> list[dict[str, str]]:
    """What `kwire doctor` finds there that is worse than weak."""
    done = CliRunner().invoke(app, ["doctor", str(properties), "--json"])
    found = [each for each in json.loads(done.stdout) if each["grade"] != "weak"]
    assert done.exit_code == (1 if found else 0)
    return found


def test_doctor_finds_nothing_open_in_the_settings_of_a_secured_broker(secured: Running) -> None:
    assert not open_or_broken(secured.folder / "broker.properties")
    settings = secured.properties("broker.properties")
    assert settings["super.users"] == "User:admin"
    assert settings["delegation.token.secret.key"] not in secured.said


@pytest.mark.parametrize(
    "more",
    [
        ["--set", "listeners=PLAINTEXT://:0"],
        ["--set", "super.users=User:a"],
        ["--brokers", "3", "--set", "2:super.users=User:a"],
        ["--brokers", "3", "--set", "inter.broker.listener.name=SASL_SSL"],
    ],
    ids=" ".join,
)
def test_serve_secure_refuses_settings_that_it_sets_itself(tmp_path: Path, more: list[str]) -> None:
    words = ["serve", "--secure", "--data", str(tmp_path / "d"), *more]
    assert CliRunner().invoke(app, words).exit_code == 2
    assert not (tmp_path / "d-secure").exists()


def test_secured_broker_closes_a_connection_without_a_login(secured: Running) -> None:
    """Who speaks TLS and does not log in is told nothing."""
    host, port = secured.properties("client.properties")["bootstrap.servers"].split(":")
    context = ssl.create_default_context(cafile=str(secured.folder / "ca.pem"))
    request = bytes.fromhex("00000010 0003 0009 00000001 0004 74657374 00 01".replace(" ", ""))
    with (
        socket.create_connection((host, int(port)), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        wrapped.sendall(request)
        assert wrapped.recv(100) == b""
