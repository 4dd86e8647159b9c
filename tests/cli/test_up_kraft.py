"""`kwire cluster up --kraft`: controllers of Apache Kafka and kwire brokers from one command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.conformance import apache_kafka, java
from kwire.testing import free_port
from tests.cli.upped import Running, await_that, processes_with
from tests.storage.data_folder import folders

Up = Callable[..., Running]
Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow

TIMEOUT_S = 240
SHORT_HEARTBEATS = ("--set", "broker.heartbeat.interval.ms=200")
"""A broker leaves at a heartbeat, of which there is one in two seconds by default."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "kraft.md"


@pytest.fixture
def apache_jars() -> None:
    """Skip where there is no Java, or no Apache Kafka and no Maven to download it."""
    try:
        apache_kafka.libs()
    except java.JavaMissing as error:
        pytest.skip(f"NOT TESTED: {error}")


def create(bootstrap: str, name: str, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, partitions, replicas)])
    created[name].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    """Produce with acks=all; each record must be acknowledged."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(
            topic, value, partition=number % 2, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == [None] * len(values)


def consumed(bootstrap: str, topic: str, count: int) -> list[str]:
    """The values of the topic's first `count` records, sorted."""
    values: list[str] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "fetch.min.bytes": 1})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    while len(values) < count:
        record = consumer.poll(TIMEOUT_S)
        assert record is not None
        assert record.error() is None, record.error()
        values.append((record.value() or b"").decode())
    consumer.close()
    return sorted(values)


def status_of(kwire: Kwire, bootstrap: str) -> dict[str, Any]:
    done = kwire("cluster", "status", "--json", "-b", bootstrap, status=None)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found


@pytest.mark.java
@pytest.mark.usefixtures("apache_jars")
def test_cluster_beside_a_controller_continues_with_the_data_of_the_last_run(
    up: Up, kwire: Kwire, tmp_path: Path
) -> None:
    words = ("--kraft", "--brokers", "2", "--racks", "a,b", *SHORT_HEARTBEATS)
    first = up(*words)
    assert "controller 101 runs at 127.0.0.1:" in first.told
    assert "broker 2 runs at" in first.told
    status = status_of(kwire, first.bootstrap)
    assert (status["well"], status["controller"]) == (True, 101)
    assert [each["rack"] for each in status["brokers"]] == ["a", "b"]
    assert [each["id"] for each in status["quorum"]["voters"]] == [101]
    assert [each["id"] for each in status["quorum"]["observers"]] == [1, 2]
    create(first.bootstrap, "t", partitions=2, replicas=2)
    produce(first.bootstrap, "t", ["a", "b"])

    assert first.end(signal.SIGTERM) == 0
    assert first.told.endswith("stopping ...\nstopped\n")
    assert processes_with(str(tmp_path)) == []
    clean = [(tmp_path / f"cluster/broker-{n}/data/.kafka_cleanshutdown") for n in (1, 2)]
    assert [each.exists() for each in clean] == [True, True]

    again = up(*words)
    produce(again.bootstrap, "t", ["c", "d"])
    assert consumed(again.bootstrap, "t", 4) == ["a", "b", "c", "d"]
    assert status_of(kwire, again.bootstrap)["cluster"] == status["cluster"]
    assert again.end(signal.SIGINT) == 0


@pytest.mark.java
@pytest.mark.long
@pytest.mark.usefixtures("apache_jars")
def test_cluster_beside_three_controllers_survives_the_loss_of_a_controller_and_a_broker(
    up: Up, kwire: Kwire, tmp_path: Path
) -> None:
    running = up("--kraft", "--controllers", "3")
    create(running.bootstrap, "t", partitions=2, replicas=3)
    produce(running.bootstrap, "t", ["a", "b"])
    leader = status_of(kwire, running.bootstrap)["controller"]
    assert leader in (101, 102, 103)
    os.kill(running.process_of(f"controller {leader}"), signal.SIGKILL)
    running.await_words(f"controller {leader} has ended by SIGKILL: see ")
    produce(running.bootstrap, "t", ["c", "d"])
    os.kill(running.process_of("broker 2"), signal.SIGKILL)
    running.await_words("broker 2 has ended by SIGKILL: see ")
    await_that(lambda: "broker 2 is absent" in status_of(kwire, running.bootstrap)["ailments"])
    produce(running.bootstrap, "t", ["e", "f"])
    status = status_of(kwire, running.bootstrap)
    assert status["controller"] != leader
    await_that(
        lambda: (
            f"controller {leader} does not follow the quorum's leader"
            in status_of(kwire, running.bootstrap)["ailments"]
        )
    )
    assert running.end(signal.SIGTERM) == 0
    assert processes_with(str(tmp_path)) == []

    again = up("--kraft")  # The folder says that there are three controllers.
    await_that(lambda: status_of(kwire, again.bootstrap)["well"])
    status = status_of(kwire, again.bootstrap)
    assert [each["id"] for each in status["quorum"]["voters"]] == [101, 102, 103]
    values = ["a", "b", "c", "d", "e", "f"]
    assert consumed(again.bootstrap, "t", 6) == values
    at = ["--bootstrap-server", again.bootstrap]
    told = _tool("MetadataQuorumCommand", [*at, "describe", "--status"])
    assert f"LeaderId:               {status['controller']}\n" in told
    options = ["--topic", "t", "--from-beginning", "--group", "java", "--max-messages", "6"]
    told = _tool("consumer.ConsoleConsumer", [*at, *options])
    assert sorted(told.split()) == values
    assert again.end(signal.SIGTERM) == 0


