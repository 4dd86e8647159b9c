"""pytest plugin with fixtures that start brokers.  pytest loads it wherever kwire is installed.

Fixtures for tests:

    kafka                 the session's broker; each worker of pytest-xdist has its own
    kafka_topic           a new topic with a name that no other test uses
    kafka_reset           the session's broker, emptied for this test
    kafka_faults          faults that the session's broker injects during this test
    kafka_trace           the decoded requests and responses of this test
    kafka_fork            a broker for this test alone, filled by kafka_seed
    kafka_registry        a schema registry beside the session's broker, at kafka_registry.url
    kafka_cluster         three brokers for the session; all of them run when a test begins
    kafka_cluster_topic   a new topic of kafka_cluster with a name that no other test uses

Fixtures to override in conftest.py:

    kafka_settings            settings of the session's broker
    kafka_declared            contents of the session's broker, in the form that `kwire apply` takes
    kafka_seed                a function that fills the broker whose contents kafka_fork has
    kafka_cluster_settings    settings of all brokers of kafka_cluster

The report of a failed test that uses one of these brokers shows what the broker logged during the
test and the last records of its topics.  The plugin imports nothing of kwire before a test uses a
fixture.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from kwire.testing.faults import Faults
    from kwire.testing.kafka import Contents, Kafka
    from kwire.testing.registry import Registry
    from kwire.testing.several.cluster import KafkaCluster
    from kwire.testing.snapshots import Snapshot
    from kwire.testing.topics import Topic
    from kwire.testing.traces import Trace
    from kwire.testing.values import Path

LOGGED_MAX: Final = 10_000
"""Characters at the end of the log that a failed test's report shows."""
EVENTS_SHOWN_MAX: Final = 50
TOPIC_NAME_MAX: Final = 200

BROKER_FIXTURES: Final = ("kafka_fork", "kafka_cluster", "kafka")
"""Fixtures that are brokers; a failed test's report shows the first of them that the test uses."""

log_start: Final = pytest.StashKey[int]()
"""The length of the broker's log in bytes when a test began."""


@pytest.fixture(scope="session")
def kafka_settings() -> Mapping[str, str]:
    """Settings of the session's broker by Kafka's names.  Override it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_declared() -> Path | Mapping[str, object] | None:
    """Contents of the session's broker at its start and after each reset.  Override it in
    conftest.py with a file of `kwire apply`, or a dict with the same content."""
    return None


@pytest.fixture(scope="session")
def kafka(
    kafka_settings: Mapping[str, str], kafka_declared: Path | Mapping[str, object] | None
) -> Iterator[Kafka]:
    """The session's broker, at `kafka.bootstrap`, for tests with their own topics and groups.

    After a test killed it, by a fault or by `kafka.kill()`, `kafka_topic` and `kafka_reset` start
    it again.
    """
    from kwire.testing import Kafka

    with Kafka(kafka_settings, declared=kafka_declared) as broker:
        yield broker


@pytest.fixture
def kafka_reset(kafka: Kafka) -> Kafka:
    """The session's broker, emptied for this test: no topics, groups, connections or changed
    settings, except those of `kafka_declared` and `kafka_settings`."""
    kafka.reset()
    return kafka


@pytest.fixture(scope="session")
def kafka_seed() -> Callable[[Kafka], object]:
    """A function that fills the broker whose contents every `kafka_fork` has.  Override it in
    conftest.py."""
    return _seed_nothing


def _seed_nothing(kafka: Kafka) -> None:
    """The default of `kafka_seed`."""


@pytest.fixture(scope="session")
def kafka_snapshot(kafka: Kafka, kafka_seed: Callable[[Kafka], object]) -> Snapshot:
    """A snapshot of an unused broker that `kafka_seed` filled."""
    from kwire.testing.kafka import Fork

    with Fork(kafka, None) as seeded:
        kafka_seed(seeded)
        return seeded.snapshot()


@pytest.fixture
def kafka_fork(kafka: Kafka, kafka_snapshot: Snapshot) -> Iterator[Kafka]:
    """A broker for this test alone, at its own port, with the contents from `kafka_seed`."""
    with kafka.fork(kafka_snapshot) as fork:
        yield fork


@pytest.fixture
def kafka_topic(kafka: Kafka, request: pytest.FixtureRequest) -> Topic:
    """A new topic of one partition, with a name that no other test uses."""
    if not kafka.running:
        kafka.start()
    return kafka.create_topic(topic_name(request.node.name, request.node.nodeid))


@pytest.fixture(scope="session")
def kafka_registry_of_session(kafka: Kafka) -> Iterator[Registry]:
    """The session's registry in the state in which the last test left it."""
    from kwire.testing.registry import Registry

    registry = Registry(kafka)
    yield registry
    registry.stop()


