"""Tests that damaged TLS handshakes and records disturb no other client and raise no error.

`KWIRE_HOSTILE_FRAMES` is the number of connections, by default some hundred.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.server.network.connection import Connection
from tests.inside import running_broker, until
from tests.security.tls.authority import Authority

CONNECTIONS = int(os.environ.get("KWIRE_HOSTILE_FRAMES", "300"))
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
PAUSE_S = 120.0
"""Limit for a broker to answer a valid request, or to close a damaged connection."""


class Client:
    """A TLS client in memory, whose bytes can be damaged before they are sent."""

    def __init__(self, context: ssl.SSLContext, plain: socket.socket) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.plain = plain

    def begin(self) -> bytes:
        """The first bytes of the handshake."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._out.read()

    def answer(self) -> bytes:
        """Its bytes after the broker's answer, which end the handshake."""
        while True:
            self._in.write(self.plain.recv(65536))
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            return self._out.read()

    def ask(self, count: int) -> bytes:
        self.tls.write(API_VERSIONS * count)
        return self._out.read()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data with one or two changes: bits, missing, inserted, repeated or random bytes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        piece = data[at : at + rng.randint(1, 40)]
        data = rng.choice(
            (
                data[:at] + rng.randbytes(1) + data[at + 1 :],
                data[:at],
                data[:at] + rng.randbytes(rng.randint(1, 40)) + data[at:],
                data[:at] + piece + data[at:],
                data[:at] + data[at + len(piece) :],
                rng.randbytes(rng.randint(1, 600)),
            )
        )
    return data


def attack(port: int, context: ssl.SSLContext, rng: random.Random) -> None:
    """Perform part of a TLS connection, at random, and continue with damaged bytes."""
    with socket.create_connection(("127.0.0.1", port), PAUSE_S) as plain:
        client = Client(context, plain)
        steps: list[Callable[[], bytes]] = [
            client.begin,
            client.answer,
            partial(client.ask, rng.randint(1, 50)),
        ]
        sound = rng.randrange(len(steps))
        for step in steps[:sound]:
            plain.sendall(step())
        plain.sendall(damaged(steps[sound](), rng))
        if rng.random() < 0.5:
            plain.shutdown(socket.SHUT_WR)
        plain.settimeout(0.01)
        try:
            while plain.recv(65536):
                """Reads an alert, or responses to requests before the damage."""
        except OSError:
            return  # it was closed hard, or it still waits for the rest


def is_served(port: int, context: ssl.SSLContext) -> bool:
    with (
        socket.create_connection(("127.0.0.1", port), PAUSE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as client,
    ):
        client.sendall(API_VERSIONS)
        return len(client.recv(4)) > 0


async def test_damaged_tls_disturbs_no_other_client(
    tmp_path: Path,
    rng: random.Random,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Connection] = []
    begin = Connection.begin

    def noted(
        self: Connection, nursery: trio.Nursery, on_end: Callable[[Connection], None]
    ) -> None:
        begun.append(self)
        begin(self, nursery, on_end)

    monkeypatch.setattr(Connection, "begin", noted)
    authority = Authority()
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue().write_pem(tmp_path / "own.pem")),
    }
    context = ssl.create_default_context(cadata=authority.pem)
    async with running_broker(tmp_path / "data", settings) as broker:
        port = broker.config.listeners[0].port
        for number in range(CONNECTIONS):
            await trio.to_thread.run_sync(attack, port, context, rng)
            if number % 100 == 99:
                assert await trio.to_thread.run_sync(is_served, port, context)
        await until(lambda: all(connection._transport.fileno() < 0 for connection in begun))
        assert len(begun) >= CONNECTIONS // 2
        assert await trio.to_thread.run_sync(is_served, port, context)
    assert "unhandled" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
