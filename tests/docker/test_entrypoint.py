"""Tests the image's commands without a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster
from kwire.client.security import ClientSecurity
from kwire.testing import free_port

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[[dict[str, str]], subprocess.Popen[str]]


def environ_with(settings: dict[str, str]) -> dict[str, str]:
    """This process' variables without Kafka's, with `settings`, and with `kwire` on PATH."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', '')}"
    return {**own, "PATH": path, **settings}


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that runs the image's command with variables until the broker is ready."""
    running: list[subprocess.Popen[str]] = []

    def run(settings: dict[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [ROOT / "docker" / "run"],
            env=environ_with(settings), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def log_until_ready(process: subprocess.Popen[str]) -> str:
    """The log up to the line for which Testcontainers' Kafka module waits."""
    assert process.stderr is not None
    log = ""
    for line in process.stderr:
        log += line
        if "Transitioning from RECOVERY to RUNNING" in line:
            return log
    raise AssertionError(log)


def test_entrypoint_starts_a_broker_from_variables(start: Start, tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_NODE_ID": "3",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    process = start(settings)
    assert "unknown setting" not in log_until_ready(process)
    with Cluster(f"127.0.0.1:{port}", timeout_s=60) as cluster:
        assert len(cluster.topic("created", create=True).partitions) == 3
        assert cluster.cluster_id == "4L6g3nShT-eMCtK--X86sw"
        assert list(cluster.nodes) == [3]
    healthy = subprocess.run(
        [sys.executable, "-m", "kwire.cli", "ping", "--container"],
        env=environ_with(settings), capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert healthy.returncode == 0, healthy.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def test_users_and_topics_of_variables_exist_when_clients_connect(
    start: Start, tmp_path: Path
) -> None:
    port = free_port()
    address = f"CLIENT://127.0.0.1:{port}"
    (tmp_path / "state.yaml").write_text("topics:\n  of-file:\n    partitions: 2\n")
    process = start(
        {
            "KAFKA_CFG_LISTENERS": address,
            "KAFKA_CFG_ADVERTISED_LISTENERS": address,
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "CLIENT",
            "KAFKA_CFG_LOG_DIRS": str(tmp_path / "data"),
            "KAFKA_CLIENT_USERS": "alice",
            "KAFKA_CLIENT_PASSWORDS": "geheim",
            "KAFKA_CREATE_TOPICS": "of-variable:3:1:compact",
            "KWIRE_APPLY": str(tmp_path / "state.yaml"),
        }
    )
    log_until_ready(process)
    for mechanism, module in (("PLAIN", "plain.Plain"), ("SCRAM-SHA-512", "scram.Scram")):
        security = ClientSecurity(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule "
                'required username="alice" password="geheim";',
            }
        )
        with Cluster(f"127.0.0.1:{port}", timeout_s=60, security=security) as cluster:
            assert len(cluster.topic("of-variable").partitions) == 3
            assert len(cluster.topic("of-file").partitions) == 2


def test_health_check_fails_without_a_broker() -> None:
    settings = {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    done = subprocess.run(
        [sys.executable, "-m", "kwire.cli", "ping", "--container"],
        env=environ_with(settings), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, "connection refused" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("level", "is_logged"), [("", True), ("INFO", True), ("WARN", False), ("ERROR", False)]
)
def test_log_level_is_set_by_its_log4j_name(tmp_path: Path, level: str, is_logged: bool) -> None:
    """The levels have Log4j's names; an invalid setting ends the start at once here."""
    settings = {
        "KAFKA_LOG4J_ROOT_LOGLEVEL": level,
        "KAFKA_LISTENERS": "PLAINTEXT://no-such-host.invalid:9092",
        "KAFKA_LOG_DIRS": str(tmp_path),
    }
    done = subprocess.run(
        [ROOT / "docker" / "run"],
        env=environ_with(settings), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert ("data in" in done.stderr) == is_logged
    assert "cannot resolve a host name" in done.stderr
