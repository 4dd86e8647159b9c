"""The registry of API keys, and dispatch: which handler and guard a request gets.

Each handler declares its route, and kwire.requests.route_table lists the routes of all handlers.
The ApiVersions response, the dispatch table and docs/apis.md follow from this list.  A handler and
its messages are imported at its first request, so that the broker starts with few modules.  A
thread imports them, because the modules may have to be read from a disk (`HandlerNotImported`).
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import trio

from kwire.codecs.api_keys import request_header_version, response_header_version
from kwire.codecs.messages import request_class, response_class
from kwire.requests.context import CloseConnection
from kwire.requests.route_table import CLUSTER_ROUTES, ROUTES

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.primitives import Buffer, Frame, Message
    from kwire.requests.context import Context
    from kwire.requests.guards.base import Access, Guard, Proceed
    from kwire.requests.route import Route
    from kwire.security.authority import Authority

__all__ = [
    "CLUSTER_ROUTES",
    "ROUTES",
    "Binding",
    "Forward",
    "Handle",
    "Handled",
    "HandlerNotImported",
    "Send",
    "UnservedRequest",
    "bind",
    "bind_imported",
    "guard_of",
    "handle_guarded",
    "import_in_thread",
    "not_served",
    "require_quorum",
]

Handled = Any | Awaitable[Any] | None
Handle = Callable[["Broker", Any, "Context"], Handled]
"""A handler.  It returns the response, an awaitable of it if the request has to wait, or None if no
response is sent."""

Send = Callable[[Any], Awaitable[Any]]
"""Sends a request on to the controllers, and returns the response for the client."""

Forward = Callable[["Broker", Any, "Context", Send], Handled]
"""The function `forward` of a handler's module: what the broker does before it sends the request,
or a part of it, to the controllers."""

_BY_KEY = {int(route.api_key): route for route in (*ROUTES, *CLUSTER_ROUTES)}


class UnservedRequest(CloseConnection):
    """No such API key, or not at this version: Kafka closes the connection."""


def not_served(api_key: int) -> UnservedRequest:
    return UnservedRequest(f"API key {api_key} is not served")


def require_quorum(broker: Broker, context: Context) -> None:
    """Raise UnservedRequest on ZooKeeper, where no quorum of controllers has the metadata."""
    if broker.config.zookeeper_connect is not None:
        raise not_served(context.api_key)


@dataclass(slots=True)
class Binding:
    """All that serving one API key at one version takes, resolved once."""

    api_key: int
    api_version: int
    read: Callable[[Buffer, int, int], tuple[Any, int]]
    handle: Handle
    write: Callable[[Frame, Any], None]
    response_class: type[Message]
    flexible_request: bool
    flexible_response: bool


_bindings: dict[int, Binding] = {}


def bind(api_key: int, api_version: int) -> Binding:
    """Return how to serve `api_key` at `api_version`; the first call imports the handler.

    Raises UnservedRequest if this broker does not serve the key or the version.
    """
    # One integer for both int16 values: this look-up is made for every request.
    number = api_key << 16 | api_version & 0xFFFF
    found = _bindings.get(number)
    if found is None:
        found = _bindings[number] = _resolve(api_key, api_version)
    return found


class HandlerNotImported(Exception):
    """Raised by `bind_imported`, which succeeds after `import_in_thread`."""

    def __init__(self, api_key: int, api_version: int) -> None:
        super().__init__(api_key, api_version)
        self.api_key = api_key
        self.api_version = api_version


def bind_imported(api_key: int, api_version: int) -> Binding:
    """Return what `bind` does, without an import.

    Raises UnservedRequest like `bind`, and HandlerNotImported.
    """
    found = _bindings.get(api_key << 16 | api_version & 0xFFFF)
    if found is not None:
        return found
    route = _BY_KEY.get(api_key)
    if route is not None and route.min_version <= api_version <= route.max_version:
        module = route.handler_module
        if module not in sys.modules or module in _importing:
            raise HandlerNotImported(api_key, api_version)
    return bind(api_key, api_version)


_importing: set[str] = set()
"""The handlers that a thread imports now."""


def _import_handler(api_key: int, *, guarded: bool) -> None:
    """Import the handler of `api_key` with its messages, and with `guarded` its guard.

    A thread may call it, one at a time.
    """
    route = _BY_KEY[api_key]
    _importing.add(route.handler_module)
    try:
        import_module(route.handler_module)
        request_class(api_key), response_class(api_key)
        if guarded:
            guard_of(route)
    finally:
        _importing.discard(route.handler_module)


_IMPORTS: Final = trio.CapacityLimiter(1)
"""One thread at a time imports handlers: two could wait for each other's modules."""


