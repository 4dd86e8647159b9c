"""Delegation tokens on kwire and on Apache Kafka: made, seen, renewed, ended alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess
from tests.conftest import finish
from tests.security import token_play
from tests.security.talk import Addresses
from tests.security.test_apache_sasl import apache_settings

pytestmark = [pytest.mark.java, pytest.mark.slow]


def settings() -> tuple[Addresses, dict[str, str]]:
    ports = {name: free_port() for name in ("PLAINTEXT", "SASL")}
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": token_play.PLAIN_LINE,
        "connection.failed.authentication.delay.ms": "0",
    }
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        given[f"listener.name.sasl.{mechanism}.sasl.jaas.config"] = scram
    given["advertised.listeners"] = given["listeners"]
    return ports, given | token_play.SETTINGS


def test_tokens_live_as_on_apache_kafka(tmp_path: Path, apache_kafka_libs: Path) -> None:
    ports, given = settings()
    broker = BrokerProcess(tmp_path / "kwire", given, port=ports["PLAINTEXT"])
    broker.start()
    try:
        here = token_play.held(ports)
    finally:
        finish(broker)
    ports, given = settings()
    with ApacheKafka(tmp_path / "apache", port=ports["PLAINTEXT"], settings=apache_settings(given)):
        there = token_play.held(ports)
    assert list(here) == list(there)
    differ = {name: (here[name], there[name]) for name in here if here[name] != there[name]}
    assert not differ
