"""The connections of a replay: one for each of the trace's, made when it is first needed.

Where what was asked of the controller goes to another broker now, there is one for that, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.client.cluster import Node
from kwire.client.connection import Connection
from kwire.client.errors import BrokerUnreachable, ClientError, RequestTimedOut
from kwire.codecs.api_keys import response_header_version
from kwire.codecs.messages.response_header import ResponseHeader
from kwire.codecs.primitives import DecodeError, Message
from kwire.testing.replaying.brokers import CLIENT_ID, Counterparts
from kwire.testing.replaying.recording import Recorded, read_response

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity


class NoAnswer(NamedTuple):
    """What there was instead of one."""

    why: str


class Key(NamedTuple):
    """A connection of the trace, as far as its requests go to one broker of now."""

    broker: int | None
    """Of the trace."""
    connection: str
    node: Node


class Links:
    """Those to all brokers, by the trace's."""

    def __init__(
        self, counterparts: Counterparts, timeout_s: float, security: ClientSecurity | None
    ) -> None:
        self._counterparts = counterparts
        self._timeout_s = timeout_s
        self._security = security
        self._open: dict[Key, Connection] = {}
        self._awaiting: set[Key] = set()

    def send(self, recorded: Recorded, body: bytes) -> None:
        """Send a request.  Raises ClientError where no connection can be made.

        What breaks while it is sent is found where its answer is looked for.
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

    def opened(self, node: Node) -> Connection:
        """Another one, to that broker.  Raises ClientError."""
        return Connection(
            node.host,
            node.port,
            client_id=CLIENT_ID,
            timeout_s=self._timeout_s,
            security=self._security,
        )

    def others_awaiting(self, than: Recorded) -> list[Connection]:
        """On which an answer is to come, but for where this one goes."""
        keys = self._awaiting - {self._key(than)}
        return [self._open[key] for key in keys if not self._open[key].closed]

    def awaiting(self, recorded: Recorded) -> tuple[Connection, float]:
        """Where its answer is to come, and within how many seconds."""
        within_s = self._timeout_s + recorded.duration_ms / 1000
        return self._open[self._key(recorded)], within_s

    def receive(self, recorded: Recorded) -> Message | NoAnswer:
        """The answer to the one request that is on its way there."""
        self._awaiting.discard(self._key(recorded))
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

    def close(self, of: Recorded | None = None) -> None:
        """Close those that one of the trace stands for, or all."""
        for key in list(self._open):
            if of is None or key[:2] == (of.broker, of.connection):
                self._open.pop(key).close()
                self._awaiting.discard(key)

    def _key(self, recorded: Recorded) -> Key:
        return Key(recorded.broker, recorded.connection, self._counterparts.of(recorded))


def _read(frame: bytearray, recorded: Recorded) -> Message:
    api_key = recorded.request.API_KEY
    assert api_key is not None
    header, start = ResponseHeader.read(frame, response_header_version(api_key, recorded.version))
    if header.correlation_id != int.from_bytes(recorded.header[4:8], signed=True):
        raise DecodeError(f"it has the correlation id {header.correlation_id}")
    return read_response(frame, start, api_key, recorded.version)
