"""The transport inside TLS: OpenSSL works on two memory buffers, and this module on the socket.

OpenSSL could use the socket itself.  Then it makes two system calls for each record of 16 kB, and
cannot set MSG_MORE; the throughput is the same (some 1.2 GB/s in and out on one core).  Kernel TLS
would keep `sendfile`, but needs the kernel module `tls`, and OpenSSL on the socket.

Two differences from a plain transport:

- OpenSSL may hold decrypted bytes that no poll of the socket reports: see `more`.
- Encrypted bytes must be sent as they are.  If the socket has no room, `send` keeps the encrypted
  form of the piece and reports that nothing was sent.  The caller then sends the same bytes again,
  and the piece counts as sent when its encrypted form is sent.
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
"""The most bytes of one read, as on a plain connection."""

_PIECE_BYTES: Final = 64 * 1024
"""The bytes that are encrypted before a send: four TLS records.  A client that does not read makes
the broker hold as much, and some 100 bytes for each record."""

_READ: Final = memoryview(bytearray(READ_BYTES))
"""The buffer that all connections read into: OpenSSL copies it before another task runs."""

_NOTHING: Final = memoryview(b"")


class TlsTransport:
    """Encrypts and decrypts the bytes of one socket; see `Transport` for each function."""

    __slots__ = ("_incoming", "_outgoing", "_pledged", "_read", "_socket", "_unsent", "more", "tls")

    def __init__(
        self, client: socket.socket, context: ssl.SSLContext, host: str | None = None
    ) -> None:
        """`host` is the server that this side has connected to; None for an accepted client."""
        self._socket = client
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._unsent = _NOTHING
        self._pledged = 0  # the caller's bytes whose encrypted form is `_unsent`
        self.tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._read = cast(Callable[[int, memoryview], int], self.tls.read)  # any buffer will do
        self.more = False
        """Whether OpenSSL may hold bytes to read that the socket does not report."""

    # -- reading

    def recv_into(self, view: memoryview) -> int:
        """Read decrypted bytes into `view`; return their number, 0 when the other side has closed.

        Raises BlockingIOError if no whole TLS record has arrived yet.
        """
        if not self.more and not self.take_in():
            return 0
        filled = self._decrypt(view)
        if self._outgoing.pending:  # OpenSSL answers a key update
            self.push()
        if filled is None:
            return 0
        if not filled:
            raise BlockingIOError
        return filled

    def take_in(self) -> memoryview:
        """Read encrypted bytes and pass them to OpenSSL; empty when the other side has closed.

        The result is valid until the next read of any connection.
        """
        received = _READ[: self._socket.recv_into(_READ)]
        self._incoming.write(received)
        return received

    def _decrypt(self, view: memoryview) -> int | None:
        """Decrypt into `view`; returns the number of bytes, None when the other side has closed."""
        read, filled, room = self._read, 0, len(view)
        self.more = False
        try:
            while filled < room:
                count = read(room - filled, view[filled:])
                if not count:  # the other side's close_notify, which every later read returns, too
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
        """Encrypt and send `data`; return how many of its bytes are sent.

        Raises BlockingIOError if the socket takes none.
        """
        sent = self._redeem(flags)
        view = memoryview(data)
        while sent < len(view):
            piece = view[sent : sent + _PIECE_BYTES]
            if not self._send_piece(piece, flags):
                break
            sent += len(piece)
        return sent or self._blocked()

    def send_file(self, file: int, position: int, size_bytes: int) -> int:
        """Encrypt and send bytes of a file; return how many, fewer at the end of the file.

        TLS rules out `sendfile`, so the file is read in pieces. Raises BlockingIOError if the
        socket takes none.
        """
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
        """Send the encrypted bytes that were kept; returns how many of the caller's bytes they are.

        Raises BlockingIOError if the socket does not take all of them.
        """
        if self._unsent and not self.push(flags):
            raise BlockingIOError
        pledged, self._pledged = self._pledged, 0
        return pledged

    def _send_piece(self, piece: Buffer, flags: int) -> bool:
        """Encrypt and send a piece; False if the socket is full: the encrypted form is kept."""
        self.tls.write(piece)
        if self.push(flags):
            return True
        self._pledged = len(piece)
        return False

    def _blocked(self) -> int:
        raise BlockingIOError

    def push(self, flags: int = 0) -> bool:
        """Send encrypted bytes; False if the socket does not take all of them."""
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
        """Set an option of the socket below."""
        self._socket.setsockopt(level, option, value)

    def close(self) -> None:
        """Send close_notify, if the socket has room for it, and close the socket."""
        with suppress(OSError):  # the other side is gone, or does not answer at once
            self.tls.unwrap()
        with suppress(OSError):
            self.push()
        self._socket.close()
