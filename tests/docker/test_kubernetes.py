"""The broker of docker/kubernetes: its probes, and a rolling restart under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import yaml

from kwire.client.cluster import Cluster
from kwire.client.topics import create_topic
from kwire.testing import free_port
from tests.inside import PATIENCE_S

MANIFEST = Path(__file__).resolve().parents[2] / "docker" / "kubernetes" / "broker.yaml"
TOPIC = "t"
RECORDS_PER_RESTART = 1_000
RESTARTS = 3


def stateful_set() -> dict[str, Any]:
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    (found,) = [each for each in documents if each["kind"] == "StatefulSet"]
    assert isinstance(found, dict)
    return found


def container() -> dict[str, Any]:
    (found,) = stateful_set()["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def environment(port: int, metrics_port: int, data: Path) -> dict[str, str]:
    """The variables of the manifest, as they are for a pod on this machine."""
    given = {each["name"]: each["value"] for each in container()["env"] if "value" in each}
    given["KAFKA_LISTENERS"] = given["KAFKA_LISTENERS"].replace("//:9092", f"//127.0.0.1:{port}")
    assert given["KAFKA_ADVERTISED_LISTENERS"].endswith(".svc:9092")
    return os.environ | given | {
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_METRICS_PORT": str(metrics_port),
        "KAFKA_METRICS_HOST": "127.0.0.1",
        "KAFKA_LOG_DIRS": str(data),
    }  # fmt: skip


@contextmanager
def pod(environ: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command of the image, until SIGTERM, which Kubernetes sends; it must end well in time."""
    grace_s = stateful_set()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
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


def wait_until_ready(port: int, log: Path) -> None:
    """Ask the readiness probe of the manifest until it succeeds."""
    path = container()["readinessProbe"]["httpGet"]["path"]
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
    """A producer that writes numbers all the time, at most a hundred of them on their way."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        timeout_ms = int(PATIENCE_S * 1000)
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "message.timeout.ms": timeout_ms}
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


def read_numbers(bootstrap: str) -> list[int]:
    """The numbers in the records of the topic."""
    command = [sys.executable, "-m", "kwire.cli", "consume", TOPIC, "-o", "earliest", "-e"]
    done = subprocess.run([*command, "-b", bootstrap], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_manifest_keeps_the_data_where_the_image_has_its_volume() -> None:
    dockerfile = (MANIFEST.parents[1] / "Dockerfile").read_text()
    mounts = {each["mountPath"] for each in container()["volumeMounts"] if each["name"] == "data"}
    assert mounts == {"/var/lib/kafka/data"}
    assert 'VOLUME ["/var/lib/kafka/data"' in dockerfile
