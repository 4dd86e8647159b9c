"""Brokers with SASL and an authorizer, and a second listener for anonymous clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kwire.conformance import telemetry_receiver
from kwire.conformance.access import hidden, of_brokers, several, sharing, taken
from kwire.conformance.access.asking import (
    POLL_S,
    READY_TIMEOUT_S,
    create_acls,
    create_token,
    create_topic,
    matrix,
)
from kwire.conformance.access.kept import MatrixRow, SceneAnswer
from kwire.conformance.access.requests import request_of, requested_versions
from kwire.conformance.access.senders import ADMIN, jaas
from kwire.conformance.access.stage import AccessStage
from kwire.conformance.apache_kafka import ApacheKafka, ZooKeeperBroker
from kwire.conformance.wire.peer import Address
from kwire.testing.cluster import agreed_controller, cluster_view
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess

HOST: Final = "localhost"
BROKER_ID: Final = 1


def settings(plain: int, sasl: int) -> dict[str, str]:
    """Return the settings of kwire and Apache Kafka alike, with listeners on these ports."""
    listeners = f"PLAINTEXT://{HOST}:{plain},SASL://{HOST}:{sasl}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "auto.create.topics.enable": "false",
        "log.retention.ms": "-1",  # the records' timestamps are of 1970
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": "a secret of the brokers",
        "listener.name.sasl.plain.sasl.jaas.config": jaas(),
    }


def _controller_settings(given: dict[str, str], port: int) -> dict[str, str]:
    """Return the settings of Apache Kafka with a controller, whose own requests are the super
    user's."""
    return given | {
        "listeners": f"{given['listeners']},CONTROLLER://{HOST}:{port}",
        "listener.security.protocol.map": given["listener.security.protocol.map"]
        + ",CONTROLLER:SASL_PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{port}",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas(),
    }


def _cluster_settings(given: dict[str, str]) -> dict[str, str]:
    """Return the settings of a broker on ZooKeeper, of kwire and Apache Kafka alike."""
    return given | {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }


@contextmanager
def kwire(directory: Path) -> Iterator[tuple[Address, Address]]:
    """Start a kwire broker; yield the addresses of its listeners without and with SASL."""
    plain, sasl = free_port(), free_port()
    with BrokerProcess(directory, settings(plain, sasl), port=plain):
        yield (HOST, plain), (HOST, sasl)


@contextmanager
# The addresses are those of the listeners without and with SASL, here and below.
def apache(directory: Path) -> Iterator[tuple[Address, Address]]:
    """Start Apache Kafka and yield the addresses of its listeners without and with SASL."""
    plain, sasl = free_port(), free_port()
    given = _controller_settings(settings(plain, sasl), free_port())
    plugins = [telemetry_receiver.jar()]
    given |= telemetry_receiver.SETTINGS
    with ApacheKafka(directory, port=plain, settings=given, plugins=plugins):
        yield (HOST, plain), (HOST, sasl)


@contextmanager
def kwire_on_zookeeper(directory: Path, connect: str) -> Iterator[tuple[Address, Address]]:
    """Start a kwire broker on ZooKeeper; yield its addresses when it is the controller."""
    plain, sasl = free_port(), free_port()
    given = _cluster_settings(settings(plain, sasl))
    given |= {"broker.id": str(BROKER_ID), "zookeeper.connect": connect}
    with BrokerProcess(directory, given, port=plain):
        _wait_until_controller(plain)
        yield (HOST, plain), (HOST, sasl)


@contextmanager
def apache_on_zookeeper(directory: Path, connect: str) -> Iterator[tuple[Address, Address]]:
    """Start a broker of the last version of Apache Kafka that supports ZooKeeper."""
    plain, sasl = free_port(), free_port()
    given = _cluster_settings(settings(plain, sasl))
    with ZooKeeperBroker(directory, connect, BROKER_ID, port=plain, settings=given):
        _wait_until_controller(plain)
        yield (HOST, plain), (HOST, sasl)


def _wait_until_controller(port: int) -> None:
    """Wait until the broker is the controller; fail after READY_TIMEOUT_S seconds."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while agreed_controller([cluster_view(port)], frozenset({BROKER_ID})) is None:
        assert time.monotonic() < deadline, "the broker does not become the controller"
        time.sleep(POLL_S)


def answers(plain: Address, sasl: Address) -> list[MatrixRow]:
    """Return the whole matrix of a broker that has just started."""
    create_acls(plain, sasl)
    topic_id = create_topic(plain, sasl)
    create_token(plain, sasl)
    return list(
        matrix(
            plain,
            sasl,
            requested_versions(),
            lambda name, version: request_of(name, version, topic_id),
        )
    )


def scenes(plain: Address, sasl: Address) -> list[SceneAnswer]:
    """Return the responses of all scenes: requests that name several things, hidden topics, lost
    rights."""
    create_acls(plain, sasl)
    stage = AccessStage(plain, sasl)
    scene_answers = [
        answer for scene in (several, hidden, taken, sharing) for answer in scene.play(stage)
    ]
    stage.close()
    return scene_answers


def answers_to_brokers(plain: Address, sasl: Address) -> list[MatrixRow]:
    """Return the responses to requests that only the brokers of a cluster on ZooKeeper send."""
    create_acls(plain, sasl)
    return list(matrix(plain, sasl, of_brokers.REQUESTED_VERSIONS, of_brokers.request_of))
