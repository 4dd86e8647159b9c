"""pytest fixtures for Apache Kafka, with one node for all workers of a test session.

`tests/conftest.py` names this module in `pytest_plugins`.  If Java is missing, every test that uses
one of these fixtures is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest

from kwire.conformance import java, telemetry_receiver
from kwire.conformance.apache_kafka import (
    SHARED_JVM,
    TOOLS_VERSION,
    VERSION,
    ZOOKEEPER_VERSION,
    ApacheKafka,
    ZooKeeperBroker,
    archive_classes,
    libs,
    lock_exclusively,
    run,
)
from kwire.testing.zookeeper import ZooKeeperMissing, ZooKeeperProcess, find_jars

JavaClass = Callable[..., CompletedProcess[str]]
POLL_S = 0.1
OTHERS_S = 3600.0
"""Time for which the worker that started the node waits for the other workers' tests."""

NEED_JAVA = {"apache_kafka_libs", "apache_kafka_tools", "zookeeper_libs", "zookeeper"}
"""Fixtures that run Java or use something that does."""


class ApacheKafkaNode(NamedTuple):
    """The address and folder of the session's Apache Kafka node."""

    bootstrap: str
    directory: str


OWN = pytest.StashKey[list[tuple[Path, ApacheKafka]]]()
"""The nodes that this worker has started, each with the file that counts its users."""

MAY_USE = pytest.StashKey[int]()
"""The number of tests in the session that may use the node: all tests that need Java."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap",
        metavar="HOST:PORT",
        help="run the tests of stock clients against this broker, e.g. Apache Kafka, not kwire",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that runs Java: `-m "not java"` leaves them out."""
    for item in items:
        if not NEED_JAVA.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests that may use the node; all workers collect the same tests."""
    needing = [item for item in session.items if item.get_closest_marker("java")]
    session.config.stash[MAY_USE] = len(needing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Stop the node after the last test that may use it, on any worker.

    If that worker is not the node's parent, the parent waits for its end (`pytest_sessionfinish`).
    """
    yield
    if not item.get_closest_marker("java"):
        return
    factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]  # no public way outside of a fixture
    now = _change(_state_file(factory), lambda before: before | {"done": before["done"] + 1})
    if now["done"] == item.config.stash[MAY_USE] and "pid" in now:
        with contextlib.suppress(ProcessLookupError):  # its worker has stopped it already
            os.kill(now["pid"], signal.SIGTERM)


@pytest.fixture(scope="session")
def apache_kafka_libs() -> Path:
    """The folder of Apache Kafka's jars, with a class data archive for quick starts."""
    jars = libs_or_skip()
    archive_classes()
    return jars


@pytest.fixture(scope="session")
def apache_kafka_tools() -> Path:
    """The folder of jars with Apache Kafka's command line tools, with a class data archive."""
    jars = libs_or_skip(TOOLS_VERSION)
    archive_classes(TOOLS_VERSION)
    return jars


