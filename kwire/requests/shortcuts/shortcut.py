"""The interface between a connection and its shortcuts."""

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
    """A request that its handler answered, with the response."""

    frame: memoryview
    """The request without its size field; valid during the call only."""
    version: int
    request: RequestT
    response: ResponseT
    reply: Frame
    """The response as it is sent, with size and correlation id."""


class Shortcut(Protocol):
    """The remembered requests of one connection for one API key.

    A shortcut returns successful responses only.  It leaves every other request to the handler,
    which alone decides about errors.
    """

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if it repeats a remembered request, else None."""

    def learn(self, exchange: Exchange[Any, Any], broker: Broker) -> None:
        """Remember an exchange, if requests of its kind are repeated."""
