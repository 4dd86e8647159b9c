"""Which clients are the busiest, and for how long."""

from __future__ import annotations

from kwire.server.metrics.clients import (
    KEPT_MAX,
    LISTED_MAX,
    OTHERS,
    BusyClients,
    ClientKey,
    ClientLoad,
)
from kwire.server.metrics.distribution import SLICES


def client(number: int) -> ClientKey:
    return ClientKey(f"app-{number}", "User:ANONYMOUS", "127.0.0.1")


def test_busiest_client_is_first_and_the_list_is_bounded() -> None:
    clients = BusyClients()
    for number in range(LISTED_MAX + 20):
        clients.add(client(number), ClientLoad(requests=1, busy_ns=number))
    clients.add(client(3), ClientLoad(requests=2, bytes_in=5, bytes_out=6, busy_ns=10_000))
    listed = clients.busiest()
    assert len(listed) == LISTED_MAX
    assert listed[0] == (client(3), ClientLoad(3, 5, 6, 10_003))
    assert listed[1][0] == client(LISTED_MAX + 19)
    assert clients.busiest(1) == listed[:1]


def test_clients_above_the_limit_count_as_others() -> None:
    clients = BusyClients()
    for number in range(KEPT_MAX + 3):
        clients.add(client(number), ClientLoad(busy_ns=1))
    assert clients.busiest()[0] == (OTHERS, ClientLoad(busy_ns=3))


def test_load_leaves_the_window_with_its_slice() -> None:
    clients = BusyClients()
    clients.add(client(1), ClientLoad(requests=1))
    for _ in range(SLICES - 1):
        clients.turn()
    clients.add(client(1), ClientLoad(requests=1))
    assert clients.busiest()[0][1].requests == 2
    clients.turn()
    assert clients.busiest()[0][1].requests == 1
