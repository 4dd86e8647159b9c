"""`kwire.testing.SharedClusterProcess`: brokers of one machine, lost and found again."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from kwire.testing import SharedClusterProcess

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


def test_brokers_come_and_go(tmp_path: Path) -> None:
    settings = {"default.replication.factor": "3"}
    with SharedClusterProcess(tmp_path, 3, settings) as cluster:
        assert cluster.running == [1, 2, 3]
        cluster.brokers[2].kill()
        assert cluster.running == [1, 3]
        assert cluster.wait_until_members() in (1, 3)
        cluster.brokers[2].start()
        assert cluster.brokers[2].ended is None
        cluster.wait_until_members([1, 2, 3])
        cluster.brokers[3].pause()
        cluster.brokers[3].resume()
        assert cluster.brokers[1].stop() == 0
        assert cluster.wait_until_members() in (2, 3)
        for _ in range(3):
            cluster.brokers[1].spawn()
            assert cluster.brokers[1].stop() in (0, -signal.SIGTERM), "it has just been started"
        assert cluster.wait_until_members() in (2, 3)
        assert cluster.brokers[1].bootstrap in cluster.bootstrap
    assert cluster.running == []


def test_a_broker_whose_start_fails(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2) as cluster:
        broker = cluster.brokers[2]
        broker.kill()
        moved = broker.data_dir.rename(tmp_path / "moved")
        broker.data_dir.write_text("no directory")
        broker.spawn()
        deadline = time.monotonic() + PATIENCE_S
        while broker.ended is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert broker.stop() == 1
        broker.data_dir.unlink()
        moved.rename(broker.data_dir)
        broker.start()
        assert broker.running
        cluster.wait_until_members([1, 2])


def test_the_process_that_holds_the_metadata_is_lost(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 2) as cluster:
        cluster.pause_holder()
        cluster.resume_holder()
        cluster.lose_holder()
        assert cluster.running == []
        cluster.start()
        assert cluster.wait_until_members() in (1, 2)
