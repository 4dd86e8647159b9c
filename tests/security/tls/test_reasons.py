"""What is said of a handshake that fails."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest

from kwire.security.tls.error import reason_of


def test_reason_of_a_connection_closed_in_the_handshake() -> None:
    """Python calls it by different names; none of them is for whoever set TLS up."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as thread:

        def take_and_close() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)

        closing = thread.submit(take_and_close)
        with (
            socket.create_connection(server.getsockname()) as plain,
            pytest.raises((ssl.SSLEOFError, ssl.SSLZeroReturnError)) as raised,
        ):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        closing.result()
    assert reason_of(raised.value, "its") == "the connection was closed"
