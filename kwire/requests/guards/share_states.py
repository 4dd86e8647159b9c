"""The guard of requests to the share coordinator: only brokers may send them.

A refusal is the error of each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode
from kwire.requests.guards.base import Access, Guard, Proceed, Request, Response

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MESSAGE: Final = "Cluster authorization failed."

Make = Callable[..., Any]


def brokers_only(response: Make, topic: Make, partition: Make) -> Guard:
    """Return a guard that lets only brokers send the request, for the share coordinator's API keys.

    `response`, `topic` and `partition` are the classes of the response.
    """

    def guard(access: Access, request: Request, proceed: Proceed) -> Response:
        """Pass the request of a broker on; refuse every partition for any other sender."""
        if access.on_cluster(AclOperation.CLUSTER_ACTION):
            return proceed(request)
        return response(
            [
                topic(
                    requested.topic_id,
                    [partition(data.partition, DENIED, MESSAGE) for data in requested.partitions],
                )
                for requested in request.topics
            ]
        )

    return guard
