"""A broker beside a controller with SASL inside TLS and an authorizer: logins, rights and users.

The controllers keep the ACLs and credentials, and check the rights of forwarded requests by the
principal of the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kwire.conformance.certificates import Certificates
from kwire.testing import BrokerProcess
from tests.cluster.stores.kraft.real_controller import KafkaController
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.java, pytest.mark.slow]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:admin",
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OF_BROKER = f'{MODULE} username="broker" password="broker-secret" user_broker="broker-secret";'
OF_CLIENTS = (
    f'{MODULE} username="broker" password="broker-secret" user_broker="broker-secret" '
    'user_admin="admin-secret" user_alice="alice-secret";'
)
CONTROLLER = {
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": OF_BROKER,
}
TOPIC = ResourceType.TOPIC


@contextmanager
def secured(directory: Path) -> Iterator[BrokerProcess]:
    """A broker, and its controller, which trust the same certificate authority."""
    encryption = Certificates(directory).settings()
    kafka = KafkaController(
        directory / "controller",
        settings={
            **AUTHORIZER,
            **CONTROLLER,
            **encryption,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        },
    )
    kafka.start()
    try:
        broker = BrokerProcess(directory / "broker")
        address = f"SASL_PLAINTEXT://127.0.0.1:{broker.port}"
        broker.settings |= {
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            **kafka.quorum,
            **AUTHORIZER,
            **CONTROLLER,
            **encryption,
            "listeners": address,
            "advertised.listeners": address,
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": OF_CLIENTS,
        }
        with broker:
            yield broker
    finally:
        kafka.stop()


Login = dict[str, str | int | float | bool]


def login(broker: BrokerProcess, user: str, mechanism: str = "PLAIN") -> Login:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def allow(user: str, operation: AclOperation, topic: str) -> AclBinding:
    return AclBinding(
        TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def create(admin: AdminClient, entry: AclBinding) -> None:
    for created in admin.create_acls([entry]).values():
        created.result(PATIENCE_S)


def why_not_created(admin: AdminClient, topic: str) -> str | None:
    """The name of the error that refuses a new topic; None if it is there."""
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    except KafkaException as refused:
        name: str = refused.args[0].name()
        return name
    return None


def why_not_written(settings: Login, topic: str) -> str | None:
    """The name of the error that refuses a record; None if it is there."""
    outcomes: list[str | None] = []
    producer = Producer({**settings, "message.timeout.ms": str(int(PATIENCE_S * 1000))})
    producer.produce(
        topic,
        b"x",
        on_delivery=lambda error, _: outcomes.append(None if error is None else error.name()),
    )
    assert producer.flush(PATIENCE_S) == 0
    return outcomes[0]


def test_controllers_decide_by_the_clients_principal_and_keep_users_and_acls(
    tmp_path: Path,
) -> None:
    with secured(tmp_path) as broker:
        admin = AdminClient(login(broker, "admin"))
        alice = AdminClient(login(broker, "alice"))
        assert why_not_created(admin, "t") is None
        assert why_not_created(alice, "of-alice") == "TOPIC_AUTHORIZATION_FAILED"
        create(admin, allow("alice", AclOperation.CREATE, "of-alice"))
        until(lambda: why_not_created(alice, "of-alice") is None, "created by alice")

        assert why_not_written(login(broker, "alice"), "t") == "TOPIC_AUTHORIZATION_FAILED"
        create(admin, allow("alice", AclOperation.WRITE, "t"))
        until(lambda: why_not_written(login(broker, "alice"), "t") is None, "written by alice")

        bob = UserScramCredentialUpsertion(
            "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"bob-secret"
        )
        admin.alter_user_scram_credentials([bob])["bob"].result(PATIENCE_S)
        create(admin, allow("bob", AclOperation.WRITE, "t"))
        settings = login(broker, "bob", "SCRAM-SHA-256")
        until(lambda: why_not_written(settings, "t") is None, "written by bob")
