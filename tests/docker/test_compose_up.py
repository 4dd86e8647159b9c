"""Tests that the services of each compose file serve clients, in namespaces for containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.conformance.chaos.cluster.network import own_namespaces
from tests.docker.test_compose import DOCKER, FILES, brokers

ROOT = DOCKER.parent
TIMEOUT_S = 600

pytestmark = pytest.mark.slow
OF_CLUSTERS = [pytest.mark.java, pytest.mark.long]
MARKS = {"cluster.yaml": OF_CLUSTERS, "cluster-kraft.yaml": OF_CLUSTERS}
"""Files with a ZooKeeper or a controller need Java, and take too long for every change."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, [])) for name in FILES])
def test_services_of_the_compose_file_answer_clients(name: str, tmp_path: Path) -> None:
    """tests/docker/compose_up.py stands for Docker."""
    probe = subprocess.run([*own_namespaces(), "ip", "rule"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"NOT TESTED: no network namespaces here: {probe.stderr.strip()}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.docker.compose_up", str(DOCKER / name), str(tmp_path)],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("is ready. Transitioning") == len(brokers(name)), done.stdout
    assert done.stdout.endswith("all services answered\n"), done.stdout
