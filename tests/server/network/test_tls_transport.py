"""What goes through TLS comes out as it was, whatever room the socket has."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kwire.server.tls.transport import TlsTransport
from tests.security.tls.authority import Authority

SIZE = 1_000_000
BEGIN = 1000
"""Where in its file it begins."""


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[TlsTransport, TlsTransport]]:
    """A server and its client, whose handshake is done."""
    authority = Authority()
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(authority.issue().write_pem(tmp_path / "own.pem"))
    trusting = ssl.create_default_context(cadata=authority.pem)
    left, right = socket.socketpair()
    with left, right:
        for each in (left, right):
            each.setblocking(False)
        server, client = TlsTransport(left, own), TlsTransport(right, trusting, "localhost")
        shake_hands(server, client)
        yield server, client


def shake_hands(*sides: TlsTransport) -> None:
    while any(side.tls.version() is None for side in sides):
        for side in sides:
            with suppress(BlockingIOError):
                side.take_in()
            with suppress(ssl.SSLWantReadError):
                side.tls.do_handshake()
            side.push()


def through(client: TlsTransport, send: Callable[[int], int]) -> bytes:
    """All that comes of `send`, which begins behind so many bytes, and says how many it sent."""
    sent, came, view = 0, bytearray(), memoryview(bytearray(100_000))
    while len(came) < SIZE:
        if sent < SIZE:
            with suppress(BlockingIOError):
                count = send(sent)
                assert 0 < count <= SIZE - sent
                sent += count
        with suppress(BlockingIOError):
            came += view[: client.recv_into(view)]
    return bytes(came)


def test_tls_transport_sends_a_part_of_a_file(
    both: tuple[TlsTransport, TlsTransport], tmp_path: Path
) -> None:
    server, client = both
    data = random.Random(1).randbytes(BEGIN + SIZE + 77)
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as file:
        number = file.fileno()
        found = through(client, lambda sent: server.send_file(number, BEGIN + sent, SIZE - sent))
        assert found == data[BEGIN : BEGIN + SIZE]


def test_bytes(both: tuple[TlsTransport, TlsTransport]) -> None:
    server, client = both
    data = random.Random(2).randbytes(SIZE)
    assert through(client, lambda sent: server.send(memoryview(data)[sent:], 0)) == data
