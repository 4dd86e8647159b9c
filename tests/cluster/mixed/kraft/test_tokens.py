"""Delegation tokens in a cluster of a kwire and an Apache Kafka broker, beside a controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.codecs.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.conformance.kraft_cluster import APACHE, HOST, KWIRE, KRaftCluster
from kwire.testing.hosting.ports import free_port
from tests.security import token_play
from tests.security.talk import Addresses
from tests.security.test_apache_tokens import RECORDED, lines
from tests.security.token_play import Play, create, made, until_told

pytestmark = [pytest.mark.java, pytest.mark.slow]

KWIRES, APACHES = 1, 2
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SASL = {
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": token_play.PLAIN_LINE,
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": SCRAM,
    "connection.failed.authentication.delay.ms": "0",
}

BrokerAddresses = dict[int, Addresses]


@pytest.fixture(scope="module")
def addresses(
    apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerAddresses]:
    """The listeners of each broker."""
    cluster = KRaftCluster(
        tmp_path_factory.mktemp("tokens"), (KWIRE, APACHE), settings=token_play.SETTINGS
    )
    found: BrokerAddresses = {}
    for broker_id, broker in cluster.brokers.items():
        found[broker_id] = {"PLAINTEXT": broker.port, "SASL": free_port()}
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in found[broker_id].items())
        own = {"listeners": listeners, "advertised.listeners": listeners}
        broker.settings.update({**SASL, **own})
    try:
        cluster.start()
        yield found
    finally:
        cluster.kill()


def test_tokens_by_way_of_kwire_live_as_those_of_apache_kafka_alone(
    addresses: BrokerAddresses,
) -> None:
    assert lines(token_play.held(addresses[KWIRES])) == RECORDED.read_text().splitlines()


@pytest.mark.parametrize(("maker", "other"), [(KWIRES, APACHES), (APACHES, KWIRES)])
def test_token_of_one_broker_is_known_to_the_other(
    maker: int, other: int, addresses: BrokerAddresses
) -> None:
    here, there = Play(addresses[maker]), Play(addresses[other])
    try:
        token = made(here, "mallory", create())
        assert token.error_code == 0
        until_told(there, token.token_id, token.expiry_timestamp_ms)
        there.by_token(token.token_id, bytes(token.hmac)).close()
        there.ask("mallory", ExpireDelegationTokenRequest(bytes(token.hmac), -1), 2)
        until_told(here, token.token_id, None)
    finally:
        here.close()
        there.close()
