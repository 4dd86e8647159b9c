"""A Fetch of a consumer that has a `consumer_byte_rate`: a `Budget`
(kwire.requests.handlers.fetching.fetch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.primitives import Frame
from kwire.requests.handlers.fetching.fetch import by_topic

if TYPE_CHECKING:
    from kwire.requests.context import Context
    from kwire.requests.handlers.fetching.fetch import Fetch
    from kwire.security.quotas.enforced import ClientQuotas

_SIZE_FIELD_BYTES = 4


def limit(fetch: Fetch, quotas: ClientQuotas, context: Context) -> None:
    """Hold a fetch to what its client may have; before it reads."""
    client_id = context.client_id or ""
    most = quotas.most_fetched(context.user, client_id)
    if most is not None:
        fetch.max_bytes = min(fetch.max_bytes, most)
        fetch.min_bytes = min(fetch.min_bytes, fetch.max_bytes)
        fetch.budget = _Share(quotas, context.user, client_id)


class _Share:
    __slots__ = ("_client_id", "_quotas", "_user")

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id

    def charge(self, fetch: Fetch) -> int:
        """By the size of the whole answer, as Kafka counts it."""
        frame = Frame()
        FetchResponse(responses=by_topic(fetch.answers)).write(frame, fetch.version)
        return self._quotas.fetched(
            self._user, self._client_id, frame.wire_size + _SIZE_FIELD_BYTES
        )
