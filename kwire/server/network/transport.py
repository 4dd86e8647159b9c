"""What lies between a connection and its socket: the bytes as they are, or one day inside TLS."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Protocol

from kwire.codecs.primitives import Buffer


class Transport(Protocol):
    """One connection's bytes, both ways.  Nothing waits: BlockingIOError where it would have to.

    All raise OSError where the other side is gone.
    """

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Read into a buffer; how many bytes came, 0 when the other side has ended."""

    @property
    def send(self) -> Callable[[Buffer, int], int]:
        """Send (bytes, flags as of socket.send); how many bytes of them are on their way."""

    def send_file(self, file: int, position: int, size_bytes: int) -> int:
        """Send a piece of a file; as `send`, and 0 where the file has ended."""

    def peek(self, size_bytes: int) -> bytes:
        """What has come and was not read; it stays.  Empty where that cannot be told."""

    def fileno(self) -> int:
        """What is waited for, to read and to write."""

    def close(self) -> None: ...


class PlainTransport:
    """The socket itself: its own functions, not one call more."""

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
