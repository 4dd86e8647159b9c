"""Applies the quota `consumer_byte_rate` to a consumer's Fetch."""

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
    """Lower the size limits of `fetch` to its client's quota.  Call it before `fetch.read`."""
    client_id = context.client_id or ""
    quota_bytes = quotas.most_fetched(context.user, client_id)
    if quota_bytes is not None:
        fetch.max_bytes = min(fetch.max_bytes, quota_bytes)
        fetch.min_bytes = min(fetch.min_bytes, fetch.max_bytes)
        fetch.budget = _ClientBudget(quotas, context.user, client_id)


class _ClientBudget:
    """The quota of one user and client id; a `Budget` of kwire.requests.handlers.fetching.fetch."""

    __slots__ = ("_client_id", "_quotas", "_user")

    def __init__(self, quotas: ClientQuotas, user: str, client_id: str) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id

    def charge(self, fetch: Fetch) -> int:
        """Count the size of the whole response, as Kafka does; return the throttle time in ms."""
        frame = Frame()
        FetchResponse(responses=by_topic(fetch.answers)).write(frame, fetch.version)
        return self._quotas.fetched(
            self._user, self._client_id, frame.wire_size + _SIZE_FIELD_BYTES
        )
