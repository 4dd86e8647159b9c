"""Running the command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from kwire.client.cluster import Cluster
from kwire.testing import ClusterProcess, ZooKeeperProcess
from tests.cli.upped import Running
from tests.commands.forked import run_kwire

Kwire = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kwire(bootstrap: str) -> Kwire:
    """Run `kwire` against the broker, in a forked process: kwire("topics", "list").

    With `status=None` whatever it ends with will do.
    """

    def run(
        *arguments: str, stdin: str = "", status: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KWIRE_BOOTSTRAP_SERVERS": bootstrap}
        done = run_kwire(*arguments, stdin=stdin, environment=environment)
        told = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert status is None or done.returncode == status, told
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts the command on a folder of the test's own, at free ports; it ends with the test."""
    running: list[Running] = []

    def start(*words: str) -> Running:
        running.append(Running(tmp_path / "cluster", "--port", "0", *words))
        return running[-1]

    yield start
    for each in running:
        each.process.kill()
        each.process.wait()
        assert each.process.stdout is not None
        each.process.stdout.close()


class OneBroker(Protocol):
    """What both kinds of brokers can be made to do."""

    port: int

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> object: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@pytest.fixture(
    scope="module", params=[pytest.param("apache_kafka", marks=pytest.mark.long), "kwire"]
)
def three_brokers(
    request: pytest.FixtureRequest,
    zookeeper: ZooKeeperProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[int, OneBroker]]:
    """A cluster of three, by id, in racks a, b and c: of Apache Kafka 3.9.2, and of kwire.

    A test that stops one starts it again.  Leaders stay where they are until somebody elects.
    """
    if request.param == "apache_kafka":
        yield request.getfixturevalue("zookeeper_cluster")
        return
    folder = tmp_path_factory.mktemp("kwire-cluster")
    connect = zookeeper.connect(f"/{folder.name}")
    settings = {
        "auto.leader.rebalance.enable": "false",
        "default.replication.factor": "1",
        "zookeeper.session.timeout.ms": "120000",  # who stands still for a moment stays a member
    }
    with ClusterProcess(folder, connect, settings=settings, racks="abc") as cluster:
        yield cluster.brokers


def await_known(cluster: Cluster, name: str) -> None:
    """Brokers hear of a topic a little after it is made: the one that is asked first has, too."""
    host, port = cluster.bootstrap[0]
    with Cluster(f"{host}:{port}", timeout_s=240) as first:
        first.retrying(lambda: first.topic(name), unknown_topic_grace_s=60)
