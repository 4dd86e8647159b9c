"""Client telemetry with Apache Kafka's own tools and clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen

import pytest

from kwire.client.cluster import Cluster
from kwire.client.consumer import Consumer
from kwire.client.errors import BrokerRefused
from kwire.client.telemetry import PARTITION, PushedMetrics, data_points, pushed
from kwire.conformance.apache_kafka import command
from kwire.testing import BrokerProcess
from tests.clients.librdkafka import create_topic, produce
from tests.inside import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.java]

CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
SENT = "org.apache.kafka.producer.topic.record.send.total"
HOUR_MS = 3_600_000
"""An interval in which a client pushes once, when it ends.

A push that comes less than an interval after the one before is refused, and what it counts is lost.
"""

JavaClass = Callable[..., CompletedProcess[str]]


def pushes(
    broker: BrokerProcess, client_id: str, *, until_last: bool = False
) -> list[PushedMetrics]:
    """What this client has pushed, once there is something, or the last of it.

    A push is answered before it is written.
    """
    deadline = time.monotonic() + PATIENCE_S
    with Cluster(broker.bootstrap) as cluster:
        while time.monotonic() < deadline:
            found = [each for each in _kept(cluster) if each.client_id == client_id]
            if found and (found[-1].is_last or not until_last):
                return found
    raise AssertionError(f"{client_id} pushed nothing")


def _kept(cluster: Cluster) -> list[PushedMetrics]:
    consumer = Consumer(cluster)
    try:
        consumer.assign({PARTITION: 0})
        found = consumer.poll(0.5)
        while not consumer.is_at_end:
            found += consumer.poll(0.5)
        return [pushed(record) for record in found]
    except BrokerRefused:  # there is no topic before the first push
        return []
    finally:
        consumer.close()


def test_apache_kafkas_tools_and_clients_use_telemetry(
    broker: BrokerProcess, java_class: JavaClass
) -> None:
    def tool(name: str, *arguments: object, stdin: str = "") -> str:
        given = ["--bootstrap-server", broker.bootstrap, *map(str, arguments)]
        done = java_class(name, given, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " ERROR " not in done.stderr, done.stderr
        return done.stdout

    everything = ["--alter", "--name", "all", "--metrics", "*", "--interval", HOUR_MS]
    assert "Altered client metrics config for all." in tool(CLIENT_METRICS, *everything)
    settings = "metrics=org.apache.kafka.producer,match=[client_software_name=apache.*]"
    settings += f",interval.ms={HOUR_MS}"
    one = ["--entity-type", "client-metrics", "--entity-name", "java"]
    tool(CONFIGS, "--alter", *one, "--add-config", settings)
    assert tool(CLIENT_METRICS, "--list").split() == ["all", "java"]
    described = tool(CLIENT_METRICS, "--describe", "--name", "java")
    assert "match=client_software_name=apache.*" in described
    assert "metrics=org.apache.kafka.producer" in tool(CONFIGS, "--describe", *one)

    create_topic(broker.bootstrap, "t")
    produce(broker.bootstrap, "t", 10)
    push = "--command-property", "enable.metrics.push=true"
    tool(CONSUMER, "--topic", "t", "--from-beginning", "--max-messages", 10, *push)
    found = pushes(broker, "console-consumer", until_last=True)  # it says that it goes
    assert found[-1].software == "apache-kafka-java 4.3.1"
    assert "org.apache.kafka.consumer.connection.count" in metrics(found)
    assert metrics(found)["org.apache.kafka.consumer.fetch.manager.records.consumed.total"] == 10

    tool(CLIENT_METRICS, "--delete", "--name", "all")
    assert tool(CLIENT_METRICS, "--list").split() == ["java"]
    tool(CONFIGS, "--alter", *one, "--add-config", "interval.ms=200")
    found, sent = pushes_of_a_producer(broker, push)
    assert 0 < metrics(found)[SENT] <= sent
    others = [name for name in metrics(found) if not name.startswith("org.apache.kafka.producer")]
    assert not others, "nobody asks for them any more"


def pushes_of_a_producer(
    broker: BrokerProcess, push: tuple[str, ...]
) -> tuple[list[PushedMetrics], int]:
    """What a producer has pushed that sends records until it has pushed how many, and their number.

    Its last push tells only what it has sent since the one before.
    """
    given = ["--bootstrap-server", broker.bootstrap, "--topic", "t", *push]
    with Popen(command(PRODUCER, given), stdin=PIPE, stdout=DEVNULL, text=True) as producer:
        assert producer.stdin is not None
        sent, is_told = 0, False
        deadline = time.monotonic() + PATIENCE_S
        while not is_told:
            assert time.monotonic() < deadline, "what was sent is not told of"
            producer.stdin.write("a\n")
            producer.stdin.flush()
            sent += 1
            is_told = bool(metrics(pushes(broker, "console-producer")).get(SENT))
    assert producer.returncode == 0
    return pushes(broker, "console-producer"), sent


def metrics(pushed: list[PushedMetrics]) -> dict[str, float]:
    """What all pushes of a client say of each metric, the sum of what it counted in between.

    Where there is one for each topic or node besides, it is that of all of them.
    """
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for each in pushed:
        for point in data_points(each.payload):
            values, labels = found.setdefault(point.name, {}), tuple(point.labels.values())
            before = values.get(labels, 0) if point.is_difference else 0
            values[labels] = before + (point.value or 0)
    return {name: max(values.values()) for name, values in found.items()}
