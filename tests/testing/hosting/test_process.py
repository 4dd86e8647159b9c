"""`kwire.testing`: the broker that other projects' tests get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.offsets import end_offsets
from kwire.client.producer import Producer
from kwire.testing import BrokerProcess, BrokerStartError

pytestmark = [
    pytest.mark.slow,  # each starts a process
    pytest.mark.usefixtures("brokers_are_started"),
]


def write(broker: BrokerProcess, value: bytes) -> None:
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        producer = Producer(cluster)
        producer.send("t", value)
        producer.flush()


def count(broker: BrokerProcess) -> int:
    at = TopicPartition("t", 0)
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        return end_offsets(cluster, [at])[at]


def test_broker_process_serves_during_a_with_block(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        write(broker, b"v")
        pid = broker.pid
    assert not broker.running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "is ready" in broker.log


def test_restart_keeps_address_and_data(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    before = broker.bootstrap
    write(broker, b"1")
    broker.restart()
    write(broker, b"2")
    broker.kill()
    broker.start()
    assert (broker.bootstrap, count(broker)) == (before, 2)
    assert broker.stop() == 0
    assert broker.stop() == 0


def test_broker_process_uses_the_given_settings(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, {"num.partitions": "4"}) as broker,
        Cluster(broker.bootstrap, timeout_s=60) as cluster,
    ):
        assert len(cluster.topic("t", create=True).partitions) == 4


def test_failed_start_reports_the_log(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, {"num.partitions": "many"})
    with pytest.raises(BrokerStartError, match=r"num\.partitions"):
        broker.start()
    assert not broker.running


def test_directory_may_be_a_string(tmp_path: Path) -> None:
    with BrokerProcess(str(tmp_path / "there")) as broker:
        assert broker.data_dir == tmp_path / "there" / "data"
        assert broker.data_dir.is_dir()


PARENT = """
import os, sys, time
from kwire.testing import BrokerProcess

broker = BrokerProcess(sys.argv[1])
broker.start()
worker = os.fork()
if worker == 0:
    time.sleep(600)
    os._exit(0)
print(worker, flush=True)
time.sleep(600)
"""


def test_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """Although a process that was forked from the parent lives on."""
    with subprocess.Popen([sys.executable, "-c", PARENT, tmp_path], stdout=subprocess.PIPE) as one:
        assert one.stdout is not None
        worker = int(one.stdout.readline())
        one.send_signal(signal.SIGKILL)
        one.wait()
    deadline = time.monotonic() + 60
    try:
        while not (tmp_path / "data" / ".kafka_cleanshutdown").exists():
            assert time.monotonic() < deadline, (tmp_path / "broker.log").read_text()
            time.sleep(0.05)
    finally:
        os.kill(worker, signal.SIGKILL)
