"""Requests that go to the controllers of a cluster with KRaft: `Route.by_controller`.

Only a broker with such controllers imports this module.  Most requests go there whole.  Handlers
with a function `forward` check something before, as Apache Kafka's broker does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kwire.cluster.stores.kraft.forwarding import NotForwarded
from kwire.codecs.errors import ErrorCode
from kwire.requests.context import CloseConnection
from kwire.requests.unanswered import unanswered

if TYPE_CHECKING:
    from kwire.cluster.stores.kraft.forwarding import Forwarding
    from kwire.codecs.primitives import Message
    from kwire.requests.context import Context

log = logging.getLogger("kwire.controller")


async def forwarded(forwarding: Forwarding, request: Message, context: Context) -> Any:  # noqa: ANN401 - the request's
    """Return the controllers' answer to a client's request.

    If none of them answers it, the response has REQUEST_TIMED_OUT or UNKNOWN_SERVER_ERROR.  Raises
    CloseConnection if they do not know its version: the client then asks for the versions again.
    """
    try:
        return await forwarding.forward(request, context.api_version, context)
    except NotForwarded as failure:
        if failure.error is ErrorCode.UNSUPPORTED_VERSION:
            raise CloseConnection(str(failure)) from failure
        log.warning("a request of %s was not answered: %s", context.connection_id, failure)
        return unanswered(request, context.api_version, failure.error)