@pytest.fixture
def kafka_registry(
    kafka: Kafka, kafka_registry_of_session: Registry, request: pytest.FixtureRequest
) -> Registry:
    """A schema registry beside the session's broker, for tests with their own subjects.

    It is at `kafka_registry.url`, the value of a serializer's `schema.registry.url`.  When a test
    resets the broker by `kafka_reset`, the registry is empty, too.
    """
    if "kafka_reset" in request.fixturenames:
        request.getfixturevalue("kafka_reset")
    if not kafka.running:
        kafka.start()
    kafka_registry_of_session.make_whole()
    return kafka_registry_of_session


@pytest.fixture(scope="session")
def kafka_cluster_settings() -> Mapping[str, str]:
    """Settings of all brokers of `kafka_cluster` by Kafka's names.  Override it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster_of_session(kafka_cluster_settings: Mapping[str, str]) -> Iterator[KafkaCluster]:
    """The session's cluster in the state in which the last test left it."""
    from kwire.testing import KafkaCluster

    with KafkaCluster(3, kafka_cluster_settings) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(kafka_cluster_of_session: KafkaCluster) -> Iterator[KafkaCluster]:
    """The session's cluster of three brokers, for tests with their own topics and groups.

    When a test begins, all three brokers run and there are no faults, whatever earlier tests did.
    """
    cluster = kafka_cluster_of_session
    cluster.make_whole()
    yield cluster
    cluster.resume()


@pytest.fixture
def kafka_cluster_topic(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Topic:
    """A new topic of one partition with three replicas, with a name that no other test uses."""
    return kafka_cluster.create_topic(topic_name(request.node.name, request.node.nodeid))


@pytest.fixture
def kafka_faults(kafka: Kafka) -> Iterator[Faults]:
    """The session's broker's faults.  They are removed before and after each test."""
    if not kafka.running:
        kafka.start()
    kafka.faults.clear()
    yield kafka.faults
    if kafka.running:
        kafka.faults.clear()


@pytest.fixture
def kafka_trace(kafka: Kafka) -> Iterator[Trace]:
    """The requests and responses of this test, as `kafka_trace.events`; its report shows them."""
    if not kafka.running:
        kafka.start()
    trace = kafka.trace()
    yield trace
    if kafka.running:
        trace.end()


def topic_name(name: str, nodeid: str) -> str:
    """A valid topic name made of a test's name and a checksum of its id, which makes it unique."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:TOPIC_NAME_MAX].strip("-")
    return f"{readable}-{zlib.crc32(nodeid.encode()):08x}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Store the position in the broker's log where this test begins."""
    broker = broker_of(item)
    if broker is not None:
        item.stash[log_start] = broker.log_size_bytes
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add topics, faults, requests and log of its broker to a failed test's report."""
    report = yield
    broker = broker_of(item)
    if broker is not None and report.when == "call" and report.failed:
        logged = broker.log_since(item.stash.get(log_start, 0))[-LOGGED_MAX:]
        report.sections.append(("kwire: topics", contents_of(broker)))
        if {"kafka_faults", "kafka_cluster"} & set(getattr(item, "fixturenames", ())):
            report.sections.append(("kwire: faults that happened", happened_of(broker)))
        trace = getattr(item, "funcargs", {}).get("kafka_trace")
        if trace is not None:
            report.sections.append(("kwire: requests", events_of(trace)))
        report.sections.append(("kwire: log", logged or "nothing was logged"))
    return report


def broker_of(item: pytest.Item) -> Kafka | KafkaCluster | None:
    """The broker or cluster that this test uses through a fixture, or None."""
    fixtures: Mapping[str, object] = getattr(item, "funcargs", {})
    brokers = [fixtures[name] for name in BROKER_FIXTURES if name in fixtures]
    if not brokers or "kwire.testing.kafka" not in sys.modules:
        return None
    from kwire.testing import Kafka, KafkaCluster

    # The user's own fixture may have one of these names.
    return next((each for each in brokers if isinstance(each, Kafka | KafkaCluster)), None)


def contents_of(broker: Contents) -> str:
    """The topics and their last records, or why they are not known."""
    from kwire.client.errors import ClientError

    try:
        return broker.report()
    except ClientError as problem:
        return f"not known: {problem}"


def happened_of(broker: Kafka | KafkaCluster) -> str:
    """The injections of faults, one per line, or why they are not known."""
    from kwire.testing.control import ControlError

    try:
        return "\n".join(map(str, broker.faults.happened)) or "none"
    except ControlError as problem:
        return f"not known: {problem}"


def events_of(trace: Trace) -> str:
    """The last events of a test's trace, one per line, or why they are not known."""
    from kwire.testing.control import ControlError

    try:
        lines = [json.dumps(event, ensure_ascii=False) for event in trace.events]
    except ControlError as problem:
        return f"not known: {problem}"
    return "\n".join(lines[-EVENTS_SHOWN_MAX:]) or "none"
