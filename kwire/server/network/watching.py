"""Reports responses to a trace (kwire.testing.hooks.tracing), as their clients get them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.coordinators.runtime.promise import MappedPromise
from kwire.requests.routes import Binding, Handle, Handled

if TYPE_CHECKING:
    from kwire.testing.hooks.tracing.traces import TracedRequest


@dataclass(slots=True)
class Watched(Binding):
    """The binding of one traced request; `seen` is the request's entry in the trace."""

    seen: TracedRequest

    @classmethod
    def over(cls, binding: Binding, seen: TracedRequest) -> Watched:
        values = {field.name: getattr(binding, field.name) for field in fields(binding)}
        return cls(**{**values, "handle": partial(_traced, binding.handle, seen)}, seen=seen)


def _traced(serve: Handle, seen: TracedRequest, *arguments: Any) -> Handled:  # noqa: ANN401 - a Handle's
    """The result of `serve`; reports to the trace when the response is decided."""
    response = serve(*arguments)
    if isinstance(response, MappedPromise):
        response.promise.when_resolved(lambda _: seen.decided())
    return response


def watch(seen: TracedRequest, serve: Callable[[], Handled]) -> Handled:
    """Return the result of `serve`; reports the response, or the exception, to the trace."""
    try:
        response = serve()
    except Exception:
        seen.over(ending="error")
        raise
    if isinstance(response, Awaitable):
        return _later(response, seen)
    seen.answered(response)
    return response


async def _later(pending: Awaitable[Any], seen: TracedRequest) -> Any:  # noqa: ANN401 - a handler's reply
    """Await the response, report it to the trace, and return it.

    An exception is reported as the ending "error" and raised again.
    """
    try:
        response = await pending
    except Exception:
        seen.over(ending="error")
        raise
    seen.answered(response)
    return response
