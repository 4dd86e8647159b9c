"""One TCP connection to one broker: frames, request versions, requests and their responses."""

from __future__ import annotations

import socket
import time
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from kwire import __version__
from kwire.client.errors import (
    BrokerUnreachable,
    ClientError,
    Misuse,
    ProtocolError,
    RequestTimedOut,
    UnsupportedRequest,
    WrongBroker,
)
from kwire.codecs.api_keys import ApiKey, request_header_version, response_header_version
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import response_class
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.request_header import RequestHeader
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, EncodeError

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

REPLY_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A larger size cannot be that of a Kafka response.  A Fetch response exceeds the requested size by
one batch at most, and "HTTP" read as a size is 1.2 GB."""

TLS_ALERT: Final = b"\x15\x03"
"""The first bytes of the alert by which a TLS listener refuses bytes that are not a handshake."""

CLIENT_SOFTWARE_NAME: Final = "kwire"
CLIENT_SOFTWARE_VERSION: Final = __version__

_SIZE = Struct(">i")


class Request(Protocol):
    """What all generated requests have in common."""

    API_KEY: ClassVar[int | None]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]

    def encode(self, version: int) -> bytes: ...


def api_key_of(request: Request) -> int:
    """The API key of a request."""
    assert request.API_KEY is not None, request
    return request.API_KEY


def address_text(host: str, port: int) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Destination(NamedTuple):
    """The broker that a client means to reach at an address."""

    cluster_id: str
    node_id: int


class Pending(NamedTuple):
    """A request that was sent and whose response has not been read."""

    correlation_id: int
    api_key: int
    version: int


class BrokerConnection:
    """A connection whose requests are answered one after the other, in order.

    Calls of `send` and `receive` may be pipelined; `call` does both.  Every failure closes the
    connection, since the next response would not belong to the next request.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: ClientSecurity | None = None,
        destination: Destination | None = None,
    ) -> None:
        """Connects, asks which API versions the broker serves, and logs in if `security` requires
        it.  Raises BrokerUnreachable or AuthenticationFailed.  `timeout_s` is in seconds.

        With a `destination`, raises WrongBroker if a broker that can check it is another one."""
        self.host = host
        self.port = port
        self.timeout_s = timeout_s
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """The finalized features at the time of the connection (KIP-584)."""
        self._client_id = client_id
        self._destination = destination
        self._pending: deque[Pending] = deque()
        self._next_correlation_id = 0
        self._protocol = "PLAINTEXT" if security is None else security.protocol
        self._is_served = False
        """Whether any request but ApiVersions has been answered."""
        self._socket = self._opened(security)
        self.closed = False
        self._login = None if security is None else security.login
        self._logged_in_until = float("inf")
        self._negotiate()
        self._log_in()

    def _opened(self, security: ClientSecurity | None) -> socket.socket:
        """Return a connected socket, wrapped in TLS if `security` requires it.  Raises
        BrokerUnreachable."""
        try:
            opened = socket.create_connection((self.host, self.port), self.timeout_s)
            if security is not None:
                opened = security.wrap(opened, self.host)
        except OSError as error:
            raise BrokerUnreachable(
                f"cannot connect to {self.address}: {reason_of(error)}"
            ) from error
        except UnicodeError as error:  # IDNA cannot encode the name.
            raise BrokerUnreachable(f"{self.host[:60]!r} is not a valid host name") from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    @property
    def address(self) -> str:
        """`host:port`, with an IPv6 address in brackets."""
        return address_text(self.host, self.port)

    def fileno(self) -> int:
        """The socket's descriptor, for selectors: readable when a response begins to arrive."""
        return self._socket.fileno()

    @property
    def awaits_reply(self) -> bool:
        """Whether a request was sent whose response has not been read."""
        return bool(self._pending)

    def version_for(self, request: Request, version_max: int | None = None) -> int:
        """The highest version that client and broker support, not above `version_max`.

        Raises UnsupportedRequest if there is none.
        """
        low, high = self.versions.get(api_key_of(request), (0, -1))
        high = min(high, request.MAX_VERSION)
        if version_max is not None:
            high = min(high, version_max)
        low = max(low, request.MIN_VERSION)
        if high < low:
            name = ApiKey(api_key_of(request)).name
            raise UnsupportedRequest(f"{self.address} supports no version of {name} that kwire has")
        return high

    def call(
        self, request: Request, *, timeout_s: float | None = None, version_max: int | None = None
    ) -> Any:  # noqa: ANN401 - the response class belongs to the request
        """Send a request and return its response."""
        assert not self._pending, "a pipelined response would be taken for this one"
        try:
            self.send(request, version_max=version_max)
            return self.receive(timeout_s)
        except KeyboardInterrupt:
            # The response may still come.  A later request, of a clean-up, must not read it.
            self.close()
            raise

    def send(
        self, request: Request, *, version_max: int | None = None, replied: bool = True
    ) -> None:
        """Send a request.  `replied` is false for a Produce with acks=0, which gets no response."""
        if time.monotonic() > self._logged_in_until and not self._pending:
            self._log_in()
        self._send(request, self.version_for(request, version_max), replied)

    def receive(self, timeout_s: float | None = None) -> Any:  # noqa: ANN401 - as `call`
        """The response to the oldest request whose response has not been read."""
        pending = self._pending[0]
        frame = self.receive_frame(self.timeout_s if timeout_s is None else timeout_s)
        self._is_served |= pending.api_key != ApiKey.API_VERSIONS
        self._pending.popleft()
        try:
            header_version = response_header_version(pending.api_key, pending.version)
            header, position = ResponseHeader.read(frame, header_version, 0)
            if header.correlation_id != pending.correlation_id:
                raise DecodeError("correlation id")
            if pending.api_key == ApiKey.API_VERSIONS:
                return decode_api_versions(frame, pending.version, position)
            return response_class(pending.api_key).decode(frame, pending.version, position)
        except DecodeError as error:
            self.close()
            raise ProtocolError(
                f"{self.address} sent an invalid response ({error}): is it a Kafka listener "
                "without TLS?"
            ) from error

    def close(self) -> None:
        """Close the socket.  Pending requests stay unanswered."""
        self.closed = True
        self._socket.close()

    def _log_in(self) -> None:
        """Log in, if the security settings ask for it.  A failure closes the connection."""
        if self._login is None:
            return
        # The requests of the login itself must not start another login.
        self._logged_in_until = float("inf")
        try:
            self._logged_in_until = self._login.log_in(self)
        except ClientError:
            self.close()
            raise

    def _negotiate(self) -> None:
        """Ask which request versions the broker supports.

        An older broker refuses our version of ApiVersions, and names the highest that it has.
        """
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME,
            client_software_version=CLIENT_SOFTWARE_VERSION,
        )
        if self._destination is not None:
            request.cluster_id, request.node_id = self._destination
        version = ApiVersionsRequest.MAX_VERSION
        while True:
            self._send(request, version, replied=True)
            reply = self.receive()
            ranges = {key.api_key: (key.min_version, key.max_version) for key in reply.api_keys}
            if reply.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                version = min(version - 1, ranges.get(ApiKey.API_VERSIONS, (0, 0))[1])
                continue
            if reply.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self.close()
                raise WrongBroker(
                    f"{self.address} is not {_described(self._destination)} any longer"
                )
            if reply.error_code:
                self.close()
                raise ProtocolError(f"{self.address} refused ApiVersions ({reply.error_code})")
            self.versions = ranges
            self.features = {each.name: each.max_version_level for each in reply.finalized_features}
            return

    def _send(self, request: Request, version: int, replied: bool) -> None:
        """Sends a request.  `replied`: the broker sends a response, which it does not for Produce
        with acks=0.  Raises Misuse if the request cannot be encoded; then nothing is sent."""
        api_key = api_key_of(request)
        self._next_correlation_id += 1
        header = RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=self._next_correlation_id,
            client_id=self._client_id,
        ).encode(request_header_version(api_key, version))
        try:
            body = request.encode(version)
        except EncodeError as error:
            # A text is not valid Unicode or is longer than Kafka's strings.  Nothing has been sent.
            raise Misuse(f"cannot send {ApiKey(api_key).name}: {error}") from error
        self.send_frame(header + body)
        if replied:
            self._pending.append(Pending(self._next_correlation_id, api_key, version))

    def send_frame(self, frame: bytes) -> None:
        """Send an encoded request with its header.  `receive_frame` returns its response."""
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(b"".join((_SIZE.pack(len(frame)), frame)))
        except OSError as error:
            raise self._lost(error) from error

    def receive_frame(self, timeout_s: float) -> bytearray:
        """The bytes of the next response, from its header on."""
        deadline = time.monotonic() + timeout_s
        try:
            start = self._receive_exactly(4, deadline)
            (size,) = _SIZE.unpack(start)
            if not 4 <= size <= REPLY_SIZE_BYTES_MAX:
                self.close()
                raise ProtocolError(self._no_reply_of_kafka(start))
            return self._receive_exactly(size, deadline)
        except TimeoutError as error:
            self.close()
            raise RequestTimedOut(f"{self.address} did not respond in {timeout_s:g} s") from error
        except OSError as error:
            raise self._lost(error) from error

    def _receive_exactly(self, size_bytes: int, deadline: float) -> bytearray:
        """Reads `size_bytes` bytes until `deadline`, a time of time.monotonic().  Raises
        ConnectionResetError if the connection ends before, and TimeoutError at the deadline."""
        data = bytearray(size_bytes)
        view, filled = memoryview(data), 0
        while filled < size_bytes:
            # A timeout of 0 would make the socket non-blocking, hence at least 1 ms.
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            received = self._socket.recv_into(view[filled:])
            if received == 0:
                raise ConnectionResetError("closed by the broker")
            filled += received
        return data

    def _no_reply_of_kafka(self, start: bytearray) -> str:
        if start.startswith(TLS_ALERT):
            return f"{self.address} expects TLS: {self._set_tls()}"
        return f"{self.address} sent an invalid response: is it a Kafka listener without TLS?"

    def _lost(self, error: OSError) -> BrokerUnreachable:
        self.close()
        hint = self._hint_of_protocol() if isinstance(error, ConnectionError) else ""
        return BrokerUnreachable(f"lost the connection to {self.address}: {reason_of(error)}{hint}")

    def _hint_of_protocol(self) -> str:
        """A hint at the security.protocol of a listener that closed before it served a request."""
        if not self.versions:
            is_encrypted = self._protocol.endswith("SSL")
            hint = "" if is_encrypted else f"; if the listener uses TLS, {self._set_tls()}"
            return f" before its first response{hint}"
        if self._is_served or self._protocol.startswith("SASL_"):
            return ""
        wanted = "SASL_SSL" if self._protocol == "SSL" else "SASL_PLAINTEXT"
        return (
            f" at the first request; if the listener needs a login, set security.protocol={wanted}"
        )

    def _set_tls(self) -> str:
        if self._protocol.startswith("SASL_"):
            return "set security.protocol=SASL_SSL"
        return "set security.protocol=SSL, or SASL_SSL if it needs a login"


def _described(destination: Destination | None) -> str:
    if destination is None:
        return "a broker of this cluster"
    return f"broker {destination.node_id} of cluster {destination.cluster_id}"


def decode_api_versions(frame: bytearray, version: int, position: int) -> ApiVersionsResponse:
    """The ApiVersions response, in version 0 if the broker lacks the requested one (KIP-511)."""
    error_code = int.from_bytes(frame[position : position + 2], signed=True)
    replied = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
    return ApiVersionsResponse.decode(frame, replied, position)


def reason_of(error: OSError) -> str:
    """The system's error message without error numbers."""
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
