"""The transport of a connection: it moves bytes to and from the socket, plain or inside TLS.

`PlainTransport` is the socket itself.  `kwire.server.tls.transport.TlsTransport` encrypts.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Protocol

from kwire.codecs.primitives import Buffer


class Transport(Protocol):
    """Reads and writes the bytes of one connection.

    Nothing waits: each function raises BlockingIOError where it would have to.  Each raises OSError
    when the other side is gone.
    """

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Read into a buffer; returns the number of bytes, 0 when the other side has closed."""

    @property
    def send(self) -> Callable[[Buffer, int], int]:
        """Send bytes with the flags of socket.send; returns how many of them were taken."""

    def send_file(self, file: int, position: int, size_bytes: int) -> int:
        """Send a piece of a file; returns the number of bytes, 0 at the end of the file."""

    def peek(self, size_bytes: int) -> bytes:
        """Bytes that arrived and were not read; they stay unread.  Empty inside TLS."""

    def fileno(self) -> int:
        """The descriptor to wait for, to read and to write."""

    def close(self) -> None: ...


class PlainTransport:
    """The socket, whose own functions are called directly: a wrapper would cost a call a read."""

    __slots__ = ("_socket", "recv_into", "send")

    def __init__(self, client: socket.socket) -> None:
        self._socket = client
        self.recv_into: Callable[[memoryview], int] = client.recv_into
        self.send: Callable[[Buffer, int], int] = client.send

    def send_file(self, file: int, position: int, size_bytes: int) -> int:
        return os.sendfile(self._socket.fileno(), file, position, size_bytes)

    def peek(self, size_bytes: int) -> bytes:
        return self._socket.recv(size_bytes, socket.MSG_PEEK)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
