"""The types and helpers that all guards use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kwire.cluster.metadata.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.errors import ErrorCode
    from kwire.requests.context import Context
    from kwire.security.authority import Authority

Request: TypeAlias = Any
Response: TypeAlias = Any
"""A request and a response of one API key, which its guard and handler know; a response may also be
an awaitable of it."""
Proceed: TypeAlias = Callable[[Any], "Any | Awaitable[Any] | None"]
"""Calls the handler with the allowed part of the request."""
Guard: TypeAlias = Callable[["Access", Any, Proceed], "Any | Awaitable[Any] | None"]
Refuse: TypeAlias = Callable[[Any, "ErrorCode", int, str], Any]
"""Makes the response to a request that is refused as a whole, from the request, the error, the
version, and a message that names the right.  In a message field Apache Kafka prints its Java object
of the request, with memory addresses; this broker says which right the request needs."""

Item = TypeVar("Item")


class Access:
    """The rights of one request's sender.

    With `quiet` a denial is not written to the audit log: for checks whose denial is no error.
    """

    __slots__ = ("authority", "broker", "context")

    def __init__(self, broker: Broker, authority: Authority, context: Context) -> None:
        self.broker = broker
        self.authority = authority
        self.context = context

    @property
    def version(self) -> int:
        return self.context.api_version

    def may(
        self,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        quiet: bool = False,
        count: int = 1,
    ) -> bool:
        """Return whether the sender may do `operation` on the resource `name` of type `kind`.

        `count` is how often the request names the resource; only the audit log shows it.
        """
        return self.authority.allows(self.context, operation, kind, name, quiet=quiet, count=count)

    def on_cluster(self, operation: AclOperation, *, quiet: bool = False) -> bool:
        return self.authority.on_cluster(self.context, operation, quiet=quiet)

    def on_topic(self, operation: AclOperation, name: str, *, quiet: bool = False) -> bool:
        return self.authority.allows(self.context, operation, ResourceType.TOPIC, name, quiet=quiet)

    def permitted(
        self,
        operation: AclOperation,
        kind: ResourceType,
        names: Iterable[str],
        *,
        quiet: bool = False,
    ) -> set[str]:
        """The names on which the sender may do `operation`; each is checked once."""
        counts: dict[str, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        return {
            name
            for name, count in counts.items()
            if self.may(operation, kind, name, quiet=quiet, count=count)
        }

    def split(
        self,
        operation: AclOperation,
        kind: ResourceType,
        items: Iterable[Item],
        name_of: Callable[[Item], str],
        *,
        nameless: bool = False,
    ) -> tuple[list[Item], list[Item]]:
        """The items on which the sender may do `operation`, and the others.

        With `nameless` an empty name stands for an unknown id; such an item is allowed, because the
        handler has an error for it.
        """
        named = [(name_of(item), item) for item in items]
        permitted = self.permitted(
            operation, kind, (name for name, _ in named if name or not nameless)
        )
        if nameless:
            permitted.add("")
        return (
            [item for name, item in named if name in permitted],
            [item for name, item in named if name not in permitted],
        )


def reshaped(reply: Response, shape: Callable[[Response], Response]) -> Response:
    """Apply `shape` to the handler's reply when it is available; None (no response) stays None."""
    if reply is None:
        return None
    if isinstance(reply, Awaitable):
        return _then_shape(reply, shape)
    return shape(reply)


async def _then_shape(reply: Awaitable[Any], shape: Callable[[Response], Response]) -> Response:
    response = await reply
    return None if response is None else shape(response)
