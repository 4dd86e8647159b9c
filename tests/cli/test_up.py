"""`kwire cluster up`: a cluster from one command, and nothing left of it afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.conformance import java
from kwire.testing import ZooKeeperProcess
from kwire.testing.zookeeper import ZooKeeperMissing, find_jars
from tests.cli.upped import PATIENCE_S, Running, await_that, processes_with
from tests.storage.data_folder import folders

Up = Callable[..., Running]
Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow


@pytest.fixture
def zookeeper_jars() -> None:
    """Where there is no Java, or are no jars, there is nothing to be tested."""
    missing = java.why_missing()
    try:
        find_jars()
    except ZooKeeperMissing as error:
        missing = str(error)
    if missing:
        pytest.skip(f"NOT TESTED: {missing}")


@pytest.mark.java
@pytest.mark.usefixtures("zookeeper_jars")
def test_cluster_up_continues_with_the_data_of_the_last_run(
    up: Up, kwire: Kwire, tmp_path: Path
) -> None:
    first = up("--racks", "a,b")
    assert "ZooKeeper runs at 127.0.0.1:" in first.told
    assert "broker 3 runs at" in first.told
    status = kwire("cluster", "status", "-b", first.bootstrap).stdout
    assert "3 brokers" in status
    assert "all is well" in status
    with Cluster(first.bootstrap, timeout_s=240) as cluster:
        producer = Producer(cluster)
        producer.send("t", b"v", partition=0)
        producer.flush()
        assert {node.rack for node in cluster.nodes.values()} == {"a", "b"}

    assert first.end(signal.SIGINT) == 0
    assert first.told.endswith("stopping ...\nstopped\n")
    assert processes_with(str(tmp_path)) == []
    clean = [(tmp_path / f"cluster/broker-{n}/data/.kafka_cleanshutdown") for n in (1, 2, 3)]
    assert [each.exists() for each in clean] == [True, True, True]

    again = up("--racks", "a,b")
    place = TopicPartition("t", 0)
    with Cluster(again.bootstrap, timeout_s=240) as cluster:
        assert end_offsets(cluster, [place]) == {place: 1}
    assert again.end(signal.SIGTERM) == 0


@pytest.mark.java
@pytest.mark.usefixtures("zookeeper_jars")
def test_cluster_up_leaves_no_process_behind(up: Up, tmp_path: Path) -> None:
    running = up("--brokers", "2")
    assert len(processes_with(str(tmp_path))) == 3
    assert running.end(signal.SIGKILL) == -signal.SIGKILL
    await_that(lambda: processes_with(str(tmp_path)) == [])


def test_cluster_up_reports_a_dead_broker_and_keeps_the_others(
    up: Up, zookeeper: ZooKeeperProcess, kwire: Kwire, tmp_path: Path
) -> None:
    running = up("--brokers", "2", "--zookeeper", zookeeper.connect("/up"))
    assert "ZooKeeper runs at" not in running.told
    first, second = running.brokers
    os.kill(first, signal.SIGKILL)
    running.await_words("broker 1 has ended by SIGKILL: see ")
    assert running.process.poll() is None
    os.kill(second, signal.SIGKILL)
    assert running.process.wait(PATIENCE_S) == 1
    assert running.told.endswith("kwire: no broker is left\n")


def test_cluster_up_refuses_a_folder_in_use(
    up: Up, zookeeper: ZooKeeperProcess, kwire: Kwire, tmp_path: Path
) -> None:
    running = up("--brokers", "1", "--zookeeper", zookeeper.connect("/up-one"))
    data = tmp_path / "cluster"
    refused = kwire("cluster", "up", "--data", str(data), status=1)
    holder = f"process {running.process.pid} holds the lock on {data / '.lock'}"
    assert refused.stderr.startswith(f"kwire: {data} is in use: {holder}")
    for words in (["--brokers", "3", "--data", str(data)], ["--data", f"{data}/broker-1/data"]):
        refused = kwire("serve", "--port", "0", *words, status=1)
        assert f" with kwire cluster up --data {data}" in refused.stderr


def test_cluster_up_refuses_the_folder_of_another_command(kwire: Kwire, tmp_path: Path) -> None:
    folders.cluster(tmp_path / "data", 2)
    refused = kwire("cluster", "up", "--data", str(tmp_path / "data"), status=1)
    assert f"kwire serve --brokers 2 --data {tmp_path / 'data'}" in refused.stderr


def test_cluster_up_reports_why_a_broker_does_not_start(
    kwire: Kwire, zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    words = ["--zookeeper", zookeeper.connect("/up-bad"), "--set", "num.partitions=many"]
    done = kwire("cluster", "up", "--data", str(tmp_path), *words, "--port", "0", status=1)
    assert "num.partitions" in done.stderr
    assert processes_with(str(tmp_path)) == []


def test_cluster_up_without_java_says_what_is_missing(
    kwire: Kwire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    words = ("cluster", "up", "--data", str(tmp_path / "data"), "--zookeeper-jars", str(jars))
    assert kwire(*words, status=1).stderr == f"kwire: there is no zookeeper-*.jar in {jars}\n"
    (jars / "zookeeper-3.9.2.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "ZooKeeper needs Java" in kwire(*words, status=1).stderr
