"""Checks the stored list of API keys that Apache Kafka serves, and that kwire lists the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.requests.handlers.api_versions import advertised_versions

STORED = Path(__file__).parent / "data" / f"served-{VERSION}.txt"


@pytest.mark.java
def test_apache_kafka_serves_the_stored_api_keys(
    apache_kafka: ApacheKafkaNode, rewrite: bool
) -> None:
    apache = RemoteBroker(address_of(apache_kafka.bootstrap))
    apache.read_versions_and_ids()
    text = "".join(f"{key} {ApiKey(key).name}\n" for key in sorted(apache.served))
    if rewrite:
        STORED.write_text(text)
    assert STORED.read_text() == text


def test_kwire_lists_exactly_the_api_keys_of_apache_kafka() -> None:
    """Both list the two about client metrics only if these are collected."""
    every = advertised_versions(with_telemetry=True)
    listed = [f"{each.api_key} {ApiKey(each.api_key).name}" for each in every]
    assert listed == STORED.read_text().splitlines()
