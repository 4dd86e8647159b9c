"""Handlers that return injected errors (kwire.testing.hooks.faults) instead of the true results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.requests.context import CloseConnection
from kwire.requests.handlers.fetching.fetch import Fetch
from kwire.requests.handlers.fetching.read_rights import refuse_unreadable
from kwire.testing.hooks.faults import refusing as answers
from kwire.testing.hooks.faults.parts import OF_PARTITIONS, OF_TOPICS

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.errors import ErrorCode
    from kwire.codecs.primitives import Message
    from kwire.requests.context import Context
    from kwire.requests.routes import Binding, Handle
    from kwire.testing.hooks.faults.parts import Part
    from kwire.testing.hooks.faults.rules import Action, FaultRule


NO_TOPICS_SINCE: Final = 1
"""From this version of Metadata on an empty list of topics means no topics; before, all topics."""


def refusing(rule: FaultRule, action: Action, binding: Binding, serve: Handle) -> Handle:
    """A handler like `serve` that returns the error of `action` for the parts that `rule` picks."""
    assert action.error is not None
    refusal = _Refusal(rule, action.error, binding, serve)
    return refusal.lie if action.carried_out else refusal.refuse


class _Refusal(NamedTuple):
    """A request kind with an injected error."""

    rule: FaultRule
    error: ErrorCode
    binding: Binding
    serve: Handle

    def lie(self, broker: Broker, request: Any, context: Context) -> Any:  # noqa: ANN401 - a Handle
        """Carry out the whole request, and report the error for the picked parts."""

        def spoil(response: Message) -> Message:
            key, picks = self.binding.api_key, self.rule.picks
            answers.overwrite(key, response, picks, self.error, broker.metadata.topic_name)
            return response

        return _then(self.serve(broker, request, context), spoil)

    def refuse(self, broker: Broker, request: Any, context: Context) -> Any:  # noqa: ANN401 - a Handle
        """Carry out all but the picked parts, and report the error for those."""
        key = self.binding.api_key
        if key == ApiKey.PRODUCE and request.acks == 0:
            raise CloseConnection(f"{self.error.name} to a produce with acks=0, by a fault")
        if key == ApiKey.FETCH:
            return _refused_fetch(self.rule, self.error, broker, request, context)
        if key in OF_PARTITIONS or key in OF_TOPICS:
            return self._refuse_parts(broker, request, context)
        return answers.refusal(key, context.api_version, request, self.error)

    def _refuse_parts(self, broker: Broker, request: Any, context: Context) -> Any:  # noqa: ANN401 - a Handle
        """Handle the request without the picked parts, and add the error for those.

        If the picked parts are not named in the request (all topics, or names alone), it is handled
        whole, and the error is written over its response.
        """
        key = self.binding.api_key
        names_all = key in OF_TOPICS and getattr(request, OF_TOPICS[key].topics) is None
        if names_all or _by_names_alone(request):
            return self.lie(broker, request, context)
        rest, refused = answers.split(key, request, self.rule.picks, broker.metadata.topic_name)
        if not refused:
            return self.serve(broker, request, context)
        if rest is None and key == ApiKey.METADATA and context.api_version >= NO_TOPICS_SINCE:
            rest = replace(request, topics=[])  # the response still lists the brokers

        def tell(response: Message) -> Message:
            answers.add(key, response, refused, self.error)
            return response

        if rest is None:
            return tell(self.binding.response_class())
        return _then(self.serve(broker, rest, context), tell)


def _by_names_alone(request: Message) -> bool:
    """Whether the request has a plain list of names (DeleteTopics up to v5): `split` knows none."""
    return bool(getattr(request, "topic_names", None))


def _then(reply: Any, shape: Callable[[Message], Message]) -> Any:  # noqa: ANN401 - a handler's reply
    """`shape` of the response, at once or when it is available; None (acks=0) stays None."""
    if reply is None:
        return None
    return _later(reply, shape) if isinstance(reply, Awaitable) else shape(reply)


async def _later(reply: Awaitable[Any], shape: Callable[[Message], Message]) -> Any:  # noqa: ANN401 - as above
    response = await reply
    return None if response is None else shape(response)


def fetch_parts(broker: Broker, request: Message) -> Iterator[Part]:
    """Yield the partitions that a Fetch reads by its session and does not name (KIP-227)."""
    if not isinstance(request, FetchRequest) or request.session_epoch <= 0:
        return
    for target in broker.fetch_sessions.targets_of(request.session_id):
        yield (
            target.topic or broker.metadata.topic_name(target.topic_id) or "",
            target.asked.partition,
        )


def _refused_fetch(
    rule: FaultRule, error: ErrorCode, broker: Broker, request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    """Return the response to a Fetch with the error for the picked partitions.

    It does not wait for records of the others: a partition with an error ends the wait of a Fetch.
    """
    request.max_wait_ms = 0
    fetch = Fetch(broker, request, context.api_version)
    if fetch.plan.error:
        return FetchResponse(error_code=fetch.plan.error)
    refuse_unreadable(broker, fetch, context)
    picked = [
        key
        for key, target in fetch.plan.targets.items()
        if rule.picks(
            target.topic or broker.metadata.topic_name(target.topic_id) or "",
            target.asked.partition,
        )
    ]
    fetch.refuse(picked, error)
    fetch.read()
    return fetch.read_in() if fetch.cold else fetch.response()
