"""Replies on their way into one socket: bytes by `send`, pieces of files by `sendfile`, in order.

Nothing here waits.  `flush` sends what the kernel has room for; whoever holds the connection
waits for more room, or has a thread read in what is `cold`, and calls it again.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kwire.log import Region
from kwire.requests.context import InvalidFrame

if TYPE_CHECKING:
    from kwire.codecs.primitives import Buffer, Frame
    from kwire.server.network.transport import Transport

_READ_IN_MAX = 16 * 1024
"""Bytes of a file region that are read and sent with what surrounds them: up to here one read and
one send cost less than a sendfile between two sends, and the client is woken once."""

_GATHERED_MAX = 64 * 1024
"""Bytes copied together for one send."""

_WINDOW_BYTES = 1024 * 1024
"""Of a file, looked at and sent in one go: what was in memory a moment ago still is."""

_MORE: int = getattr(socket, "MSG_MORE", 0)  # Linux: do not send half a packet before the file

_BUFFERS = (bytes, bytearray, memoryview)


class ColdPiece(NamedTuple):
    """Bytes of a file, from `start` in `region` on, that are not in memory."""

    region: Region
    start: int
    size_bytes: int

    def read_in(self) -> None:
        """Wait for the disk; for a thread."""
        self.region.read_in(self.start, self.size_bytes)


_NOTHING: deque[Buffer | Region] = deque()
"""Of all that have nothing to send, and stays empty: a deque takes 760 bytes, and most idle."""


class Outbox:
    """What one connection still has to send; true while there is something.

    `size_bytes` counts the bytes held in memory since it was last empty.  `cold` is the piece of a
    file that must be read from disk before the rest can be sent.
    """

    __slots__ = ("_file_sent", "_pieces", "_transport", "cold", "size_bytes")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pieces = _NOTHING
        self._file_sent = 0  # of the first piece, when it is a file's
        self.size_bytes = 0
        self.cold: ColdPiece | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def send(self, data: bytes | bytearray) -> bool:
        """Send `data` at once if nothing is before it; whether all of it is on its way."""
        if self._pieces:
            self.keep(data)
            return self.flush()
        try:
            sent = self._transport.send(data, 0)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self.keep(memoryview(data)[sent:])
        return False

    def put(self, frame: Frame) -> None:
        """Have `frame` sent by the next `flush`, its regions at their places."""
        if not frame.regions:
            self.keep(frame)
            return
        view = memoryview(frame)
        position = 0
        for at, region in frame.regions:
            if position < at:
                self.keep(view[position:at])
            position = at
            if isinstance(region, _BUFFERS):
                self.keep(region)
            else:
                assert isinstance(region, Region)
                self._put_region(region)
        if position < len(view):
            self.keep(view[position:])

    def _put_region(self, region: Region) -> None:
        size_bytes = region.size_bytes
        if size_bytes <= _READ_IN_MAX and region.is_resident(0, size_bytes):
            self.keep(region.read())
        else:
            self._begun().append(region)

    def keep(self, data: Buffer) -> None:
        """Have `data` sent by the next `flush`."""
        pieces = self._pieces
        if pieces is _NOTHING:
            pieces = self._begun()
        pieces.append(data)
        self.size_bytes += len(data)

    def _begun(self) -> deque[Buffer | Region]:
        """The pieces, where more are coming."""
        if self._pieces is _NOTHING:
            self._pieces = deque()
        return self._pieces

    def shrink(self) -> None:
        """Nothing will be sent for a while: give back what only that needs."""
        if not self._pieces:
            self._pieces = _NOTHING

    def flush(self) -> bool:
        """Send what there is room for; whether that was everything.

        Raises OSError where the client is gone, InvalidFrame where a file is shorter than what was
        promised of it: only closing is honest then.
        """
        pieces = self._pieces
        while pieces:
            first = pieces[0]
            if not (self._send_file(first) if isinstance(first, Region) else self._send_bytes()):
                return False
        self.size_bytes = 0
        return True

    def _send_bytes(self) -> bool:
        data = self._gather()
        try:
            sent = self._transport.send(data, _MORE if self._pieces else 0)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._pieces.appendleft(memoryview(data)[sent:])
        return False

    def _gather(self) -> Buffer:
        """The bytes at the front, as many as go into one send."""
        pieces = self._pieces
        first = pieces.popleft()
        assert not isinstance(first, Region)
        gathered, size_bytes = [first], len(first)
        while pieces and size_bytes < _GATHERED_MAX:
            piece = pieces[0]
            if isinstance(piece, Region):
                break
            gathered.append(piece)
            size_bytes += len(piece)
            pieces.popleft()
        return first if len(gathered) == 1 else b"".join(gathered)

    def _send_file(self, region: Region) -> bool:
        file = region.fileno()
        while (left := region.size_bytes - self._file_sent) > 0:
            start, window = self._file_sent, min(left, _WINDOW_BYTES)
            if not region.is_resident(start, window):
                self.cold = ColdPiece(region, start, window)
                return False
            position = region.position + start
            try:
                sent = self._transport.send_file(file, position, window)
            except BlockingIOError:
                return False
            if sent == 0:
                raise InvalidFrame(f"segment is {left} bytes shorter than promised")
            self._file_sent += sent
            if sent < window:  # the socket's buffer is full: trying again would only be refused
                return False
        self._file_sent = 0
        self._pieces.popleft()
        return True
