"""Tests that the first user starts the session's Apache Kafka node, and the last one stops it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import subprocess, sys
from pathlib import Path
import pytest
from kwire.conformance import pytest_apache, telemetry_receiver

pytest_plugins = ["kwire.conformance.pytest_apache"]


class Node:
    bootstrap = "here"

    def __init__(self, directory, settings, plugins, jvm):
        self.directory = directory

    def start(self):
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.pid = self.process.pid
        with open(ROOT / "started", "a") as file:
            print(self.pid, file=file)

    def stop(self):
        self.process.terminate()
        (ROOT / "status").write_text(str(self.process.wait()))


ROOT = Path(__file__).parent
pytest_apache.ApacheKafka = Node
telemetry_receiver.jar = lambda: ROOT / "plugin.jar"


@pytest.fixture(scope="session")
def apache_kafka_libs():
    return ROOT
"""

USERS = """
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.java
def test_it_is_there(number, request):
    assert request.getfixturevalue("apache_kafka").bootstrap == "here"
"""

AFTER = """
import time
from pathlib import Path

def test_it_has_ended():
    started = Path(__file__).with_name("started")
    deadline = time.monotonic() + 60
    while not (started.exists() and started.read_text()) or is_running(int(started.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)

def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_node_ends_after_the_last_test_that_may_use_it(tmp_path: Path, workers: str) -> None:
    """It ends even if the session has other tests left."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_1_users.py").write_text(USERS)
    (tmp_path / "test_2_after.py").write_text(AFTER)
    options = ["-n", workers, "--dist", "loadfile", "-q", "-p", "no:cacheprovider"]
    options += ["--basetemp", str(tmp_path / "base")]
    options += ["--strict-markers", "-o", "markers=java:\nslow:", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert (tmp_path / "started").read_text().count("\n") == 1
    assert (tmp_path / "status").read_text() == "-15"
