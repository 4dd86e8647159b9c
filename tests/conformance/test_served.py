"""The API keys that Apache Kafka serves are those of a stored list, which docs/apis.md uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.wire.broker import Broker, address_of

STORED = Path(__file__).parent / "data" / "served-4.3.1.txt"


@pytest.mark.java
def test_apache_kafka_serves_the_stored_api_keys(
    apache_kafka: ApacheKafkaNode, rewrite: bool
) -> None:
    apache = Broker(address_of(apache_kafka.bootstrap))
    apache.meet()
    text = "".join(f"{key} {ApiKey(key).name}\n" for key in sorted(apache.served))
    if rewrite:
        STORED.write_text(text)
    assert STORED.read_text() == text
