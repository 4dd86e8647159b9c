"""Brokers that tell clients apart, with a listener for those who do not say who they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kwire.conformance.access.asking import give_rights, make_token, make_topic, matrix
from kwire.conformance.access.kept import Cell
from kwire.conformance.access.senders import ADMIN, jaas
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.wire.peer import Address
from kwire.testing.ports import free_port
from kwire.testing.process import BrokerProcess

HOST: Final = "localhost"


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
    with ApacheKafka(directory, port=plain, settings=given):
        yield (HOST, plain), (HOST, sasl)


def answers(plain: Address, sasl: Address) -> list[Cell]:
    """The whole matrix, of a broker that has just been started."""
    give_rights(plain, sasl)
    topic_id = make_topic(plain, sasl)
    make_token(plain, sasl)
    return list(matrix(plain, sasl, topic_id))
