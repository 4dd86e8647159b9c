"""Members of a cluster on ZooKeeper say of client telemetry what Apache Kafka 3.9 says there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codecs.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.codecs.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from kwire.codecs.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from kwire.codecs.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.peer import ClientConnection, Closed
from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, mixed

pytestmark = [pytest.mark.java, pytest.mark.slow]

CLIENT_METRICS = 16
ASKED: tuple[Message, ...] = (
    *(
        IncrementalAlterConfigsRequest(
            [IncrementalResource(CLIENT_METRICS, name, [IncrementalConfig(key, 0, "1000")])]
        )
        for name in ("m", "")
        for key in ("interval.ms", "nonsense")
    ),
    AlterConfigsRequest(
        [AlterConfigsResource(CLIENT_METRICS, "m", [AlterableConfig("interval.ms", "1000")])]
    ),
    *(DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, each)]) for each in "m "),
    DescribeConfigsRequest([DescribeConfigsResource(CLIENT_METRICS, "")]),
)
TELEMETRY: tuple[Message, ...] = (GetTelemetrySubscriptionsRequest(), PushTelemetryRequest())


def answers(broker: RemoteBroker) -> list[str]:
    peer = ClientConnection(broker.address)
    try:
        return [str(broker.ask(peer, request)) for request in ASKED]
    finally:
        peer.close()


def closes(broker: RemoteBroker, request: Message) -> bool:
    peer = ClientConnection(broker.address)
    try:
        assert request.API_KEY is not None
        peer.send(request.API_KEY, 0, request.encode(0))
        return isinstance(peer.receive(), Closed)
    finally:
        peer.close()


def test_telemetry_is_refused_on_zookeeper_as_by_apache_kafka(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    with mixed(zookeeper, tmp_path, f"/{unique}", KWIRE, APACHE) as cluster:
        own, oracle = (RemoteBroker(address_of(cluster.address(each))) for each in (1, 2))
        for broker in (own, oracle):
            broker.read_versions_and_ids()
            assert ApiKey.GET_TELEMETRY_SUBSCRIPTIONS not in broker.served
            assert ApiKey.PUSH_TELEMETRY not in broker.served
            assert all(closes(broker, request) for request in TELEMETRY)
        assert answers(own) == answers(oracle)
