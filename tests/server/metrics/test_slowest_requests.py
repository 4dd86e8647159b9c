"""Which requests are among the slowest, and for how long."""

from __future__ import annotations

from kwire.server.metrics.distribution import SLICES
from kwire.server.metrics.slowest import KEPT_MAX, SlowestRequests, SlowRequest


def slow(total: int, name: str = "Produce", remote: int = 0, throttle: int = 0) -> SlowRequest:
    return SlowRequest(
        at_ms=1,
        name=name,
        version=9,
        client_id="app",
        principal="User:ANONYMOUS",
        client_host="127.0.0.1",
        connection_id="c",
        request_bytes=10,
        response_bytes=20,
        queue=0,
        local=total - remote - throttle,
        remote=remote,
        throttle=throttle,
        total=total,
    )


def test_slowest_requests_are_listed_first_and_bounded() -> None:
    slowest = SlowestRequests()
    for total in range(2 * KEPT_MAX):
        slowest.note(slow(total))
    totals = [request.total for request in slowest.listed()]
    assert totals == list(range(2 * KEPT_MAX - 1, KEPT_MAX - 1, -1))
    assert slowest.floor == KEPT_MAX


def test_a_wait_that_the_client_asked_for_does_not_make_a_request_slow() -> None:
    slowest = SlowestRequests()
    slowest.note(slow(500, "FetchConsumer", remote=495))
    slowest.note(slow(400, "Produce", remote=390))
    slowest.note(slow(300, "Produce", throttle=299))
    assert [request.blamed for request in slowest.listed()] == [400, 5, 1]


def test_slow_request_is_dropped_with_its_slice() -> None:
    slowest = SlowestRequests()
    slowest.note(slow(500))
    for _ in range(SLICES - 1):
        slowest.turn()
    assert slowest.listed()
    slowest.turn()
    assert not slowest.listed()
    assert slowest.floor == 0
