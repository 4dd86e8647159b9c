"""The connections of a replay: one for each connection of the trace, opened on first use.

A second one is opened if requests to the controller go to another broker than in the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.client.cluster import ClusterNode
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from kwire.codecs.api_keys import response_header_version
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, Message
from kwire.testing.replaying.brokers import CLIENT_ID, Counterparts
from kwire.testing.replaying.recording import Recorded, read_response

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity


class NoResponse(NamedTuple):
    """There was no response; `why` says what happened instead."""

    why: str


class LinkKey(NamedTuple):
    """A connection of the trace, and the broker that receives its requests now."""

    broker: int | None
    """Id of the recorded broker."""
    connection: str
    node: ClusterNode


class Links:
    """The open connections of a replay."""

    def __init__(
        self, counterparts: Counterparts, timeout_s: float, security: ClientSecurity | None
    ) -> None:
        """`timeout_s` limits the connecting and each wait for a response, in seconds."""
        self._counterparts = counterparts
        self._timeout_s = timeout_s
        self._security = security
        self._open: dict[LinkKey, BrokerConnection] = {}
        self._awaiting: set[LinkKey] = set()

    def send(self, recorded: Recorded, body: bytes) -> None:
        """Send a request.  Raises ClientError if no connection can be made.

        A connection that breaks while sending is reported by `receive`.
        """
        key = self._key(recorded)
        connection = self._open.get(key)
        if connection is None or connection.closed:
            connection = self._open[key] = self.opened(key.node)
        try:
            connection.send_frame(recorded.header + body)
        except ClientError:
            connection.close()
        if recorded.answered:
            self._awaiting.add(key)

    def opened(self, node: ClusterNode) -> BrokerConnection:
        """Open a new connection to that broker.  Raises ClientError."""
        return BrokerConnection(
            node.host,
            node.port,
            client_id=CLIENT_ID,
            timeout_s=self._timeout_s,
            security=self._security,
        )

    def others_awaiting(self, than: Recorded) -> list[BrokerConnection]:
        """The other connections on which a response is awaited."""
        keys = self._awaiting - {self._key(than)}
        return [self._open[key] for key in keys if not self._open[key].closed]

    def awaiting(self, recorded: Recorded) -> tuple[BrokerConnection, float]:
        """The connection on which the response will come, and the timeout for it in seconds."""
        within_s = self._timeout_s + recorded.duration_ms / 1000
        return self._open[self._key(recorded)], within_s

    def receive(self, recorded: Recorded) -> Message | NoResponse:
        """Receive the response to the only request in flight on the request's connection."""
        self._awaiting.discard(self._key(recorded))
        connection, within_s = self.awaiting(recorded)
        if connection.closed:
            return NoResponse("the connection was closed")
        try:
            return _read(connection.receive_frame(within_s), recorded)
        except RequestTimedOut:
            return NoResponse(f"none came within {within_s:.0f} s")
        except BrokerUnreachable:
            return NoResponse("the connection was closed")
        except (DecodeError, ClientError) as problem:
            connection.close()
            return NoResponse(f"it cannot be read: {problem}")

    def close(self, of: Recorded | None = None) -> None:
        """Close the connections that stand for the given request's connection, or all."""
        for key in list(self._open):
            if of is None or key[:2] == (of.broker, of.connection):
                self._open.pop(key).close()
                self._awaiting.discard(key)

    def _key(self, recorded: Recorded) -> LinkKey:
        return LinkKey(recorded.broker, recorded.connection, self._counterparts.of(recorded))


def _read(frame: bytearray, recorded: Recorded) -> Message:
    """Decodes the response to a recorded request.  Raises DecodeError if it has the correlation id
    of another request."""
    api_key = recorded.request.API_KEY
    assert api_key is not None
    header, start = ResponseHeader.read(frame, response_header_version(api_key, recorded.version))
    # In a request header, the correlation id follows the API key and version, 2 bytes each.
    if header.correlation_id != int.from_bytes(recorded.header[4:8], signed=True):
        raise DecodeError(f"it has the correlation id {header.correlation_id}")
    return read_response(frame, start, api_key, recorded.version)
