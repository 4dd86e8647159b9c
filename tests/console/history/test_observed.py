"""What brokers tell of their clients and groups at their metrics endpoints."""

from __future__ import annotations

import json

import pytest

from kwire.client.metrics.rebalances import LastRebalance
from kwire.console.history.observed import ObservedClient, SlowestRequest, observed_by
from tests.console.history.endpoint import served


def answer(
    *, throttle_ns: float = 0, busy_ns: float = 1e9, at_ms: int = 5, reason: str = "member m joins"
) -> str:
    """What `/slow` says of one client, one request and one group."""
    who = {"client_id": "c", "client_host": "h"}
    times = {"queue": 0, "local": 3e6, "remote": 5e6, "throttle": 0, "total": 8e6, "blamed": 3e6}
    loads = {"requests": 20, "busy_ns": busy_ns, "throttle_ns": throttle_ns}
    return json.dumps(
        {
            "window_s": 10,
            "requests": [{**who, "name": "Fetch", "at_ms": at_ms, **times, "client_id": None}],
            "clients": [{**who, "principal": "User:a", **loads}],
            "rebalances": [{"group_id": "g", "reason": reason, "at_ms": at_ms}],
        }
    )


def test_clients_of_all_endpoints_are_sorted_by_the_work_for_them() -> None:
    with (
        served(answer(busy_ns=1e9), "/slow") as first,
        served(answer(busy_ns=3e9), "/slow") as second,
    ):
        found = observed_by([first, second])
    assert found.trouble is None
    assert found.clients == [
        ObservedClient("c", "User:a", "h", 2.0, 30.0, 0.0),
        ObservedClient("c", "User:a", "h", 2.0, 10.0, 0.0),
    ]


def test_throttled_clients_are_sorted_by_their_delay() -> None:
    with (
        served(answer(throttle_ns=1e9), "/slow") as first,
        served(answer(), "/slow") as second,
        served(answer(throttle_ns=2e9), "/slow") as third,
    ):
        found = observed_by([first, second, third])
    assert [client.throttled_ms_per_s for client in found.throttled] == [200.0, 100.0]


def test_slowest_requests_say_where_their_time_went() -> None:
    with served(answer(), "/slow") as url:
        (request,) = observed_by([url]).slowest
    phases = {"queue": 0.0, "local": 3.0, "remote": 5.0, "throttle": 0.0}
    assert request == SlowestRequest("Fetch", "", "h", 5, 3.0, 8.0, phases)


def test_last_rebalance_of_a_group_is_the_latest_that_any_endpoint_has() -> None:
    left = answer(at_ms=7, reason="member m leaves")
    with served(left, "/slow") as newer, served(answer(), "/slow") as older:
        found = [observed_by([newer, older]), observed_by([older, newer])]
    for each in found:
        assert each.rebalances == {"g": LastRebalance(7, "member m leaves")}


def test_path_of_the_metrics_is_no_part_of_the_address() -> None:
    with served(answer(), "/slow") as url:
        assert url.endswith("/metrics")
        for given in (url, f"{url}/", url.removesuffix("/metrics")):
            assert observed_by([given]).trouble is None


@pytest.mark.parametrize(
    "text", ["[]", '{"rebalances": [{}]}', '{"clients": 3, "window_s": 1}', "no JSON"]
)
def test_endpoint_that_says_something_else_is_told_and_others_count(text: str) -> None:
    with served(text, "/slow") as other, served(answer(), "/slow") as own:
        found = observed_by([other, own])
    assert found.rebalances.keys() == {"g"}
    assert found.trouble is not None


def test_endpoint_without_observations_is_told() -> None:
    with served("kafka_metric 1") as url:
        found = observed_by([url])
    assert found.rebalances == {}
    assert "404" in (found.trouble or "")
