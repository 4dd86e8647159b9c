"""Client properties: the known names, and the search for misspelt ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import source_command
from kwire.settings.client_properties import NAMES, misspelt

SOURCE = Path(__file__).parent / "ClientProperties.java"


def nearest(name: str) -> str | None:
    """The known property that `misspelt` suggests for `name`."""
    suggestions = misspelt({name: "value"})
    return suggestions[0].nearest if suggestions else None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("security.protcol", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.jass.config", "sasl.jaas.config"),
        ("ssl.truststore.loction", "ssl.truststore.location"),
        ("boostrap.servers", "bootstrap.servers"),
        ("request.timeout", "request.timeout.ms"),
    ],
)
def test_misspelt_property_is_reported_with_the_nearest_name(name: str, meant: str) -> None:
    assert nearest(name) == meant


@pytest.mark.parametrize(
    "name",
    [
        "sasl.server.callback.handler.class",  # a broker's
        "sasl.enabled.mechanisms",
        "ssl.key.location",  # librdkafka's
        "sasl.username",
        "admin.security.protocol",  # Connect's and MirrorMaker's
        "schema.registry.url",
        "schema.registry.ssl.truststore.location",
        "include.kafka.metadata",
    ],
)
def test_property_of_another_tool_is_not_reported_as_misspelt(name: str) -> None:
    assert nearest(name) is None


def test_known_properties_are_not_reported_as_misspelt() -> None:
    assert misspelt(dict.fromkeys(NAMES, "")) == []


@pytest.mark.java
@pytest.mark.long
def test_known_names_are_those_of_apache_kafkas_clients(apache_kafka_libs: Path) -> None:
    done = subprocess.run(
        source_command(SOURCE, jars=apache_kafka_libs),
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == NAMES