async def import_in_thread(missing: HandlerNotImported, *, guarded: bool) -> None:
    """Let a thread import a handler, and then `bind` the version that is missing."""
    work = partial(_import_handler, missing.api_key, guarded=guarded)
    await trio.to_thread.run_sync(work, limiter=_IMPORTS)
    # Another thread may do the same import again at this moment; nothing of it is left to do.
    bind(missing.api_key, missing.api_version)


def _resolve(api_key: int, api_version: int) -> Binding:
    """Return the binding of `api_key` at `api_version`, and import its handler and messages.

    Raises UnservedRequest if this broker does not serve the key or the version.
    """
    route = _BY_KEY.get(api_key)
    if route is None:
        raise not_served(api_key)
    if not route.min_version <= api_version <= route.max_version:
        raise UnservedRequest(
            f"{route.api_key.name} version {api_version} is not served: "
            f"only {route.min_version} to {route.max_version}"
        )
    response = response_class(api_key)
    return Binding(
        api_key,
        api_version,
        request_class(api_key).READERS[api_version],
        _handle_of(route),
        response.WRITERS[api_version],
        response,
        # The first header versions with tagged fields (KIP-482).
        request_header_version(api_key, api_version) >= 2,
        response_header_version(api_key, api_version) >= 1,
    )


def _handle_of(route: Route) -> Handle:
    """Return the handler of a route, with what depends on the cluster's controllers around it.

    Only the few requests that concern controllers have such a step.
    """
    module = import_module(route.handler_module)
    handle: Handle = module.handle
    if route.by_controller:
        return _or_forward(handle, getattr(module, "forward", _as_it_is))
    return _unless_kraft(handle) if route.in_cluster_only else handle


def _as_it_is(broker: Broker, request: Message, context: Context, send: Send) -> Handled:
    return send(request)


def _or_forward(handle: Handle, forward: Forward) -> Handle:
    """Return a handler that forwards the request if there are controllers to forward it to."""

    def handle_or_forward(broker: Broker, request: Message, context: Context) -> Handled:
        forwarding = broker.membership.forwarding
        if forwarding is None:
            return handle(broker, request, context)
        from kwire.requests.forwarding import forwarded

        return forward(broker, request, context, lambda part: forwarded(forwarding, part, context))

    return handle_or_forward


def _unless_kraft(handle: Handle) -> Handle:
    """Return a handler that raises UnservedRequest if the controllers are Apache Kafka's.

    Those do not send the request, and a broker does not send it to another.
    """

    def handle_unless_kraft(broker: Broker, request: Message, context: Context) -> Handled:
        if broker.membership.forwarding is not None:
            raise not_served(context.api_key)
        return handle(broker, request, context)

    return handle_unless_kraft


_guards: dict[int, Guard] = {}


def handle_guarded(
    binding: Binding, broker: Broker, authority: Authority, request: Message, context: Context
) -> Handled:
    """Pass the request through its guard to the handler, and return the response."""
    from kwire.requests.guards.base import Access

    guard = _guards.get(binding.api_key)
    if guard is None:
        guard = _guards[binding.api_key] = _guard_here(_BY_KEY[binding.api_key])

    def proceed(allowed: Message) -> Handled:
        return binding.handle(broker, allowed, context)

    return guard(Access(broker, authority, context), request, proceed)


def _guard_here(route: Route) -> Guard:
    """Return the guard of a route, which lets pass what this broker does not decide itself."""
    guard = guard_of(route)
    if not (route.by_controller or route.in_cluster_only):
        return guard

    def guard_unless_kraft(access: Access, request: Message, proceed: Proceed) -> Handled:
        if access.broker.membership.forwarding is not None:
            return proceed(request)
        return guard(access, request, proceed)

    return guard_unless_kraft


def guard_of(route: Route) -> Guard:
    """The guard that checks the rights of a request: the handler's own, if its module has one."""
    from kwire.requests.guards.whole import nothing, one, with_error

    handler = import_module(route.handler_module)
    own: Guard | None = getattr(handler, "guard", None)
    if own is not None:
        return own
    if route.needs is None:
        return nothing
    return one(*route.needs, getattr(handler, "refuse", with_error))
