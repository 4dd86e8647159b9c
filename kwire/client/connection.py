"""One TCP connection to one broker: frames, versions, requests and their replies in order."""

from __future__ import annotations

import socket
import time
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from kwire.client.errors import (
    BrokerUnreachable,
    ClientError,
    Misuse,
    ProtocolError,
    RequestTimedOut,
    UnsupportedRequest,
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
"""A broker answers a Fetch with what was asked for plus at most one batch that is larger; a size
above this is not Kafka talking ("HTTP" read as a size is 1.2 GB)."""

TLS_ALERT: Final = b"\x15\x03"
"""How a TLS record begins by which a TLS listener refuses bytes that are no handshake."""

CLIENT_SOFTWARE_NAME: Final = "kwire"
CLIENT_SOFTWARE_VERSION: Final = "0.1.0"

_SIZE = Struct(">i")


class Request(Protocol):
    """What all generated requests have in common."""

    API_KEY: ClassVar[int | None]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]

    def encode(self, version: int) -> bytes: ...


def api_key_of(request: Request) -> int:
    """The key of a message that is a request; other messages have none."""
    assert request.API_KEY is not None, request
    return request.API_KEY


def address_text(host: str, port: int) -> str:
    """`host:port` as a person writes it, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Pending(NamedTuple):
    """A request on its way whose reply has not been read."""

    correlation_id: int
    api_key: int
    version: int


class Connection:
    """A connection whose requests are answered one after the other, as Kafka does.

    `send` and `receive` may be pipelined; `call` is both.  Every failure closes the connection: its
    stream of replies is then out of step.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: ClientSecurity | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.timeout_s = timeout_s
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """The finalized features, as they were when the connection began (KIP-584)."""
        self._client_id = client_id
        self._pending: deque[Pending] = deque()
        self._next_correlation_id = 0
        self._protocol = "PLAINTEXT" if security is None else security.protocol
        self._is_served = False
        """Whether anything but ApiVersions was answered."""
        self._socket = self._opened(security)
        self.closed = False
        self._login = None if security is None else security.login
        self._logged_in_until = float("inf")
        self._negotiate()
        self._log_in()

    def _opened(self, security: ClientSecurity | None) -> socket.socket:
        try:
            opened = socket.create_connection((self.host, self.port), self.timeout_s)
            if security is not None:
                opened = security.wrap(opened, self.host)
        except OSError as error:
            raise BrokerUnreachable(f"no broker at {self.address}: {reason_of(error)}") from error
        except UnicodeError as error:  # of IDNA: a label is empty, too long, or not to be written
            raise BrokerUnreachable(f"{self.host[:60]!r} is no name of a host") from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    @property
    def address(self) -> str:
        """`host:port` as a person writes it."""
        return address_text(self.host, self.port)

    def fileno(self) -> int:
        """For selectors: readable when a reply has begun to arrive."""
        return self._socket.fileno()

    @property
    def awaits_reply(self) -> bool:
        """Whether a request is on its way."""
        return bool(self._pending)

    def version_for(self, request: Request, version_max: int | None = None) -> int:
        """The highest version that both sides know, and that is not above `version_max`."""
        low, high = self.versions.get(api_key_of(request), (0, -1))
        high = min(high, request.MAX_VERSION)
        if version_max is not None:
            high = min(high, version_max)
        low = max(low, request.MIN_VERSION)
        if high < low:
            name = ApiKey(api_key_of(request)).name
            raise UnsupportedRequest(f"{self.address} serves no version of {name} known here")
        return high

    def call(
        self, request: Request, *, timeout_s: float | None = None, version_max: int | None = None
    ) -> Any:  # noqa: ANN401 - the response class belongs to the request
        """Send a request and return its reply."""
        assert not self._pending, "a pipelined reply would be taken for this one"
        try:
            self.send(request, version_max=version_max)
            return self.receive(timeout_s)
        except KeyboardInterrupt:
            self.close()  # the reply may come yet: who cleans up now must not take it for another
            raise

    def send(
        self, request: Request, *, version_max: int | None = None, replied: bool = True
    ) -> None:
        """Send a request; `replied` is false for a Produce with acks=0, which gets no reply."""
        if time.monotonic() > self._logged_in_until and not self._pending:
            self._log_in()
        self._send(request, self.version_for(request, version_max), replied)

    def receive(self, timeout_s: float | None = None) -> Any:  # noqa: ANN401 - as `call`
        """The reply to the oldest request on its way."""
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
                f"{self.address} does not reply as Kafka does ({error}); is it a Kafka listener "
                "without TLS?"
            ) from error

    def close(self) -> None:
        """Close the socket; requests on their way stay unanswered."""
        self.closed = True
        self._socket.close()

    def _log_in(self) -> None:
        """Say who this is, where that is asked for; what fails closes the connection."""
        if self._login is None:
            return
        self._logged_in_until = float("inf")  # until it is done: what it sends is no reason for one
        try:
            self._logged_in_until = self._login.log_in(self)
        except ClientError:
            self.close()
            raise

    def _negotiate(self) -> None:
        """Ask which versions the broker serves; one that is older says which of ours it takes."""
        request = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME,
            client_software_version=CLIENT_SOFTWARE_VERSION,
        )
        version = ApiVersionsRequest.MAX_VERSION
        while True:
            self._send(request, version, replied=True)
            reply = self.receive()
            ranges = {key.api_key: (key.min_version, key.max_version) for key in reply.api_keys}
            if reply.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                version = min(version - 1, ranges.get(ApiKey.API_VERSIONS, (0, 0))[1])
                continue
            if reply.error_code:
                self.close()
                raise ProtocolError(f"{self.address} refused ApiVersions ({reply.error_code})")
            self.versions = ranges
            self.features = {each.name: each.max_version_level for each in reply.finalized_features}
            return

    def _send(self, request: Request, version: int, replied: bool) -> None:
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
            # A name that is no UTF-8, or longer than Kafka's strings: nothing has been sent yet.
            raise Misuse(f"{ApiKey(api_key).name} cannot be sent: {error}") from error
        self.send_frame(header + body)
        if replied:
            self._pending.append(Pending(self._next_correlation_id, api_key, version))

    def send_frame(self, frame: bytes) -> None:
        """Send a request that is encoded already, its header too: `receive_frame` is its reply."""
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(b"".join((_SIZE.pack(len(frame)), frame)))
        except OSError as error:
            raise self._lost(error) from error

    def receive_frame(self, timeout_s: float) -> bytearray:
        """The next reply as it comes, from its header on."""
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
            raise RequestTimedOut(f"{self.address} did not reply in {timeout_s:g} s") from error
        except OSError as error:
            raise self._lost(error) from error

    def _receive_exactly(self, size_bytes: int, deadline: float) -> bytearray:
        data = bytearray(size_bytes)
        view, filled = memoryview(data), 0
        while filled < size_bytes:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            received = self._socket.recv_into(view[filled:])
            if received == 0:
                raise ConnectionResetError("closed by the broker")
            filled += received
        return data

    def _no_reply_of_kafka(self, start: bytearray) -> str:
        if start.startswith(TLS_ALERT):
            return f"{self.address} answers with TLS: {self._set_tls()}"
        return f"{self.address} does not reply as Kafka does; is it a Kafka listener without TLS?"

    def _lost(self, error: OSError) -> BrokerUnreachable:
        self.close()
        hint = self._hint_of_protocol() if isinstance(error, ConnectionError) else ""
        return BrokerUnreachable(
            f"the connection to {self.address} broke: {reason_of(error)}{hint}"
        )

    def _hint_of_protocol(self) -> str:
        """Which security.protocol the listener may want that closed before it served anything."""
        if not self.versions:
            is_encrypted = self._protocol.endswith("SSL")
            hint = "" if is_encrypted else f"; if that listener is one of TLS, {self._set_tls()}"
            return f" before its first answer{hint}"
        if self._is_served or self._protocol.startswith("SASL_"):
            return ""
        wanted = "SASL_SSL" if self._protocol == "SSL" else "SASL_PLAINTEXT"
        return (
            " at the first request; if that listener asks for a login, "
            f"set security.protocol={wanted}"
        )

    def _set_tls(self) -> str:
        if self._protocol.startswith("SASL_"):
            return "set security.protocol=SASL_SSL"
        return "set security.protocol=SSL, or SASL_SSL where it asks for a login"


def decode_api_versions(frame: bytearray, version: int, position: int) -> ApiVersionsResponse:
    """A broker that lacks the version asked for replies in version 0 (KIP-511)."""
    error_code = int.from_bytes(frame[position : position + 2], signed=True)
    replied = 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version
    return ApiVersionsResponse.decode(frame, replied, position)


def reason_of(error: OSError) -> str:
    """The system's words without the numbers around them."""
    if isinstance(error, socket.gaierror):
        return "that host name cannot be resolved"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
