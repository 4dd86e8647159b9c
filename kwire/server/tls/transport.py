"""One connection's bytes inside TLS: OpenSSL between two pieces of memory, the socket beside them.

OpenSSL could have the socket itself.  It then asks the kernel twice for each record of 16 kB and
cannot be told of MSG_MORE; the throughput is the same (some 1.2 GB/s in and out on one core).
Kernel TLS would let `sendfile` go on: it needs the kernel's module `tls`, and OpenSSL to have the
socket.

What is different from plain bytes:

- Bytes may have come that no poll of the socket tells of, for they were read with those before
  them: `more`.
- What was encrypted has to go out as it is.  Where the socket has no room, `send` says that nothing
  was sent, keeps the encrypted form, and counts the piece as sent once that is gone: whoever sends
  begins with the same bytes again.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from kwire.codecs.primitives import Buffer

READ_BYTES: Final = 256 * 1024
"""Read from a socket at once, as of a plain connection."""

_PIECE_BYTES: Final = 64 * 1024
"""Encrypted before it is sent: four records of TLS.  What is held for a client that does not read
is as much, and some 100 bytes for each record."""

_READ: Final = memoryview(bytearray(READ_BYTES))
"""What all connections read into: it is handed to OpenSSL before anybody else has a turn."""

_NOTHING: Final = memoryview(b"")


class TlsTransport:
    """See the module, and `Transport` for what each function is to do."""

    __slots__ = ("_incoming", "_outgoing", "_pledged", "_read", "_socket", "_unsent", "more", "tls")

    def __init__(
        self, client: socket.socket, context: ssl.SSLContext, host: str | None = None
    ) -> None:
        """`host` is whom this side has connected to; None for a client that was accepted."""
        self._socket = client
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unsent = _NOTHING
        self._pledged = 0  # of the bytes that are being sent, those that `_unsent` stands for
        self.tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._read = cast(Callable[[int, memoryview], int], self.tls.read)  # any buffer will do
        self.more = False
        """Whether bytes may be there to read of which the socket knows nothing."""

    # -- reading

    def recv_into(self, view: memoryview) -> int:
        if not self.more and not self.take_in():
            return 0
        filled = self._decrypt(view)
        if self._outgoing.pending:  # a change of keys is answered
            self.push()
        if filled is None:
            return 0
        if not filled:
            raise BlockingIOError
        return filled

    def take_in(self) -> memoryview:
        """Read what has come, encrypted; empty when the other side has ended.  Valid until the
        next connection reads."""
        received = _READ[: self._socket.recv_into(_READ)]
        self._incoming.write(received)
        return received

    def _decrypt(self, view: memoryview) -> int | None:
        """Fill `view` as far as there is something; None when the other side has ended."""
        read, filled, room = self._read, 0, len(view)
        self.more = False
        try:
            while filled < room:
                count = read(room - filled, view[filled:])
                if not count:  # the other side's goodbye, which stays there to be read
                    self.more = bool(filled)
                    return filled or None
                filled += count
        except ssl.SSLWantReadError:
            return filled
        self.more = True
        return filled

    def peek(self, size_bytes: int) -> bytes:
        return b""

    # -- sending

    def send(self, data: Buffer, flags: int) -> int:
        sent = self._redeem(flags)
        view = memoryview(data)
        while sent < len(view):
            piece = view[sent : sent + _PIECE_BYTES]
            if not self._send_piece(piece, flags):
                break
            sent += len(piece)
        return sent or self._blocked()

    def send_file(self, file: int, position: int, size_bytes: int) -> int:
        sent = self._redeem(0)
        while sent < size_bytes:
            piece = os.pread(file, min(_PIECE_BYTES, size_bytes - sent), position + sent)
            if not piece:
                return sent
            if not self._send_piece(piece, 0):
                break
            sent += len(piece)
        return sent or self._blocked()

    def _redeem(self, flags: int) -> int:
        """How many of the bytes to be sent went out with what was kept; raises if not all did."""
        if self._unsent and not self.push(flags):
            raise BlockingIOError
        pledged, self._pledged = self._pledged, 0
        return pledged

    def _send_piece(self, piece: Buffer, flags: int) -> bool:
        """Encrypt and send; False where the socket has no room, and the encrypted form is kept."""
        self.tls.write(piece)
        if self.push(flags):
            return True
        self._pledged = len(piece)
        return False

    def _blocked(self) -> int:
        raise BlockingIOError

    def push(self, flags: int = 0) -> bool:
        """Send what is encrypted; whether that was all."""
        while self._unsent or self._outgoing.pending:
            unsent = self._unsent or memoryview(self._outgoing.read())
            try:
                count = self._socket.send(unsent, flags)
            except BlockingIOError:
                count = 0
            self._unsent = unsent[count:]
            if self._unsent:
                return False
        return True

    # -- the rest

    def fileno(self) -> int:
        return self._socket.fileno()

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Of the socket below."""
        self._socket.setsockopt(level, option, value)

    def close(self) -> None:
        """Say goodbye, if that can be said at once."""
        with suppress(OSError):  # the other side has gone, or does not answer it now
            self.tls.unwrap()
        with suppress(OSError):
            self.push()
        self._socket.close()
