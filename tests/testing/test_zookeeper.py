"""`kwire.testing.ZooKeeperProcess`: the ZooKeeper that tests and clusters of one machine get."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kwire.conformance import java
from kwire.testing import ZooKeeperMissing, ZooKeeperProcess, ZooKeeperStartError
from kwire.testing.zookeeper import JARS_VARIABLE, find_jars
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.java]


def test_zookeeper_serves_after_stop_kill_and_pause(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path, jars=os.environ.get(JARS_VARIABLE)) as zookeeper:
        until(lambda: zookeeper.ask("ruok") == "imok", "answered")
        address, pid = zookeeper.connect("/chroot"), zookeeper.pid
        assert address == f"127.0.0.1:{zookeeper.port}/chroot"
        zookeeper.pause()
        zookeeper.kill()
        assert zookeeper.ask("ruok") == ""
        zookeeper.start()
        assert zookeeper.pid != pid
        zookeeper.pause()
        zookeeper.resume()
        until(lambda: zookeeper.ask("ruok") == "imok", "answered")
        zookeeper.restart()
        assert zookeeper.connect("/chroot") == address
    assert not zookeeper.running
    assert zookeeper.stop() == 0


def test_zookeeper_that_does_not_start_reports_its_output(tmp_path: Path) -> None:
    zookeeper = ZooKeeperProcess(tmp_path, {"tickTime": "soon"}, is_logged=True)
    with pytest.raises(ZooKeeperStartError, match=r"(?s)ended with status 2.*soon"):
        zookeeper.start()
    assert not zookeeper.running


def test_zookeeper_ends_when_its_parent_ends(tmp_path: Path) -> None:
    script = (
        "import os, signal; from kwire.testing import ZooKeeperProcess\n"
        f"z = ZooKeeperProcess({str(tmp_path)!r}); z.start(); z.pause(); print(z.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    pid, deadline = int(done.stdout), time.monotonic() + 120
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() not in ("", "Z")


def test_folder_without_zookeeper_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooKeeperMissing, match=str(tmp_path)):
        find_jars(tmp_path)


def test_missing_pyspark_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ZooKeeperMissing, match=JARS_VARIABLE):
        find_jars()


def test_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.why_missing() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ZooKeeperMissing, match="needs Java"):
        ZooKeeperProcess(tmp_path).start()
