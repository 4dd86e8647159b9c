"""Where the metrics endpoint of a broker is, by its settings."""

from __future__ import annotations

import pytest

from kwire.client.cluster import Cluster
from kwire.client.metrics.endpoints import endpoint_of, endpoints_of, is_this_machine
from kwire.testing import BrokerProcess

ELSEWHERE = "192.0.2.1"
"""An address for documentation, which no machine has (RFC 5737)."""


@pytest.mark.parametrize(
    ("settings", "host", "url"),
    [
        ({"metrics.port": "9404"}, "localhost", "http://127.0.0.1:9404"),
        (
            {"metrics.port": "9404", "metrics.host": "0.0.0.0"},
            ELSEWHERE,
            f"http://{ELSEWHERE}:9404",
        ),
        ({"metrics.port": "1", "metrics.host": "::"}, "2001:db8::1", "http://[2001:db8::1]:1"),
        ({"metrics.port": "1", "metrics.host": "10.0.0.9"}, ELSEWHERE, "http://10.0.0.9:1"),
        ({"metrics.port": "9404"}, ELSEWHERE, None),
        ({}, "localhost", None),
        ({"metrics.port": "0"}, "localhost", None),
    ],
)
def test_endpoint_is_at_the_host_that_it_listens_on(
    settings: dict[str, str], host: str, url: str | None
) -> None:
    found = endpoint_of(1, host, settings)
    assert found.url == url
    assert (found.reason is None) is (url is not None)


def test_endpoint_on_the_loopback_of_another_machine_says_so() -> None:
    reason = endpoint_of(1, ELSEWHERE, {"metrics.port": "9404"}).reason
    assert reason is not None
    assert "another machine" in reason


def test_this_machine_has_loopback_addresses_and_no_others_addresses() -> None:
    assert is_this_machine("127.0.0.1")
    assert is_this_machine("localhost")
    assert not is_this_machine(ELSEWHERE)
    assert not is_this_machine("no-such-host.invalid")


def test_broker_without_metrics_has_no_endpoint(shared_broker: BrokerProcess) -> None:
    with Cluster(shared_broker.bootstrap, timeout_s=60) as cluster:
        (found,) = endpoints_of(cluster).values()
    assert found.url is None
    assert "no metrics endpoint" in (found.reason or "")
