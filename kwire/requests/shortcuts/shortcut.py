"""What a connection asks of a shortcut, and tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kwire.codecs.primitives import Frame, Message

if TYPE_CHECKING:
    from kwire.broker.broker import Broker

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(slots=True)
class Exchange(Generic[RequestT, ResponseT]):
    """A request that went the thorough way, and how it was answered."""

    frame: memoryview
    """The request without its size; valid during the call only."""
    version: int
    request: RequestT
    response: ResponseT
    reply: Frame
    """The response as it is sent, with size and correlation id."""


class Shortcut(Protocol):
    """One connection's memory of what it has asked of one API key.

    It only ever succeeds: whatever is not plainly what was asked before is left to the thorough
    way, which alone decides on errors.
    """

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The reply to `frame` if it says again what was said before, else None."""

    def learn(self, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """Remember an exchange, if it is of a kind that comes again."""
