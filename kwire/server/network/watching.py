"""Requests whose answers a trace sees (kwire.testing.hooks.tracing), as they are given to their
senders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.coordinators.runtime.promise import Later
from kwire.requests.routes import Binding, Handle, Handled

if TYPE_CHECKING:
    from kwire.testing.hooks.tracing.traces import TracedRequest


@dataclass(slots=True)
class Watched(Binding):
    """A binding for one request, whose answer is seen."""

    seen: TracedRequest

    @classmethod
    def over(cls, binding: Binding, seen: TracedRequest) -> Watched:
        made = {each.name: getattr(binding, each.name) for each in fields(binding)}
        return cls(**{**made, "handle": partial(_noticing, binding.handle, seen)}, seen=seen)


def _noticing(serve: Handle, seen: TracedRequest, *asked: Any) -> Handled:  # noqa: ANN401 - a Handle's
    """As `serve`; `seen` is told when it is decided what the answer is."""
    response = serve(*asked)
    if isinstance(response, Later):
        response.promise.when_resolved(lambda _: seen.decided())
    return response


def watch(seen: TracedRequest, serve: Callable[[], Handled]) -> Handled:
    """What `serve` gives; `seen` is told what it answers, or that it could not."""
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
    try:
        response = await pending
    except Exception:
        seen.over(ending="error")
        raise
    seen.answered(response)
    return response
