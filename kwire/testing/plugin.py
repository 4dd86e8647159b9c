"""pytest's fixtures of a broker; pytest finds this module by itself where kwire is installed.

    kafka            a broker for the session, of each worker of pytest-xdist its own
    kafka_settings   its settings: a fixture of this name in conftest.py goes before this one
    kafka_declared   what it has from the start, as `kwire apply` takes it: to be overridden, too
    kafka_topic      a new topic with a name of the test's own
    kafka_faults     what befalls requests, during this test alone
    kafka_trace      the requests of this test and their answers, decoded
    kafka_reset      the same broker, fresh: as if nobody had ever used it
    kafka_seed       what fills a broker once, for kafka_fork: a fixture to be overridden, too
    kafka_fork       a broker of the test's own that holds what kafka_seed has put there
    kafka_cluster    three brokers for the session, all of which run when a test begins
    kafka_cluster_settings, kafka_cluster_topic     as those of one broker

To a test that failed and has used one of them, what the broker logged meanwhile and what its topics
hold are attached.  Nothing of kwire is imported before a test asks for one.
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
    from kwire.testing.several.cluster import KafkaCluster
    from kwire.testing.snapshots import Snapshot
    from kwire.testing.topics import Topic
    from kwire.testing.traces import Trace
    from kwire.testing.values import Path

LOGGED_MAX: Final = 10_000
"""Characters of the log that are attached, the last ones."""
EVENTS_SHOWN_MAX: Final = 50
TOPIC_NAME_MAX: Final = 200

SHOWN_OF: Final = ("kafka_fork", "kafka_cluster", "kafka")
"""Fixtures whose broker is shown when a test fails: the first that it has."""

log_start: Final = pytest.StashKey[int]()
"""How long the broker's log was when a test began."""


@pytest.fixture(scope="session")
def kafka_settings() -> Mapping[str, str]:
    """Settings of the session's broker, by Kafka's names: a fixture to be overridden."""
    return {}


@pytest.fixture(scope="session")
def kafka_declared() -> Path | Mapping[str, object] | None:
    """A file of `kwire apply`, or a dict that says the same, which the session's broker has from
    the start and after each reset: a fixture to be overridden."""
    return None


@pytest.fixture(scope="session")
def kafka(
    kafka_settings: Mapping[str, str], kafka_declared: Path | Mapping[str, object] | None
) -> Iterator[Kafka]:
    """A broker for all tests that use topics and groups of their own; `kafka.bootstrap` is where.

    Where a test has ended it, by a fault or by `kafka.kill()`, `kafka_topic` and `kafka_reset`
    have it run again.
    """
    from kwire.testing import Kafka

    with Kafka(kafka_settings, declared=kafka_declared) as broker:
        yield broker


@pytest.fixture
def kafka_reset(kafka: Kafka) -> Kafka:
    """The broker, fresh for this test: no topics, no groups, no connections, Kafka's settings."""
    kafka.reset()
    return kafka


@pytest.fixture(scope="session")
def kafka_seed() -> Callable[[Kafka], object]:
    """Fills a broker for all tests that take `kafka_fork`: a fixture to be overridden."""
    return _with_nothing


def _with_nothing(kafka: Kafka) -> None:
    """What a test finds where nobody says otherwise."""


@pytest.fixture(scope="session")
def kafka_snapshot(kafka: Kafka, kafka_seed: Callable[[Kafka], object]) -> Snapshot:
    """What a broker holds that `kafka_seed` has filled, and nobody else has used."""
    from kwire.testing.kafka import Fork

    with Fork(kafka, None) as seeded:
        kafka_seed(seeded)
        return seeded.snapshot()


@pytest.fixture
def kafka_fork(kafka: Kafka, kafka_snapshot: Snapshot) -> Iterator[Kafka]:
    """A broker for this test alone, at a port of its own, filled once by `kafka_seed`."""
    with kafka.fork(kafka_snapshot) as fork:
        yield fork


