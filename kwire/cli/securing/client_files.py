"""The client settings, for each kind of client, that log in to a secured broker; without I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.security.tls.making import properties_text

CLIENT_FILE: Final = "client.properties"
MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class ClientFileLogin:
    """The bootstrap servers, the trusted authority, and the user with its password."""

    bootstrap: str
    authority: Path
    user: str
    password: str

    def __repr__(self) -> str:
        return f"<Login of {self.user} at {self.bootstrap}>"


def java(login: ClientFileLogin) -> dict[str, str]:
    """Properties for Java clients, Apache Kafka's tools and kwire (`--command-config`)."""
    return {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": (
            f'{_MODULE} required username="{login.user}" password="{login.password}";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(login.authority),
    }


def librdkafka(login: ClientFileLogin) -> dict[str, str]:
    """Properties for clients with librdkafka: confluent-kafka, kcat and many others."""
    return {
        "bootstrap.servers": login.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "ssl.ca.location": str(login.authority),
    }


def kafka_python(login: ClientFileLogin) -> dict[str, str]:
    """Keyword arguments for kafka-python's clients."""
    return {
        "bootstrap_servers": login.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
        "ssl_cafile": str(login.authority),
    }


def spark(login: ClientFileLogin) -> dict[str, str]:
    """Options for Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in java(login).items()}


def files(login: ClientFileLogin) -> dict[str, str]:
    """The content of each file by its name."""
    return {
        CLIENT_FILE: properties_text(java(login)),
        "librdkafka.properties": properties_text(librdkafka(login)),
        "kafka-python.json": json.dumps(kafka_python(login), indent=2) + "\n",
        "spark.json": json.dumps(spark(login), indent=2) + "\n",
    }
