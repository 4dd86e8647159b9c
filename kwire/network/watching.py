"""Handlers whose answers a trace sees (kwire.tracing)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.coordinators.promise import Later

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.context import Context
    from kwire.routes import Binding
    from kwire.tracing.traces import Seen


def watching(binding: Binding, seen: Seen) -> Binding:
    """As `binding`, and `seen` is told what it answers, or that it could not."""
    serve = binding.handle

    def handle(broker: Broker, request: Any, context: Context) -> Any:  # noqa: ANN401 - a Handle
        try:
            response = serve(broker, request, context)
        except Exception:
            seen.over(ending="error")
            raise
        if isinstance(response, Later):
            response.promise.when_resolved(lambda _: seen.decided())
        if isinstance(response, Awaitable):
            return _later(response, seen)
        seen.answered(response)
        return response

    return replace(binding, handle=handle)


async def _later(pending: Awaitable[Any], seen: Seen) -> Any:  # noqa: ANN401 - a handler's reply
    try:
        response = await pending
    except Exception:
        seen.over(ending="error")
        raise
    seen.answered(response)
    return response
