"""The replies that one connection still has to send: bytes by `send`, file regions by `sendfile`.

Nothing here waits.  `flush` sends as much as the kernel takes.  The connection then waits for more
room, or lets a thread read the piece in `cold` from disk, and calls `flush` again.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.log import Region
from kwire.requests.context import InvalidFrame

if TYPE_CHECKING:
    from kwire.codecs.primitives import Buffer, Frame
    from kwire.server.network.transport import Transport

_READ_IN_MAX = 16 * 1024
"""The largest file region that is read into memory and sent with the bytes around it.  Up to this
size one read and one send cost less than a sendfile between two sends, and wake the client once."""

_GATHERED_MAX = 64 * 1024
"""The most bytes that are copied together for one send."""

_WINDOW_BYTES = 1024 * 1024
"""The piece of a file that a thread reads into memory: small enough that it is still there when it
is sent."""

_SENT_AT_ONCE = 256 * 1024
"""How much the loop sends at once, some 150 us of work.  If others wait then, they are served
before it sends more."""

_SENDS_AT_ONCE = _SENT_AT_ONCE // _GATHERED_MAX
"""After how many sends others that wait are served."""

_MORE: int = getattr(socket, "MSG_MORE", 0)  # Linux: do not send half a packet before the file

_BUFFERS = (bytes, bytearray, memoryview)


class ColdPiece(NamedTuple):
    """A piece of a file region, from `start` on, that is not in the page cache."""

    region: Region
    start: int
    size_bytes: int

    def read_in(self) -> None:
        """Read the piece into the page cache.  It blocks, so a thread calls it."""
        self.region.read_in(self.start, self.size_bytes)


class Others(Protocol):
    """The other connections of the broker."""

    @property
    def is_one_alone(self) -> bool:
        """Whether there was no request of another one lately."""

    def others_wait(self) -> bool:
        """Whether one of them has sent something that is not read yet."""


_NOTHING: deque[Buffer | Region] = deque()
"""Shared by all empty outboxes, and never filled: a deque takes 760 bytes, and most connections are
idle."""


class Outbox:
    """The bytes and file regions that one connection still has to send; true if there are any.

    size_bytes   bytes that were put in memory since the outbox was last empty
    cold         the piece of a file that a thread has to read before `flush` can go on, or None
    paused       whether the last `flush` has stopped only because other connections wait
    """

    __slots__ = (
        "_file_sent",
        "_others",
        "_pieces",
        "_transport",
        "cold",
        "paused",
        "size_bytes",
    )

    def __init__(self, transport: Transport, others: Others) -> None:
        self._transport = transport
        self._others = others
        self.paused = False
        self._pieces = _NOTHING
        self._file_sent = 0  # bytes sent of the first piece, if that is a file region
        self.size_bytes = 0
        self.cold: ColdPiece | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def send(self, data: bytes | bytearray) -> bool:
        """Send `data`, at once if the outbox is empty.  False if some of it is still to be sent."""
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
        """Add a reply for the next `flush`: its bytes, with its file regions at their positions."""
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
        """Add a file region: small ones in memory as bytes, others for `sendfile`."""
        size_bytes = region.size_bytes
        if size_bytes <= _READ_IN_MAX and region.is_resident(0, size_bytes):
            self.keep(region.read())
        else:
            self._own_pieces().append(region)

    def keep(self, data: Buffer) -> None:
        """Add bytes for the next `flush`."""
        pieces = self._pieces
        if pieces is _NOTHING:
            pieces = self._own_pieces()
        pieces.append(data)
        self.size_bytes += len(data)

    def _own_pieces(self) -> deque[Buffer | Region]:
        """The pieces of this outbox alone, to which some may be added."""
        if self._pieces is _NOTHING:
            self._pieces = deque()
        return self._pieces

    def shrink(self) -> None:
        """Return the memory of an empty outbox; the connection is idle."""
        if not self._pieces:
            self._pieces = _NOTHING

    def flush(self) -> bool:
        """Send as much as the kernel takes.  False if something is still to be sent.

        Raises OSError if the client is gone.  Raises InvalidFrame if a file is shorter than its
        region: the reply's size is sent already, so the connection can only be closed.
        """
        pieces = self._pieces
        self.paused = False
        sends = 0
        while pieces:
            first = pieces[0]
            if not (self._send_file(first) if isinstance(first, Region) else self._send_bytes()):
                return False
            if pieces:
                sends += 1
                if sends % _SENDS_AT_ONCE == 0 and self._others.others_wait():
                    self.paused = True
                    return False
        self.size_bytes = 0
        return True

    def _send_bytes(self) -> bool:
        """Send the bytes up to the next file region; return False if some are left.

        What the socket does not take becomes the first piece again. `_MORE` tells the kernel that
        more follows, so it fills packets.
        """
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
        """Remove the first pieces, up to the next file region; returns them for one send."""
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
        """Send the file region by `sendfile`; return False if some of it is left.

        A part that is not in the page cache becomes `cold`: a read from disk would block the loop.
        Raises InvalidFrame if the file is too short, because the announced length is already sent.
        """
        file = region.fileno()
        at_once = _WINDOW_BYTES if self._others.is_one_alone else _SENT_AT_ONCE
        while (left := region.size_bytes - self._file_sent) > 0:
            start, window = self._file_sent, min(left, at_once)
            if not region.is_resident(start, window):
                self.cold = ColdPiece(region, start, min(left, _WINDOW_BYTES))
                return False
            position = region.position + start
            try:
                sent = self._transport.send_file(file, position, window)
            except BlockingIOError:
                return False
            if sent == 0:
                raise InvalidFrame(f"segment is {left} bytes shorter than promised")
            self._file_sent += sent
            if sent < window:  # the socket's buffer is full, so another call would block
                return False
            if window < left and self._others.others_wait():
                self.paused = True
                return False
        self._file_sent = 0
        self._pieces.popleft()
        return True
