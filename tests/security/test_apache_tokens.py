"""Delegation tokens on kwire and on Apache Kafka: made, seen, renewed, ended alike.

For every change kwire's answers are compared with those that were recorded of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security import token_play
from tests.security.talk import Addresses
from tests.security.test_apache_sasl import apache_settings

pytestmark = pytest.mark.slow
RECORDED = Path(__file__).with_name("tokens-4.3.1.txt")
"""Apache Kafka's answers; `--rewrite` records them again."""


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


def lines(held: Mapping[str, object]) -> list[str]:
    """The requests, each with its answer on the next line."""
    return [line for name, answer in held.items() for line in (name, f"  {answer!r}")]


def test_token_answers_match_recorded_kafka_answers(tmp_path: Path) -> None:
    ports, given = settings()
    broker = BrokerProcess(tmp_path, given, port=ports["PLAINTEXT"])
    broker.start()
    try:
        here = token_play.held(ports)
    finally:
        finish(broker)
    assert lines(here) == RECORDED.read_text().splitlines()


@pytest.mark.java
@pytest.mark.long
def test_apache_kafka_gives_the_recorded_token_answers(
    tmp_path: Path, apache_kafka_libs: Path, rewrite: bool
) -> None:
    ports, given = settings()
    with ApacheKafka(tmp_path, port=ports["PLAINTEXT"], settings=apache_settings(given)):
        there = lines(token_play.held(ports))
    if rewrite:
        RECORDED.write_text("\n".join(there) + "\n")
    assert there == RECORDED.read_text().splitlines()
