"""A cluster's properties, which have the names of Kafka's Java clients, as librdkafka's settings.

Most names are the same.  Those of security that differ are translated; what only tunes a Java
client is left out, and what librdkafka cannot do is told.
"""

from __future__ import annotations

import re

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka

RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
LEFT_OUT = frozenset(
    {
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "send.buffer.bytes",
        "ssl.enabled.protocols",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.type",
    }
)
"""They say how Spark's consumers read, or nothing that librdkafka does not find out."""

PEM = "PEM"
LOGIN = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;]+))")


def settings_of(kafka: Kafka) -> dict[str, str]:
    """librdkafka's settings for the cluster; PipelineError for what it cannot do."""
    properties = dict(kafka.properties)
    settings = {"bootstrap.servers": kafka.bootstrap}
    for store in ("ssl.truststore", "ssl.keystore"):
        if f"{store}.location" in properties and properties.get(f"{store}.type") != PEM:
            raise PipelineError(
                f"{store}.location has to be a file in PEM, with {store}.type=PEM: what writes"
                " transactions reads no Java key stores"
            )
    if jaas := properties.pop("sasl.jaas.config", None):
        settings |= _login(jaas)
    if "ssl.keystore.location" in properties:
        settings["ssl.key.location"] = properties["ssl.keystore.location"]
    if (verified := properties.get("ssl.endpoint.identification.algorithm")) is not None:
        properties["ssl.endpoint.identification.algorithm"] = verified or "none"
    renamed = {
        RENAMED.get(name, name): value for name, value in properties.items() if name not in LEFT_OUT
    }
    return settings | renamed


def _login(jaas: str) -> dict[str, str]:
    """User and password of a line like `...PlainLoginModule required username="u" password="p";`"""
    found = {name: quoted or bare for name, quoted, bare in LOGIN.findall(jaas)}
    if found.keys() != {"username", "password"}:
        raise PipelineError(
            "sasl.jaas.config has to name a username and a password: what writes transactions"
            " knows no other login"
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
