"""Whatever ends the process of the tests, no broker, port or folder is left of its broker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.testing import BrokerStartError, Kafka
from kwire.testing.hosting.ending import process_exists
from kwire.testing.hosting.process import answers
from tests.polling import until

pytestmark = pytest.mark.slow

PATIENCE_S = 120

TESTS = """
import os, signal, sys, time
from kwire.testing import Kafka

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where these tests run under nohup
signal.signal(signal.SIGINT, signal.default_int_handler)  # or in the background
kafka = Kafka()
kafka.start()
kafka.create_topic("t").seed(["v"])
forking = os.popen(f"ps -o ppid= -p {kafka.pid}").read().strip()
print(forking, kafka.pid, kafka.port, kafka.control_port, flush=True)
if sys.argv[1:] == ["exit"]:
    os._exit(3)
time.sleep(600)
"""


class Left(NamedTuple):
    """What a process of tests has started, with its broker's."""

    tests: subprocess.Popen[bytes]
    forking: int
    broker: int
    port: int
    control_port: int


Start = Callable[..., Left]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts such a process, which makes its folders below `tmp_path`."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> Left:
        command = [sys.executable, "-c", TESTS, *arguments]
        environ = {**os.environ, "TMPDIR": str(tmp_path)}
        tests = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
        started.append(tests)
        assert tests.stdout is not None
        forking, broker, port, control_port = map(int, tests.stdout.readline().split())
        return Left(tests, forking, broker, port, control_port)

    yield run
    for tests in started:
        tests.kill()
        tests.wait()
        assert tests.stdout is not None
        tests.stdout.close()


def parent_of(pid: int) -> int:
    listed = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=True)
    return int(listed.stdout)


def nothing_is_left(left: Left, tmp_path: Path) -> None:
    until(lambda: not process_exists(left.forking) and not process_exists(left.broker))
    assert list(tmp_path.iterdir()) == []
    for port in (left.port, left.control_port):
        with socket.create_server(("127.0.0.1", port)):
            """It can be had."""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGABRT"])
def test_broker_and_folder_are_removed_when_a_signal_ends_the_tests(
    start: Start, tmp_path: Path, name: str
) -> None:
    """A CI's timeout sends SIGTERM, then SIGKILL; a closed terminal SIGHUP."""
    left = start()
    left.tests.send_signal(signal.Signals[name])
    left.tests.wait()
    nothing_is_left(left, tmp_path)


def test_broker_and_folder_are_removed_after_os_exit(start: Start, tmp_path: Path) -> None:
    left = start("exit")
    assert left.tests.wait() == 3
    nothing_is_left(left, tmp_path)


def test_broker_serves_while_its_tests_are_paused_and_ends_when_they_are_killed(
    start: Start, tmp_path: Path
) -> None:
    left = start()
    left.tests.send_signal(signal.SIGSTOP)
    assert answers("127.0.0.1", left.port, PATIENCE_S), "who looks around still needs it"
    left.tests.kill()
    left.tests.wait()
    nothing_is_left(left, tmp_path)


def test_paused_broker_is_removed_when_its_tests_are_killed(start: Start, tmp_path: Path) -> None:
    left = start()
    os.kill(left.broker, signal.SIGSTOP)
    left.tests.kill()
    left.tests.wait()
    nothing_is_left(left, tmp_path)


def test_folder_of_killed_processes_is_removed_by_the_next_start(
    start: Start, tmp_path: Path
) -> None:
    """The folder is left, for nobody was there to remove it, and goes with the next one's start."""
    left = start()
    for pid in (left.forking, left.broker, left.tests.pid):
        os.kill(pid, signal.SIGKILL)
    left.tests.wait()
    until(lambda: not process_exists(left.forking) and not process_exists(left.broker))
    after = start("exit")
    after.tests.wait()
    nothing_is_left(after, tmp_path)


def test_broker_ends_when_its_forking_process_is_killed() -> None:
    """Its broker ends with it, and the tests hear of it at their next order."""
    with Kafka() as kafka:
        broker, folder = kafka.pid, kafka.data_dir.parent
        os.kill(parent_of(broker), signal.SIGKILL)
        until(lambda: not process_exists(broker))
        with pytest.raises(BrokerStartError, match="has ended"):
            kafka.reset()
        assert not folder.exists()
        kafka.stop()
        kafka.start()
        kafka.create_topic("t").seed(["v"])


CLUSTER = """
import time
from kwire.testing import KafkaCluster

cluster = KafkaCluster(brokers=2)
cluster.start()
process = cluster._process
print(process._pid, *process._children(), flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
@pytest.mark.parametrize(("name", "is_held"), [("SIGKILL", True), ("SIGTERM", False)])
def test_cluster_leaves_no_process_and_no_folder_when_its_tests_are_killed(
    tmp_path: Path, name: str, is_held: bool
) -> None:
    """Also where a broker stands still (SIGSTOP) and sees no end of its standard input."""
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as tests:
        assert tests.stdout is not None
        started = [int(word) for word in tests.stdout.readline().split()]
        assert len(started) == 4, "the cluster's process, who holds the metadata, two brokers"
        if is_held:
            os.kill(started[-1], signal.SIGSTOP)
        tests.send_signal(signal.Signals[name])
        tests.wait()
    until(lambda: not any(map(process_exists, started)), f"some of {started} live on")
    until(lambda: list(tmp_path.iterdir()) == [], "the folder is left")
