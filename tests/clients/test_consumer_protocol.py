"""Tests clients with the consumer protocol (KIP-848): Apache Kafka's tools, and librdkafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from subprocess import CompletedProcess

import pytest

from kwire.testing import BrokerProcess
from tests.clients.librdkafka import consumer, create_topic, produce, values, wait_until

pytestmark = pytest.mark.slow

TOOLS = "org.apache.kafka.tools"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
PROTOCOL = {"group.protocol": "consumer"}

JavaClass = Callable[..., CompletedProcess[str]]


@pytest.mark.java
def test_apache_tools_consume_and_describe_a_consumer_group(
    bootstrap: str, java_class: JavaClass, unique: str
) -> None:
    """A console consumer does not read committed records again; tools describe the group."""

    def tool(name: str, *arguments: object) -> str:
        given = ["--bootstrap-server", bootstrap, *map(str, arguments)]
        done = java_class(name, given)
        assert done.returncode == 0, done.stdout + done.stderr
        assert " ERROR " not in done.stderr, done.stderr
        return done.stdout

    create_topic(bootstrap, unique, partitions=2)
    produce(bootstrap, unique, 10)
    consume = [CONSUMER, "--include", f"{unique}.*", "--group", unique, "--from-beginning"]
    consume += ["--command-property", "group.protocol=consumer", "--max-messages"]
    first = tool(*consume, 6).split()
    assert sorted(first + tool(*consume, 4).split()) == sorted(map(str, range(10)))
    listed = tool(GROUPS, "--list", "--type", "consumer")
    assert unique in listed.split()
    described = tool(GROUPS, "--describe", "--group", unique, "--state")
    assert "Empty" in described


@pytest.fixture
def brisk(request: pytest.FixtureRequest) -> str:
    """A broker with short heartbeat intervals, since each step of a rebalance takes a heartbeat."""
    if request.config.getoption("--bootstrap"):
        given: str = request.getfixturevalue("bootstrap")
        return given
    names = ["group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"]
    broker: BrokerProcess = request.getfixturevalue("broker_factory")(dict.fromkeys(names, "300"))
    return broker.bootstrap


def test_librdkafka_members_join_leave_and_are_killed(brisk: str, unique: str) -> None:
    """Three members share six partitions; one leaves, one is killed, and no record is missed."""
    bootstrap = brisk
    create_topic(bootstrap, unique, partitions=6)
    produce(bootstrap, unique, 300)
    seen = Counter[int]()
    with ExitStack() as members:
        made = [members.enter_context(consumer(bootstrap, unique, **PROTOCOL)) for _ in range(3)]
        for member in made:
            member.subscribe([unique])

        def shared(among: int, records: int) -> bool:
            for member in made[:among]:
                while message := member.poll(0.02):
                    assert message.error() is None, message.error()
                    seen.update(values([message]))
            shares = [len(member.assignment()) for member in made[:among]]
            return len(seen) == records and shares == [6 // among] * among

        wait_until(lambda: shared(3, 300))
        made[2].close()
        wait_until(lambda: shared(2, 300))
        made[1].close()
        wait_until(lambda: shared(1, 300))
    assert sum(seen.values()) >= 300
