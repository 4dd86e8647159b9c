"""The brokers of the scenarios, and a process of each language's clients for all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import command
from kwire.testing import Kafka, KafkaCluster, Topic
from tests.clients.programs.java_source import compiled
from tests.testing.scenarios.clients import Clients

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def python_clients() -> Iterator[Clients]:
    made = Clients("python", [sys.executable, str(HERE / "confluent.py")])
    yield made
    made.end()


@pytest.fixture(scope="session")
def java_clients(
    apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:
    folder = tmp_path_factory.mktemp("clients")
    classes = compiled(HERE / "Clients.java", apache_kafka_libs, folder)
    made = Clients("java", command("Clients", plugins=[classes], log_level="OFF"))
    yield made
    made.end()


@pytest.fixture(scope="session")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    if shutil.which("go") is None:
        pytest.skip("NOT TESTED: no go in PATH: Go 1.26 or newer is needed")
    program = tmp_path_factory.mktemp("clients") / "clients"
    build = ["go", "build", "-o", str(program), "."]
    done = subprocess.run(build, cwd=HERE / "go_clients", capture_output=True, text=True)
    if done.returncode != 0 and "go: " in done.stderr:  # a module, or a newer Go, cannot be had
        pytest.skip(f"NOT TESTED: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    made = Clients("go", [str(program)])
    yield made
    made.end()


@pytest.fixture
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Those of the language that `by` has chosen for this run of the test."""
    process: Clients = request.getfixturevalue(f"{request.param}_clients")
    with process.closing():
        yield process


@pytest.fixture(scope="session")
def lone_kafka() -> Iterator[Kafka]:
    with Kafka() as broker:
        yield broker


@pytest.fixture
def kafka(lone_kafka: Kafka) -> Kafka:
    """A broker with nothing in it and no faults."""
    if not lone_kafka.running:
        lone_kafka.start()
    lone_kafka.reset()
    return lone_kafka


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(whole_cluster: KafkaCluster) -> KafkaCluster:
    """Three brokers, all of which run, without faults."""
    for broker in whole_cluster.brokers.values():
        if not broker.running:
            broker.start()
    whole_cluster.wait_until_members()
    whole_cluster.faults.clear()
    return whole_cluster


@pytest.fixture
def topic(kafka: Kafka, unique: str) -> Topic:
    return kafka.create_topic(unique)


@pytest.fixture
def orders(cluster: KafkaCluster, unique: str) -> Topic:
    """A topic of the cluster."""
    return cluster.create_topic(unique)