@pytest.fixture
def kafka_topic(kafka: Kafka, request: pytest.FixtureRequest) -> Topic:
    """A new topic of one partition, with a name that no other test uses."""
    if not kafka.running:
        kafka.start()
    return kafka.create_topic(topic_name(request.node.name, request.node.nodeid))


@pytest.fixture(scope="session")
def kafka_cluster_settings() -> Mapping[str, str]:
    """Settings of all brokers of `kafka_cluster`, by Kafka's names: a fixture to be overridden."""
    return {}


@pytest.fixture(scope="session")
def kafka_cluster_of_session(kafka_cluster_settings: Mapping[str, str]) -> Iterator[KafkaCluster]:
    """The cluster, as the tests before have left it."""
    from kwire.testing import KafkaCluster

    with KafkaCluster(3, kafka_cluster_settings) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(kafka_cluster_of_session: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three brokers for all tests that use topics and groups of their own.

    All of them run and nothing befalls them when a test begins, whatever the one before has done.
    """
    cluster = kafka_cluster_of_session
    cluster.make_whole()
    yield cluster
    cluster.resume()


@pytest.fixture
def kafka_cluster_topic(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Topic:
    """A new topic of one partition with a replica on each broker, named as no other test's is."""
    return kafka_cluster.create_topic(topic_name(request.node.name, request.node.nodeid))


@pytest.fixture
def kafka_faults(kafka: Kafka) -> Iterator[Faults]:
    """Faults for this test: none of those before it hold, nor these after it."""
    if not kafka.running:
        kafka.start()
    kafka.faults.clear()
    yield kafka.faults
    if kafka.running:
        kafka.faults.clear()


@pytest.fixture
def kafka_trace(kafka: Kafka) -> Iterator[Trace]:
    """All requests of this test and their answers, as `kafka_trace.events`; shown if it fails."""
    if not kafka.running:
        kafka.start()
    trace = kafka.trace()
    yield trace
    if kafka.running:
        trace.end()


def topic_name(name: str, nodeid: str) -> str:
    """What a test is called, as far as a topic may be called so."""
    speaking = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:TOPIC_NAME_MAX].strip("-")
    return f"{speaking}-{zlib.crc32(nodeid.encode()):08x}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note where the log of this test begins."""
    broker = broker_of(item)
    if broker is not None:
        item.stash[log_start] = broker.log_size_bytes
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach to a failed test what its broker knows."""
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
    """The session's broker or cluster or the test's own broker, if this test uses one."""
    fixtures: Mapping[str, object] = getattr(item, "funcargs", {})
    asked = [fixtures[name] for name in SHOWN_OF if name in fixtures]
    if not asked or "kwire.testing.kafka" not in sys.modules:
        return None
    from kwire.testing import Kafka, KafkaCluster

    # Somebody's own fixture may have that name.
    return next((each for each in asked if isinstance(each, Kafka | KafkaCluster)), None)


def contents_of(broker: Contents) -> str:
    """What the topics hold, or why that is not known."""
    from kwire.client.errors import ClientError

    try:
        return broker.report()
    except ClientError as problem:
        return f"not known: {problem}"


def happened_of(broker: Kafka | KafkaCluster) -> str:
    """The requests that faults befell, a line each, or why that is not known."""
    from kwire.testing.control import ControlError

    try:
        return "\n".join(map(str, broker.faults.happened)) or "none"
    except ControlError as problem:
        return f"not known: {problem}"


def events_of(trace: Trace) -> str:
    """The last requests that a test has seen, a line each, or why they are not known."""
    from kwire.testing.control import ControlError

    try:
        lines = [json.dumps(event, ensure_ascii=False) for event in trace.events]
    except ControlError as problem:
        return f"not known: {problem}"
    return "\n".join(lines[-EVENTS_SHOWN_MAX:]) or "none"
