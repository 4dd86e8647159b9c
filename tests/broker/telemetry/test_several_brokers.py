"""Brokers of one machine: each takes pushes, and one of them has the topic."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigAlteration, ConfigResource, ConfigResourceKind, alter_configs
from kwire.client.consumer import Consumer
from kwire.cluster.metadata.topic_names import TELEMETRY_TOPIC
from kwire.codecs.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.peer import ClientConnection
from kwire.testing import SharedClusterProcess
from tests.inside import PATIENCE_S

pytestmark = pytest.mark.slow

INSTANCE = b"instance of mine"


def asked(address: str) -> tuple[RemoteBroker, ClientConnection, int]:
    """A broker that has heard of the subscription, a client of it, and what that is told."""
    broker = RemoteBroker(address_of(address))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        broker.read_versions_and_ids()
        if GetTelemetrySubscriptionsRequest.API_KEY in broker.served:
            peer = ClientConnection(broker.address)
            told = broker.ask(peer, GetTelemetrySubscriptionsRequest(INSTANCE))
            assert told.requested_metrics == ["a"]
            return broker, peer, told.subscription_id
        time.sleep(0.02)
    raise AssertionError(f"{address} never heard of the subscription")


def kept(cluster: Cluster, count: int) -> list[bytes | None]:
    consumer = Consumer(cluster)
    found: list[bytes | None] = []
    consumer.assign({TopicPartition(TELEMETRY_TOPIC, 0): 0})
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [record.value for record in consumer.poll(0.5)]
    consumer.close()
    return found


def test_pushes_to_all_brokers_are_in_one_topic(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2) as brokers:
        addresses = [each.bootstrap for each in brokers.brokers.values()]
        with Cluster(addresses[0]) as cluster:
            wanted = {"metrics": (ConfigAlteration.SET, "a")}
            alter_configs(cluster, ConfigResource(ConfigResourceKind.CLIENT_METRICS, "s"), wanted)
            ids = set()
            for number, address in enumerate(addresses):
                broker, peer, subscription_id = asked(address)
                ids.add(subscription_id)
                push = PushTelemetryRequest(INSTANCE, subscription_id, False, 0, bytes([number]))
                assert broker.ask(peer, push).error_code == 0
                peer.close()
            assert len(ids) == 1, "a client that moves need not ask again"
            assert sorted(kept(cluster, 2), key=str) == [b"\0", b"\1"]