def _tool(name: str, arguments: list[str]) -> str:
    """What a tool of Apache Kafka prints."""
    done = apache_kafka.run(f"org.apache.kafka.tools.{name}", arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
@pytest.mark.long
@pytest.mark.usefixtures("apache_jars")
def test_cluster_beside_a_controller_leaves_no_process_behind(up: Up, tmp_path: Path) -> None:
    running = up("--kraft", "--brokers", "1")
    assert len(processes_with(str(tmp_path))) == 2
    assert running.end(signal.SIGKILL) == -signal.SIGKILL
    await_that(lambda: processes_with(str(tmp_path)) == [])


@pytest.mark.java
@pytest.mark.long
@pytest.mark.usefixtures("apache_jars")
def test_broker_with_the_settings_of_the_page_joins_the_cluster_and_is_replaced_by_apache_kafkas(
    up: Up, kwire: Kwire, tmp_path: Path
) -> None:
    running = up("--kraft", "--brokers", "1")
    four = tmp_path / "four"
    four.mkdir()
    settings = four / "server.properties"
    settings.write_text(_settings_of_the_page(tmp_path / "cluster" / "quorum.json", four / "data"))
    serve = [sys.executable, "-m", "kwire.cli", "serve", str(settings)]
    with _running(serve, four / "kwire.log", status=0):
        await_that(lambda: _brokers(kwire, running.bootstrap) == [1, 4])
        create(running.bootstrap, "t", partitions=2, replicas=2)
        produce(running.bootstrap, "t", ["a", "b"])
    start = apache_kafka.command("kafka.Kafka", [settings], version=apache_kafka.VERSION)
    with _running(start, four / "apache.log", status=128 + signal.SIGTERM):
        await_that(lambda: status_of(kwire, running.bootstrap)["well"])
        assert _brokers(kwire, running.bootstrap) == [1, 4]
        produce(running.bootstrap, "t", ["c", "d"])
        assert consumed(running.bootstrap, "t", 4) == ["a", "b", "c", "d"]
    assert running.end(signal.SIGTERM) == 0


def _settings_of_the_page(quorum: Path, data: Path) -> str:
    """The settings of docs/kraft.md with the addresses and the folder of the test."""
    (text,) = re.findall(r"^```properties\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    controllers = json.loads(quorum.read_text())["controllers"]
    addresses = ",".join(f"127.0.0.1:{each['port']}" for each in controllers)
    port = free_port()
    for theirs, ours in (
        ("controller-1:9093,controller-2:9093,controller-3:9093", addresses),
        ("0.0.0.0:9092", f"127.0.0.1:{port}"),
        ("broker-4:9092", f"127.0.0.1:{port}"),
        ("/var/lib/kafka/data", str(data)),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    return str(text)


@contextmanager
def _running(command: list[str], log: Path, status: int) -> Iterator[None]:
    """Run a process, which must end with this status after SIGTERM."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        ended = process.wait(TIMEOUT_S)
        print(log.read_text())
    assert ended == status


def _brokers(kwire: Kwire, bootstrap: str) -> list[int]:
    return [each["broker"] for each in status_of(kwire, bootstrap)["brokers"]]


def test_cluster_up_with_controllers_refuses_other_folders_and_options(
    kwire: Kwire, tmp_path: Path
) -> None:
    on_zookeeper, beside = folders.cluster_up(tmp_path / "a"), folders.kraft_up(tmp_path / "b")
    refused = kwire("cluster", "up", "--kraft", "--data", str(on_zookeeper), status=1)
    assert f"serve it with kwire cluster up --data {on_zookeeper}" in refused.stderr
    refused = kwire("cluster", "up", "--data", str(beside), status=1)
    assert f"serve the cluster with kwire cluster up --kraft --data {beside}" in refused.stderr
    new = ("cluster", "up", "--data", str(tmp_path / "new"))
    refused = kwire(*new, "--controllers", "3", status=2)
    assert "--controllers is of a cluster with --kraft" in refused.stderr
    refused = kwire(*new, "--kraft", "--zookeeper", "localhost:2181", status=2)
    assert "--kraft starts a cluster without ZooKeeper" in refused.stderr


def test_cluster_up_with_controllers_says_that_java_is_missing(
    kwire: Kwire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    refused = kwire("cluster", "up", "--kraft", "--data", str(tmp_path / "data"), status=1)
    assert refused.stderr == (
        f"kwire: Apache Kafka's controllers need Java: no java in JAVA_HOME={tmp_path}: Java 17 or"
        " newer is needed\n"
    )