def libs_or_skip(version: str = VERSION) -> Path:
    """Return the jars of a version of Apache Kafka; skips the test if they cannot be downloaded."""
    missing = java.why_missing()
    if missing:
        pytest.skip(f"NOT TESTED: {missing}")
    try:
        return libs(version)
    except java.JavaMissing as missing_maven:
        pytest.skip(f"NOT TESTED: {missing_maven}")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper of this worker; each test uses a chroot of its own (see `unique`).

    A test that stops, kills or pauses a ZooKeeper must start one of its own.
    """
    missing = java.why_missing()
    if missing:
        pytest.skip(f"NOT TESTED: {missing}")
    directory = tmp_path_factory.mktemp("zookeeper")
    # The data is only needed during the tests, so it need not survive a power cut.
    with ZooKeeperProcess(directory, {"forceSync": "no"}, jars=_zookeeper_jars()) as process:
        yield process


def _zookeeper_jars() -> Path:
    """Return the jars of pyspark, or those of the last version of Apache Kafka with ZooKeeper."""
    try:
        return find_jars()
    except ZooKeeperMissing:
        return libs_or_skip(ZOOKEEPER_VERSION)


@pytest.fixture(scope="session")
def zookeeper_libs() -> Path:
    """The jars of the last version of Apache Kafka with ZooKeeper, with a class data archive."""
    jars = libs_or_skip(ZOOKEEPER_VERSION)
    archive_classes(ZOOKEEPER_VERSION)
    return jars


@pytest.fixture(scope="session")
def zookeeper_broker(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    """A broker of Apache Kafka 3.9.2 on ZooKeeper, alone in its chroot, one for each worker."""
    directory = tmp_path_factory.mktemp("zookeeper-broker")
    connect = zookeeper.connect("/shared-broker")
    with ZooKeeperBroker(directory, connect) as broker:
        yield broker


@pytest.fixture(scope="session")
def zookeeper_cluster(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, ZooKeeperBroker]]:
    """Three brokers of Apache Kafka 3.9.2 in different racks, by id, one cluster for each worker.

    A test that stops a broker must start it again. Leaders only change by an election.
    """
    directory = tmp_path_factory.mktemp("zookeeper-cluster")
    brokers = {
        broker_id: ZooKeeperBroker(
            directory / str(broker_id),
            zookeeper.connect("/cluster"),
            broker_id,
            settings={"broker.rack": rack, "auto.leader.rebalance.enable": "false"},
        )
        for broker_id, rack in ((1, "a"), (2, "b"), (3, "c"))
    }
    try:
        for broker in brokers.values():
            broker.format()
            broker.spawn()
        for broker in brokers.values():
            broker.wait_until_up()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.stop()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The broker on which stock clients are tested: that of `--bootstrap`, or a kwire broker.

    Tests use different names of topics and groups.
    """
    given: str | None = request.config.option.bootstrap
    if given:
        return given
    broker: str = request.getfixturevalue("shared_broker").bootstrap
    return broker


@pytest.fixture(scope="session")
def java_class(apache_kafka_tools: Path) -> JavaClass:
    """Runs a class of Apache Kafka: java_class(name, arguments, stdin=..., timeout_s=...)."""
    return run


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the nodes of this worker once no other worker uses them.

    Only the parent of a process learns that it has ended, so its worker must wait. A fixture cannot
    wait: its teardown is part of the last test and may last no longer than a test.
    """
    for state, node in session.config.stash.get(OWN, []):
        deadline = time.monotonic() + OTHERS_S
        while _change(state, dict)["users"] and time.monotonic() < deadline:
            time.sleep(POLL_S)
        node.stop()


@pytest.fixture(scope="session")
def apache_kafka(
    apache_kafka_libs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[ApacheKafkaNode]:
    """One Apache Kafka node for the whole session; tests use different topic and group names.

    The first worker that uses the node starts it, and stops it when no other worker uses it.
    """
    state = _state_file(tmp_path_factory)
    own = request.config.stash.setdefault(OWN, [])

    def join(before: dict[str, Any]) -> dict[str, Any]:
        """Count another user of the shared node; the first one starts it."""
        if before["users"]:
            return before | {"users": before["users"] + 1}
        node = ApacheKafka(
            state.with_name(f"apache-kafka-{os.getpid()}"),
            settings=telemetry_receiver.SETTINGS,
            plugins=[telemetry_receiver.jar()],
            jvm=SHARED_JVM,
        )
        node.start()
        own.append((state, node))
        return before | {
            "users": 1,
            "pid": node.pid,
            "bootstrap": node.bootstrap,
            "directory": str(node.directory),
        }

    def leave(before: dict[str, Any]) -> dict[str, Any]:
        return before | {"users": before["users"] - 1}

    now = _change(state, join)
    yield ApacheKafkaNode(now["bootstrap"], now["directory"])
    _change(state, leave)


def _state_file(factory: pytest.TempPathFactory) -> Path:
    """Return the file with the state of the node that all workers of a session share."""
    shared = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    return shared / "apache-kafka.json"


def _change(path: Path, step: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Replace the JSON state in `path` by the result of `step`, one worker at a time."""
    with open(path.with_suffix(".lock"), "w") as lock:
        lock_exclusively(lock)
        before = json.loads(path.read_text()) if path.exists() else {"users": 0, "done": 0}
        after = step(before)
        path.write_text(json.dumps(after))
        return after
