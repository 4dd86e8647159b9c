"""The connections of a replay: one for each of the trace's, made when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.client.connection import Connection
from kwire.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from kwire.codecs.api_keys import response_header_version
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, Message
from kwire.testing.replaying.recording import Recorded, read_response

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

CLIENT_ID: Final = "kwire-replay"
"""Of the ApiVersions that begins each connection; all else has the recorded client's."""


class NoAnswer(NamedTuple):
    """What there was instead of one."""

    why: str


class Links:
    """Those to one broker, by the names of the trace's."""

    def __init__(
        self, host: str, port: int, timeout_s: float, security: ClientSecurity | None
    ) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._security = security
        self._open: dict[str, Connection] = {}
        self._awaiting: set[str] = set()

    def send(self, recorded: Recorded, body: bytes) -> None:
        """Send a request.  Raises ClientError where no connection can be made.

        What breaks while it is sent is found where its answer is looked for.
        """
        connection = self._open.get(recorded.connection)
        if connection is None or connection.closed:
            connection = self._open[recorded.connection] = self.opened()
        try:
            connection.send_frame(recorded.header + body)
        except ClientError:
            connection.close()
        if recorded.answered:
            self._awaiting.add(recorded.connection)

    def opened(self) -> Connection:
        """Another one.  Raises ClientError."""
        return Connection(
            self._host,
            self._port,
            client_id=CLIENT_ID,
            timeout_s=self._timeout_s,
            security=self._security,
        )

    def others_awaiting(self, than: str) -> list[Connection]:
        """On which an answer is to come, but for that one."""
        names = self._awaiting - {than}
        return [self._open[name] for name in names if not self._open[name].closed]

    def awaiting(self, recorded: Recorded) -> tuple[Connection, float]:
        """Where its answer is to come, and within how many seconds."""
        within_s = self._timeout_s + recorded.duration_ms / 1000
        return self._open[recorded.connection], within_s

    def receive(self, recorded: Recorded) -> Message | NoAnswer:
        """The answer to the one request that is on its way there."""
        self._awaiting.discard(recorded.connection)
        connection, within_s = self.awaiting(recorded)
        if connection.closed:
            return NoAnswer("the connection was closed")
        try:
            return _read(connection.receive_frame(within_s), recorded)
        except RequestTimedOut:
            return NoAnswer(f"none came within {within_s:.0f} s")
        except BrokerUnreachable:
            return NoAnswer("the connection was closed")
        except (DecodeError, ClientError) as problem:
            connection.close()
            return NoAnswer(f"it cannot be read: {problem}")

    def close(self, name: str | None = None) -> None:
        """Close one of them, or all."""
        for each in [name] if name else list(self._open):
            if each in self._open:
                self._open.pop(each).close()
                self._awaiting.discard(each)


def _read(frame: bytearray, recorded: Recorded) -> Message:
    api_key = recorded.request.API_KEY
    assert api_key is not None
    header, start = ResponseHeader.read(frame, response_header_version(api_key, recorded.version))
    if header.correlation_id != int.from_bytes(recorded.header[4:8], signed=True):
        raise DecodeError(f"it has the correlation id {header.correlation_id}")
    return read_response(frame, start, api_key, recorded.version)
