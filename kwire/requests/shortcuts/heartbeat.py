"""Shortcut for group members that send the same heartbeat again and again.

Between two rebalances the heartbeats of a member differ in their correlation id only, and each of
them does one thing: it puts off the end of the member's session.  So each connection remembers the
bytes of its last heartbeat of a member, the decoded request and the response.  If the bytes come
again, the group coordinator checks the decoded request by the same rules as the handler.  If they
still have this response, it puts off the session, and the response is a copy of the last one.

Any other heartbeat goes to the handler: one that joins, leaves, changes or reports something, one
of another generation or epoch, one while the group rebalances, and one whose response would have to
wait until records of the group are replicated.
`tests/requests/shortcuts/test_repeated_heartbeats.py` compares the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Frame
from kwire.requests.shortcuts.shortcut import RequestT

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from kwire.groups.consumer.member import ConsumerMember
    from kwire.requests.shortcuts.shortcut import Exchange

_REST_START = 8
"""Position behind api key, version and correlation id."""

_SIZE_BYTES_MAX = 2048
"""Size of the largest request remembered: group, member and client ids are mostly below 100 bytes,
and a longer heartbeat is rare enough to be decoded each time."""


class RepeatedRequest(ABC, Generic[RequestT]):
    """The last heartbeat of one connection that changed nothing.

    `_kind` is its api key and version, and `_rest` its bytes behind the correlation id.
    """

    __slots__ = ("_kind", "_reply", "_request", "_rest")

    def __init__(self) -> None:
        """Remember no request: the first frame finds nothing to repeat."""
        self._kind = self._rest = b""
        self._request: RequestT | None = None
        self._reply = Frame()

    @abstractmethod
    def learn(self, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """Remember an exchange that will have the same response again."""

    def remembers(self, request: RequestT) -> bool:
        """Whether this very object is the remembered request."""
        return self._request is request

    def _repeated(self, frame: memoryview) -> RequestT | None:
        """The remembered request if `frame` has its bytes, else None."""
        if frame[:4] == self._kind and frame[_REST_START:] == self._rest:
            return self._request
        return None

    def _reply_to(self, frame: memoryview) -> Frame:
        """The remembered response, with the correlation id of `frame`."""
        reply = Frame()
        reply += self._reply
        reply[4:8] = frame[4:8]  # behind the size
        return reply

    def _remember(self, frame: memoryview, request: RequestT, reply: Frame) -> None:
        if len(frame) <= _SIZE_BYTES_MAX:
            self._kind, self._rest = bytes(frame[:4]), bytes(frame[_REST_START:])
            self._request, self._reply = request, reply


class RepeatedHeartbeat(RepeatedRequest["HeartbeatRequest"]):
    """The last Heartbeat of one connection."""

    __slots__ = ()

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if it repeats a heartbeat that changes nothing, else None."""
        request = self._repeated(frame)
        if request is None or not broker.coordinators.groups.keeps_session(request):
            return None
        return self._reply_to(frame)

    def learn(
        self, exchange: Exchange[HeartbeatRequest, HeartbeatResponse], broker: Broker
    ) -> None:
        """Remember a heartbeat that has no error."""
        if exchange.response.error_code == ErrorCode.NONE:
            self._remember(exchange.frame, exchange.request, exchange.reply)


class RepeatedConsumerGroupHeartbeat(RepeatedRequest["ConsumerGroupHeartbeatRequest"]):
    """The last ConsumerGroupHeartbeat of one connection.

    `_member` is the member that sent it, as it was then: it is another object after each change.
    `_heartbeat_interval_ms` is the interval in the remembered response.
    """

    __slots__ = ("_heartbeat_interval_ms", "_member")

    def __init__(self) -> None:
        super().__init__()
        self._member: ConsumerMember | None = None
        self._heartbeat_interval_ms = 0

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if it repeats a heartbeat that changes nothing, else None."""
        request = self._repeated(frame)
        if request is None:
            return None
        # The handler, which was called before, has imported this module.
        from kwire.requests.handlers.consumer_group_heartbeat import is_served

        assert self._member is not None, "its request is remembered"
        if is_served(broker) and broker.coordinators.groups.keeps_consumer_session(
            request, self._member, self._heartbeat_interval_ms
        ):
            return self._reply_to(frame)
        return None

    def learn(
        self,
        exchange: Exchange[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse],
        broker: Broker,
    ) -> None:
        """Remember a heartbeat that has no error and no assignment, of a member that stays."""
        request, response = exchange.request, exchange.response
        if response.error_code or response.assignment is not None or request.member_epoch <= 0:
            return
        member = broker.coordinators.groups.consumer_member(request.group_id, request.member_id)
        if member is not None:
            self._remember(exchange.frame, request, exchange.reply)
            self._member = member
            self._heartbeat_interval_ms = response.heartbeat_interval_ms
