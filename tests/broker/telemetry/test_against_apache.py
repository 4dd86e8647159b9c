"""Subscription ids, and the order of metrics, are Apache Kafka's: a hash of a Java set."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire.codecs.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.conformance import local
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.cases.describe_configs import CLIENT_METRICS
from kwire.conformance.wire.cases.incremental_alter_configs import DELETE, SET, alter
from kwire.conformance.wire.peer import ClientConnection

pytestmark = [pytest.mark.java, pytest.mark.slow]

ROUNDS = 12
CLIENTS = 4
"""Of each round, with ids of their own: an id is asked of once."""
NAMES = [f"org.apache.kafka.{kind}.{number}" for kind in "abcdef" for number in range(12)]


def drawn(rng: random.Random) -> dict[str, dict[str, str]]:
    """Subscriptions by name; none of them has all metrics."""
    return {
        f"s{number}": {
            "metrics": ",".join(rng.sample(NAMES, rng.choice([1, 3, 13, 30]))),
            "interval.ms": str(rng.randrange(100, 400_000)),
        }
        for number in range(rng.randrange(1, 4))
    }


@contextmanager
def subscribed(
    broker: RemoteBroker, peer: ClientConnection, wanted: dict[str, dict[str, str]]
) -> Iterator[None]:
    for name, settings in wanted.items():
        edits = ((key, SET, text) for key, text in settings.items())
        broker.ask(peer, alter(CLIENT_METRICS, name, *edits))
    yield
    for name, settings in wanted.items():
        broker.ask(peer, alter(CLIENT_METRICS, name, *((key, DELETE, None) for key in settings)))


def told(broker: RemoteBroker, wanted: dict[str, dict[str, str]], ids: list[bytes]) -> list[str]:
    peer = ClientConnection(broker.address)
    try:
        with subscribed(broker, peer, wanted):
            for name in "fence", "fence-behind":  # once there is the second, all before counts
                broker.create_topic(peer, f"{name}-{ids[0].hex()}")
            return [str(broker.ask(peer, GetTelemetrySubscriptionsRequest(each))) for each in ids]
    finally:
        peer.close()


def test_drawn_subscriptions_are_answered_as_by_apache_kafka(
    tmp_path: Path, rng: random.Random
) -> None:
    """Of nodes of its own: a subscription is asked of all clients of a broker."""
    with local.kwire(tmp_path / "kwire") as kwire, local.apache(tmp_path / "apache") as apache:
        brokers = [RemoteBroker(address_of(each)) for each in (kwire, apache)]
        for each in brokers:
            each.read_versions_and_ids()
            each.set_metrics_subscription()
            each.read_versions_and_ids()
        for _ in range(ROUNDS):
            wanted = drawn(rng)
            ids = [rng.randbytes(16) for _ in range(CLIENTS)]
            own, oracle = (told(each, wanted, ids) for each in brokers)
            assert own == oracle, wanted
