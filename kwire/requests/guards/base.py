"""What guards are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kwire.cluster.metadata.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.context import Context
    from kwire.security.authority import Authority

Request: TypeAlias = Any
Response: TypeAlias = Any
"""Of one API key, whose guard and handler know which; an answer may be one that comes later."""
Proceed: TypeAlias = Callable[[Any], "Any | Awaitable[Any] | None"]
"""The handler: has what is left of the request done."""
Guard: TypeAlias = Callable[["Access", Any, Proceed], "Any | Awaitable[Any] | None"]

Item = TypeVar("Item")


class Access:
    """One request's sender, and what they may do."""

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
        """Those of the names on which it may be done; each is asked about once."""
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
        """The items on which it may be done, and the others.

        With `nameless` an item whose name is empty is of an id that nobody knows, and passes: the
        handler tells that.
        """
        named = [(name_of(each), each) for each in items]
        permitted = self.permitted(
            operation, kind, (name for name, _ in named if name or not nameless)
        )
        if nameless:
            permitted.add("")
        return (
            [each for name, each in named if name in permitted],
            [each for name, each in named if name not in permitted],
        )


def then(reply: Response, shape: Callable[[Response], Response]) -> Response:
    """`shape` of the handler's reply, once it is there; None, which is no reply, stays None."""
    if reply is None:
        return None
    if isinstance(reply, Awaitable):
        return _once_there(reply, shape)
    return shape(reply)


async def _once_there(reply: Awaitable[Any], shape: Callable[[Response], Response]) -> Response:
    response = await reply
    return None if response is None else shape(response)
