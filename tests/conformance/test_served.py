"""What docs/apis.md says of the requests that only Apache Kafka serves."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.wire.broker import Broker, address_of
from kwire.requests.routes import ROUTES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "apis.md"
BEGIN = "<!-- missing: tests/conformance/test_served.py writes and checks this list -->\n"
END = "<!-- /missing -->\n"


def name_of(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


@pytest.mark.java
def test_what_is_not_served_yet_is_told(apache_kafka: ApacheKafkaNode, rewrite: bool) -> None:
    apache = Broker(address_of(apache_kafka.bootstrap))
    apache.meet()
    missing = sorted(apache.served.keys() - {int(route.api_key) for route in ROUTES})
    text = textwrap.fill(", ".join(map(name_of, missing)), 100) + ".\n"
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END)
    if rewrite:
        PAGE.write_text(before + BEGIN + text + END + after)
        return
    assert found == text, "docs/apis.md lags behind kwire/requests/routes.py: pytest --rewrite"
