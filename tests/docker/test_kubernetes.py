"""The brokers of docker/kubernetes: their probes, and rolling restarts under load."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import yaml

from kwire.cli.cluster.kafka_jars import find_kafka
from kwire.client.cluster import Cluster
from kwire.client.topics import create_topic
from kwire.testing import ZooKeeperProcess, free_port
from kwire.testing.controllers import ControllersProcess
from tests.inside import PATIENCE_S

FOLDER = Path(__file__).resolve().parents[2] / "docker" / "kubernetes"
ONE = FOLDER / "broker.yaml"
TOPIC = "t"
RECORDS_PER_RESTART = 1_000
RESTARTS = 3
OF_CONTROLLERS = {"default.replication.factor": "3", "min.insync.replicas": "2"}
ORDINAL = "metadata.labels['apps.kubernetes.io/pod-index']"
"""The field of a pod in which Kubernetes writes its number in the StatefulSet."""


def stateful_set(manifest: Path = ONE) -> dict[str, Any]:
    """The StatefulSet of the brokers."""
    documents = list(yaml.safe_load_all(manifest.read_text()))
    (found,) = [
        each
        for each in documents
        if each["kind"] == "StatefulSet" and each["metadata"]["name"] == "kwire"
    ]
    assert isinstance(found, dict)
    return found


def container(manifest: Path = ONE) -> dict[str, Any]:
    (found,) = stateful_set(manifest)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(manifest: Path, ordinal: int) -> dict[str, str]:
    """The variables of the pod with that ordinal in the namespace `default`."""
    fields = {
        "metadata.name": f"kwire-{ordinal}",
        "metadata.namespace": "default",
        ORDINAL: str(ordinal),
    }
    given: dict[str, str] = {}
    for each in container(manifest)["env"]:
        if "value" not in each:
            given[each["name"]] = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            continue
        given[each["name"]] = re.sub(r"\$\((\w+)\)", lambda m: given[m[1]], each["value"])
    return given


def environment(
    port: int, metrics_port: int, data: Path, *, manifest: Path = ONE, ordinal: int = 0
) -> dict[str, str]:
    """The variables of the manifest, as they are for a pod on this machine."""
    given = variables(manifest, ordinal)
    advertised = f"PLAINTEXT://kwire-{ordinal}.kwire-pods.default.svc:9092"
    assert given["KAFKA_ADVERTISED_LISTENERS"] == advertised
    given["KAFKA_LISTENERS"] = given["KAFKA_LISTENERS"].replace("//:9092", f"//127.0.0.1:{port}")
    return os.environ | given | {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_METRICS_PORT": str(metrics_port),
        "KAFKA_METRICS_HOST": "127.0.0.1",
        "KAFKA_LOG_DIRS": str(data),
    }  # fmt: skip


@contextmanager
def pod(
    environ: dict[str, str], log: Path, manifest: Path = ONE
) -> Iterator[subprocess.Popen[bytes]]:
    """The command of the image, until SIGTERM, which Kubernetes sends; it must end well in time."""
    grace_s = stateful_set(manifest)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "serve", "--container"],
            env=environ, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(grace_s) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def wait_until_ready(port: int, log: Path, manifest: Path = ONE) -> None:
    """Ask the readiness probe of the manifest until it succeeds."""
    path = container(manifest)["readinessProbe"]["httpGet"]["path"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                assert reply.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


class Load:
    """A producer that writes numbers all the time, at most a hundred of them on their way.

    An idempotent one writes each number once, even if it has to repeat a request.
    """

    def __init__(self, bootstrap: str, *, is_idempotent: bool = False) -> None:
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        timeout_ms = int(PATIENCE_S * 1000)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": is_idempotent,
                "linger.ms": 1,
                "message.timeout.ms": timeout_ms,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._is_over.is_set():
            if len(self._producer) < 100:
                self._producer.produce(TOPIC, b"%d" % number, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.001)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        self.acknowledged.add(int(message.value() or b""))

    def wait_for_more(self, log: Path) -> None:
        """Wait until another RECORDS_PER_RESTART are acknowledged."""
        wanted = len(self.acknowledged) + RECORDS_PER_RESTART
        deadline = time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)


@pytest.mark.slow
def test_rolling_restarts_under_load_lose_no_acknowledged_record(tmp_path: Path) -> None:
    port, metrics_port = free_port(), free_port()
    environ, log = environment(port, metrics_port, tmp_path / "data"), tmp_path / "log"
    bootstrap = f"127.0.0.1:{port}"
    with pod(environ, log), Cluster(bootstrap) as cluster:
        wait_until_ready(metrics_port, log)
        create_topic(cluster, TOPIC, partitions=1)
    with ExitStack() as last:
        with Load(bootstrap) as load:
            for _ in range(RESTARTS):
                with pod(environ, log):
                    load.wait_for_more(log)
            last.enter_context(pod(environ, log))
            load.wait_for_more(log)
        assert load.failed == []
        assert load.acknowledged == set(read_numbers(bootstrap))


class Pods:
    """The three pods of the chart, as processes on this machine that keep their addresses.

    `addresses` are variables with addresses of ZooKeeper or of controllers, which the manifest has
    under the names of services.
    """

    def __init__(self, manifest: Path, addresses: Mapping[str, str], folder: Path) -> None:
        self._manifest = manifest
        self._addresses = addresses
        self._folder = folder
        self._ports = [free_port() for _ in range(3)]
        self._metrics_ports = [free_port() for _ in range(3)]
        self._running: dict[int, ExitStack] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def log(self, ordinal: int) -> Path:
        return self._folder / f"kwire-{ordinal}.log"

    def start(self, ordinal: int) -> None:
        data, log = self._folder / f"data-kwire-{ordinal}", self.log(ordinal)
        ports = self._ports[ordinal], self._metrics_ports[ordinal]
        environ = environment(*ports, data, manifest=self._manifest, ordinal=ordinal)
        assert self._addresses.keys() <= environ.keys()
        # Else the image takes a ZooKeeper on this machine for one that is not meant.
        environ |= {**self._addresses, "KWIRE_ZOOKEEPER": "join"}
        stack = self._running[ordinal] = ExitStack()
        stack.enter_context(pod(environ, log, self._manifest))

    def wait_until_ready(self, ordinal: int) -> None:
        wait_until_ready(self._metrics_ports[ordinal], self.log(ordinal), self._manifest)

    def stop(self, ordinal: int) -> None:
        self._running.pop(ordinal).close()

    def stop_all(self) -> None:
        """Stop the last one first, as Kubernetes does."""
        for ordinal in sorted(self._running, reverse=True):
            self.stop(ordinal)


@pytest.fixture(params=["zookeeper", "controllers"])
def pods(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Iterator[Pods]:
    with ExitStack() as beside:
        if request.param == "zookeeper":
            zookeeper: ZooKeeperProcess = request.getfixturevalue("zookeeper")
            addresses = {"KAFKA_ZOOKEEPER_CONNECT": zookeeper.connect(f"/{unique}")}
            manifest = FOLDER / "cluster.yaml"
        else:
            program = find_kafka(str(request.getfixturevalue("apache_kafka_libs")))
            quorum = beside.enter_context(
                ControllersProcess(tmp_path / "quorum", program, settings=OF_CONTROLLERS)
            )
            addresses = {"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": quorum.addresses}
            manifest = FOLDER / "cluster-kraft.yaml"
        started = Pods(manifest, addresses, tmp_path)
        for ordinal in range(3):
            started.start(ordinal)
        yield started
        started.stop_all()


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.long
def test_rolling_restart_of_three_under_load_keeps_each_acknowledged_record_once(
    pods: Pods,
) -> None:
    """It does not wait for minReadySeconds between two restarts, which is harder than the chart."""
    for ordinal in range(3):
        pods.wait_until_ready(ordinal)
    with Cluster(pods.bootstrap) as cluster:
        create_topic(cluster, TOPIC, partitions=3)
    with Load(pods.bootstrap, is_idempotent=True) as load:
        load.wait_for_more(pods.log(0))
        for ordinal in (2, 1, 0):
            pods.stop(ordinal)
            pods.start(ordinal)
            pods.wait_until_ready(ordinal)
            load.wait_for_more(pods.log(ordinal))
    assert load.failed == []
    assert len(load.acknowledged) >= 4 * RECORDS_PER_RESTART
    assert sorted(read_numbers(pods.bootstrap)) == sorted(load.acknowledged)


def read_numbers(bootstrap: str) -> list[int]:
    """The numbers in the records of the topic."""
    command = [sys.executable, "-m", "kwire.cli", "consume", TOPIC, "-o", "earliest", "-e"]
    done = subprocess.run([*command, "-b", bootstrap], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize("name", ["broker.yaml", "cluster.yaml", "cluster-kraft.yaml"])
def test_manifest_keeps_the_data_where_the_image_has_its_volume(name: str) -> None:
    dockerfile = (FOLDER.parent / "Dockerfile").read_text()
    volume_mounts = container(FOLDER / name)["volumeMounts"]
    mounts = {each["mountPath"] for each in volume_mounts if each["name"] == "data"}
    assert mounts == {"/var/lib/kafka/data"}
    assert 'VOLUME ["/var/lib/kafka/data"' in dockerfile
