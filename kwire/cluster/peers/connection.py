"""PeerConnection: one TCP connection to another broker; replies come in the order of requests.

The connection has no task of its own.  One of the waiting callers reads replies for all of them;
when its own reply has come, the next caller reads on.  So a single caller, such as a fetcher, costs
no task switch.  The reply to a cancelled call is read by a later caller, and dropped.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.client.connection import (
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    REPLY_SIZE_BYTES_MAX,
    Request,
    api_key_of,
    decode_api_versions,
    reason_of,
)
from kwire.cluster.peers.error import PeerError
from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import response_class
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, EncodeError

if TYPE_CHECKING:
    from kwire.server.tls.transport import TlsTransport

_SIZE = Struct(">i")
_BUFFER_BYTES: Final = 64 * 1024
"""Size of the receive buffer.  A larger reply is received into a buffer of its own."""


class _Pending:
    """A request that was sent; `reply` is set once it has been read."""

    __slots__ = ("api_key", "correlation_id", "reply", "turn", "version")

    def __init__(self, correlation_id: int, api_key: int, version: int) -> None:
        """`version` is the request's version; its reply is decoded in the same one."""
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.version = version
        self.reply: Any = None
        self.turn: trio.Event | None = None
        """Wakes the caller: its reply has been read, or it is the caller's turn to read."""


class PeerTraffic:
    """What connections to another broker have carried since the start.

    opened, failed  connections that were opened, and attempts that failed
    requests        requests that were sent, those of opening connections included
    bytes_out       bytes of requests, inside TLS
    bytes_in        bytes of responses
    """

    __slots__ = ("bytes_in", "bytes_out", "failed", "opened", "requests")

    def __init__(self) -> None:
        self.opened = 0
        self.failed = 0
        self.requests = 0
        self.bytes_out = 0
        self.bytes_in = 0


_ABORT: Final = Struct("ii").pack(1, 0)
"""SO_LINGER value that makes close() reset the connection and drop unsent bytes."""


