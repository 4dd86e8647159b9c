"""Tests Kafka Streams with exactly-once processing, with one of its own system tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import BrokerProcess

JavaClass = Callable[..., CompletedProcess[str]]

SOURCE, SINK = "brokerCompatibilitySourceTopic", "brokerCompatibilitySinkTopic"
"""Names inside the system test, which can therefore run only once on a broker."""
TIMEOUT_S = 120.0


def test_streams_count_with_a_changelog_is_committed_exactly_once(
    broker: BrokerProcess, java_class: JavaClass, tmp_path: Path
) -> None:
    """The program sends a record, and ends when a reader of committed records has the count."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(t, 1, 1) for t in (SOURCE, SINK)]).values():
        created.result(TIMEOUT_S)
    properties = tmp_path / "streams.properties"
    properties.write_text(
        f"bootstrap.servers={broker.bootstrap}\nstate.dir={tmp_path / 'streams'}\n"
    )
    name = "org.apache.kafka.streams.tests.BrokerCompatibilityTest"
    done = java_class(name, [properties, "exactly_once_v2"], timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "close Kafka Streams"
    assert "Exception" not in done.stdout + done.stderr
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    assert any(topic.endswith("-changelog") for topic in topics), "it kept no state"
