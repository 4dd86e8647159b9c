"""Data directories that each broker wrote, and its answers about them while it ran."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import TOOLS_VERSION, VERSION, ApacheKafka
from kwire.conformance.pytest_apache import libs_or_skip
from kwire.testing import BrokerProcess
from tests.conftest import finish
from tests.log.interchange.filling import SETTINGS, Filling, wait_until_cleaned
from tests.log.interchange.observed import Seen, observe, observe_settled

ROUNDS_VARIABLE = "KWIRE_INTERCHANGE_ROUNDS"


@pytest.fixture(scope="session")
def rounds() -> int:
    """How much is written: 2 in `make test`, more by the environment variable."""
    return int(os.environ.get(ROUNDS_VARIABLE, "2"))


VERSIONS = (VERSION, pytest.param(TOOLS_VERSION, marks=pytest.mark.long))
"""The reference, and the release before it."""


@dataclass(frozen=True, slots=True)
class Written:
    """Directories (the whole node's, with `data` below) and the broker's answers about the data."""

    version: str
    stopped: Path
    killed: Path
    seen: Seen


@pytest.fixture(scope="session", params=VERSIONS)
def by_apache(
    apache_kafka_libs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    rounds: int,
    request: pytest.FixtureRequest,
) -> Written:
    """Written by Apache Kafka in KRaft mode, over two leader epochs.

    `killed` is copied while the process is held by SIGSTOP: that is what kill -9 leaves behind.
    """
    root = tmp_path_factory.mktemp("interchange")
    libs_or_skip(request.param)
    node = ApacheKafka(root / "apache", settings=SETTINGS, version=request.param)
    with node:
        filling = Filling(node.bootstrap, rounds)
        filling.create_topics()
        filling.write(0)
    with node:
        filling.write(1)
        wait_until_cleaned(node.directory / "data")
        seen = observe(node.bootstrap)
        os.kill(node.pid, signal.SIGSTOP)
        killed = Path(shutil.copytree(node.directory, root / "killed"))
        os.kill(node.pid, signal.SIGCONT)
    return Written(node.version, node.directory, killed, seen)


@dataclass(frozen=True, slots=True)
class Ours:
    """A data directory after a clean stop of kwire, and kwire's answers about it."""

    data_dir: Path
    seen: Seen


@pytest.fixture(scope="session")
def by_kwire(tmp_path_factory: pytest.TempPathFactory, rounds: int) -> Ours:
    root = tmp_path_factory.mktemp("by-kwire")
    broker = BrokerProcess(root, {"node.id": "1", **SETTINGS})
    broker.start()
    try:
        filling = Filling(broker.bootstrap, rounds)
        filling.create_topics()
        filling.write(0)
        broker.restart()
        filling.write(1)
        wait_until_cleaned(broker.data_dir)
        seen = observe_settled(broker.bootstrap)
    finally:
        finish(broker)
    return Ours(broker.data_dir, seen)