class PeerConnection:
    """See the module.  Any failure closes the connection and fails all waiting calls."""

    def __init__(
        self,
        client: socket.socket | TlsTransport,
        peer_name: str,
        client_id: str,
        traffic: PeerTraffic,
    ) -> None:
        """`client` is connected; call `negotiate` before the first request.

        What it carries is added to `traffic`.
        """
        self._traffic = traffic
        self.peer_name = peer_name
        self.versions: dict[int, tuple[int, int]] = {}
        self.failure: PeerError | None = None
        self._socket = client
        self._client_id = client_id
        self._sending = trio.Lock()
        self._reading = False
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._buffer = bytearray(_BUFFER_BYTES)
        self._filled = 0
        # A frame that is larger than the buffer, while it is received.
        self._large: memoryview | None = None
        self._large_filled = 0

    @property
    def idle(self) -> bool:
        """Whether no call waits for a reply."""
        return not self._pending

    @property
    def has_broken(self) -> bool:
        """Whether the other broker closed the connection while a call waits, before the call
        notices; False inside TLS."""
        if self.idle or not isinstance(self._socket, socket.socket):
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def version_for(self, request: Request, version_max: int | None) -> int:
        """The highest version that both brokers support, at most `version_max`.

        Raises PeerError if there is none.
        """
        api_key = api_key_of(request)
        low, high = self.versions.get(api_key, (0, -1))
        high = min(high, request.MAX_VERSION)
        if version_max is not None:
            high = min(high, version_max)
        if high < max(low, request.MIN_VERSION):
            api_name = ApiKey(api_key).name
            raise PeerError(
                self.peer_name, f"no version of {api_name} is supported by both brokers"
            )
        return high

    async def negotiate(self) -> None:
        """Gets the API versions that the other broker supports (ApiVersions).

        An older broker refuses the version of this request and names those that it supports.
        """
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME,
            client_software_version=CLIENT_SOFTWARE_VERSION,
        )
        version = ApiVersionsRequest.MAX_VERSION
        while True:
            reply = await self.call(request, version)
            ranges = {key.api_key: (key.min_version, key.max_version) for key in reply.api_keys}
            if reply.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                version = min(version - 1, ranges.get(ApiKey.API_VERSIONS, (0, 0))[1])
                continue
            if reply.error_code:
                raise self.fail(f"ApiVersions was refused ({reply.error_code})")
            self.versions = ranges
            return

    async def call(self, request: Request, version: int) -> Any:  # noqa: ANN401 - the request's
        """Sends `request` and returns its reply.  Raises PeerError."""
        try:
            self._sending.acquire_nowait()  # the usual case, without a task switch
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            pending = await self._send(request, version)
        finally:
            self._sending.release()
        try:
            while self._reading and pending.reply is None and self.failure is None:
                pending.turn = trio.Event()
                await pending.turn.wait()
            if pending.reply is None:
                await self._read_until(pending)
        finally:
            # This call may have been cancelled when it was its turn to read: wake the next one.
            pending.turn = None
            if self._pending and not self._reading:
                self._wake_next_reader()
        return pending.reply

    def fail(self, why: str) -> PeerError:
        """Close the connection; waiting and later calls raise the returned PeerError."""
        if self.failure is None:
            self.failure = PeerError(self.peer_name, why)
            trio.lowlevel.notify_closing(self._socket)  # wakes tasks that wait for the socket
            if self._pending:
                # Callers send unanswered requests again, on another connection.  The other broker
                # must not receive the first copy after those: drop what was not sent.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            self._socket.close()
            pending, self._pending = self._pending, deque()
            for request in pending:
                if request.turn is not None:
                    request.turn.set()
        return self.failure

    # -- sending

    async def _send(self, request: Request, version: int) -> _Pending:
        """Sends a request and returns its entry in the queue of pending requests.

        Raises PeerError.  If a request was sent in part, the connection is closed: the other broker
        could not find the start of the next request.
        """
        if self.failure is not None:
            raise self.failure
        api_key = api_key_of(request)
        # Correlation ids are positive 32-bit numbers.
        self._next_correlation_id = self._next_correlation_id + 1 & 0x7FFFFFFF
        header = RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=self._next_correlation_id,
            client_id=self._client_id,
        ).encode(request_header_version(api_key, version))
        try:
            body = request.encode(version)
        except EncodeError as error:  # nothing was sent: the connection stays usable
            raise PeerError(self.peer_name, str(error)) from error
        frame = b"".join((_SIZE.pack(len(header) + len(body)), header, body))
        self._traffic.requests += 1
        self._traffic.bytes_out += len(frame)
        pending = _Pending(self._next_correlation_id, api_key, version)
        # Before sending: the reply may arrive while this task still sends.
        self._pending.append(pending)
        try:
            await self._send_all(frame)
        except trio.Cancelled:
            self.fail("a call was cancelled while its request was being sent")
            raise
        except OSError as error:
            raise self.fail(reason_of(error)) from error
        return pending

    async def _send_all(self, frame: bytes) -> None:
        """Sends all bytes of a frame, waiting whenever the socket's buffer is full.

        Raises OSError.
        """
        sent = 0
        while True:
            try:
                sent += self._socket.send(memoryview(frame)[sent:], 0)
            except BlockingIOError:
                await self._until(trio.lowlevel.wait_writable)
            if sent == len(frame):
                return

    # -- receiving

    async def _read_until(self, wanted: _Pending) -> None:
        """Reads replies, for any of the waiting calls, until that of `wanted` is read.

        Raises PeerError.
        """
        self._check_open()
        self._reading = True
        try:
            while wanted.reply is None:
                self._check_open()
                frame = self._next_frame()
                if frame is not None:
                    self._match_reply(frame)
                else:
                    await self._receive()
        except OSError as error:
            raise self.fail(reason_of(error)) from error
        except DecodeError as error:
            raise self.fail(f"its reply is not valid Kafka protocol ({error})") from error
        finally:
            self._reading = False

    async def _receive(self) -> None:
        """Waits for bytes from the socket and appends them to the buffer.

        A frame that is too large for the buffer is received into its own.  Raises OSError.
        """
        if self._large is not None:
            into = self._large[self._large_filled :]
        else:
            into = memoryview(self._buffer)[self._filled :]
        while True:
            try:
                count = self._socket.recv_into(into)
                break
            except BlockingIOError:
                await self._until(trio.lowlevel.wait_readable)
        if count == 0:
            raise ConnectionResetError("the other broker closed the connection")
        self._traffic.bytes_in += count
        if self._large is not None:
            self._large_filled += count
        else:
            self._filled += count

    def _next_frame(self) -> memoryview | None:
        """Return the next complete reply without its size field; None if bytes are missing."""
        large = self._large
        if large is not None:
            if self._large_filled < len(large):
                return None
            self._large = None
            return large
        filled = self._filled
        if filled < 4:
            return None
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 4 <= size <= REPLY_SIZE_BYTES_MAX:
            raise DecodeError(
                f"a reply has {size} bytes, but must have 4 to {REPLY_SIZE_BYTES_MAX} bytes"
            )
        if filled >= 4 + size:
            frame = self._buffer[4 : 4 + size]
            rest = self._buffer[4 + size : filled]
            self._buffer[: len(rest)] = rest
            self._filled = len(rest)
            return memoryview(frame)
        if 4 + size > _BUFFER_BYTES:
            self._large = memoryview(bytearray(size))
            self._large[: filled - 4] = memoryview(self._buffer)[4:filled]
            self._large_filled, self._filled = filled - 4, 0
        return None

    def _match_reply(self, frame: memoryview) -> None:
        """Decodes a reply and hands it to the oldest request without a reply.

        Raises DecodeError if its correlation id is that of another request.
        """
        if not self._pending:
            raise DecodeError("a reply without a request")
        pending = self._pending.popleft()
        api_key, version = pending.api_key, pending.version
        header, position = ResponseHeader.read(frame, response_header_version(api_key, version), 0)
        if header.correlation_id != pending.correlation_id:
            raise DecodeError("the reply to another request")
        # A broker that does not know the version replies to ApiVersions in version 0.
        if api_key == ApiKey.API_VERSIONS:
            pending.reply = decode_api_versions(bytearray(frame), version, position)
        else:
            pending.reply = response_class(api_key).decode(frame, version, position)
        if pending.turn is not None:
            pending.turn.set()

    def _wake_next_reader(self) -> None:
        """Let the next waiting call read replies."""
        for pending in self._pending:
            if pending.turn is not None:
                pending.turn.set()
                return

    async def _until(
        self, ready: Callable[[socket.socket | TlsTransport], Awaitable[None]]
    ) -> None:
        """Waits until the socket is ready.  Raises PeerError if it is closed meanwhile."""
        with suppress(trio.ClosedResourceError):  # `_check_open` raises the reason
            await ready(self._socket)
        self._check_open()

    def _check_open(self) -> None:
        if self.failure is not None:
            raise self.failure
