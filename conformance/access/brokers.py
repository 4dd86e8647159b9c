"""Brokers that tell clients apart, with a listener for those who do not say who they are."""

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
    give_rights,
    make_token,
    make_topic,
    matrix,
)
from kwire.conformance.access.kept import Cell, Told
from kwire.conformance.access.requests import asked, request_of
from kwire.conformance.access.senders import ADMIN, jaas
from kwire.conformance.access.stage import Stage
from kwire.conformance.apache_kafka import ApacheKafka, ZooKeeperBroker
from kwire.conformance.wire.peer import Address
from kwire.testing.cluster import agreed_controller, cluster_view
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess

HOST: Final = "localhost"
BROKER_ID: Final = 1


def settings(plain: int, sasl: int) -> dict[str, str]:
    """Of either broker, with listeners on these ports."""
    listeners = f"PLAINTEXT://{HOST}:{plain},SASL://{HOST}:{sasl}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "auto.create.topics.enable": "false",
        "log.retention.ms": "-1",  # records are of 1970
        "sasl.enabled.mechanisms": "PLAIN",
        "delegation.token.secret.key": "a secret of the brokers",
        "listener.name.sasl.plain.sasl.jaas.config": jaas(),
    }


def _of_a_controller(given: dict[str, str], port: int) -> dict[str, str]:
    """What Apache Kafka needs beside it, so that its own requests are the super user's."""
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


def _of_a_cluster(given: dict[str, str]) -> dict[str, str]:
    """What a broker on ZooKeeper has beside it, of either kind."""
    return given | {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }


@contextmanager
def kwire(directory: Path) -> Iterator[tuple[Address, Address]]:
    """The addresses of its two listeners."""
    plain, sasl = free_port(), free_port()
    with BrokerProcess(directory, settings(plain, sasl), port=plain):
        yield (HOST, plain), (HOST, sasl)


@contextmanager
def apache(directory: Path) -> Iterator[tuple[Address, Address]]:
    plain, sasl = free_port(), free_port()
    given = _of_a_controller(settings(plain, sasl), free_port())
    plugins = [telemetry_receiver.jar()]
    given |= telemetry_receiver.SETTINGS
    with ApacheKafka(directory, port=plain, settings=given, plugins=plugins):
        yield (HOST, plain), (HOST, sasl)


@contextmanager
def kwire_on_zookeeper(directory: Path, connect: str) -> Iterator[tuple[Address, Address]]:
    plain, sasl = free_port(), free_port()
    given = _of_a_cluster(settings(plain, sasl))
    given |= {"broker.id": str(BROKER_ID), "zookeeper.connect": connect}
    with BrokerProcess(directory, given, port=plain):
        _wait_until_controller(plain)
        yield (HOST, plain), (HOST, sasl)


@contextmanager
def apache_on_zookeeper(directory: Path, connect: str) -> Iterator[tuple[Address, Address]]:
    """Of Apache Kafka's last version on ZooKeeper."""
    plain, sasl = free_port(), free_port()
    given = _of_a_cluster(settings(plain, sasl))
    with ZooKeeperBroker(directory, connect, BROKER_ID, port=plain, settings=given):
        _wait_until_controller(plain)
        yield (HOST, plain), (HOST, sasl)


def _wait_until_controller(port: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while agreed_controller([cluster_view(port)], frozenset({BROKER_ID})) is None:
        assert time.monotonic() < deadline, "the broker does not become the controller"
        time.sleep(POLL_S)


def answers(plain: Address, sasl: Address) -> list[Cell]:
    """The whole matrix, of a broker that has just been started."""
    give_rights(plain, sasl)
    topic_id = make_topic(plain, sasl)
    make_token(plain, sasl)
    return list(
        matrix(plain, sasl, asked(), lambda name, version: request_of(name, version, topic_id))
    )


def scenes(plain: Address, sasl: Address) -> list[Told]:
    """What is told where several things are named, hidden, or taken away."""
    give_rights(plain, sasl)
    stage = Stage(plain, sasl)
    told = [each for scene in (several, hidden, taken, sharing) for each in scene.play(stage)]
    stage.close()
    return told


def answers_to_brokers(plain: Address, sasl: Address) -> list[Cell]:
    """What those are told who ask as the brokers of a cluster on ZooKeeper do."""
    give_rights(plain, sasl)
    return list(matrix(plain, sasl, of_brokers.ASKED, of_brokers.request_of))
