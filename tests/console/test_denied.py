"""What the ACLs of a cluster deny is denied in the console, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.client.access.acls import (
    Acl,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
)
from kwire.client.cluster import Cluster
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.console.consoles import ConsoleProcess, visit

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OPEN, CLOSED = "open-topic", "closed-topic"
READ_OPEN = Acl(
    Resource.TOPIC, Pattern.LITERAL, OPEN, "User:reader", "*", Operation.READ, Permission.ALLOW
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console of a user who may read one of two topics, and nothing else."""
    folder = tmp_path_factory.mktemp("denied")
    port, sasl = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{LOGIN} user_reader="secret";',
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    broker = BrokerProcess(folder / "broker", settings, port=port)
    broker.start()
    with Cluster(broker.bootstrap) as cluster:
        producer = Producer(cluster)
        for topic in (OPEN, CLOSED):
            create_topic(cluster, topic, partitions=1)
            producer.send(topic, b"secret value")
        producer.flush()
        create_acls(cluster, [READ_OPEN])
    properties = folder / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} username="reader" password="secret";\n'
    )
    options = ("--command-config", str(properties))
    with ConsoleProcess(f"127.0.0.1:{sasl}", folder, *options) as started:
        yield started
    finish(broker)


def test_topic_that_may_not_be_seen_is_not_in_the_list(console: ConsoleProcess) -> None:
    page = visit(console, "/topics").text
    assert OPEN in page
    assert CLOSED not in page


def test_what_may_be_read_is_shown_without_what_may_not(console: ConsoleProcess) -> None:
    assert "secret value" in visit(console, f"/topics/{OPEN}/messages").text
    partitions = visit(console, f"/topics/{OPEN}")
    assert partitions.status == 200
    assert "unknown" in partitions.text, "the sizes need a right on the cluster"
    assert "TOPIC_AUTHORIZATION_FAILED" in visit(console, f"/topics/{OPEN}/configs").text


@pytest.mark.parametrize(
    "part", ["", "/messages", "/configs", "/messages/0/0", "/messages/0/0/value"]
)
def test_topic_that_may_not_be_read_is_a_page_that_says_so(
    console: ConsoleProcess, part: str
) -> None:
    answer = visit(console, f"/topics/{CLOSED}{part}")
    assert answer.status == 403
    assert "You have no right to do this" in answer.text
    assert "secret value" not in answer.text


def test_message_that_may_not_be_written_is_refused(console: ConsoleProcess) -> None:
    answer = visit(console, f"/topics/{OPEN}/produce", {"value": "forged"})
    assert answer.status == 400
    assert "AUTHORIZATION_FAILED" in answer.text
    assert "forged" not in visit(console, f"/topics/{OPEN}/messages").text
