"""Guards of requests to the share coordinator: only brokers may send them.

A refusal is the error of each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.cluster.metadata.acls import AclOperation
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import delete_share_group_state as delete
from kwire.codecs.messages import initialize_share_group_state as initialize
from kwire.codecs.messages import read_share_group_state as read
from kwire.codecs.messages import read_share_group_state_summary as summary
from kwire.codecs.messages import write_share_group_state as write
from kwire.requests.guards.base import Access, Guard, Proceed, Request, Response

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MESSAGE: Final = "Cluster authorization failed."

Make = Callable[..., Any]


def _guard(response: Make, topic: Make, partition: Make) -> Guard:
    """The guard of one API key; `response`, `topic` and `partition` are its response's classes."""

    def guard(access: Access, request: Request, proceed: Proceed) -> Response:
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


initialize_share_group_state = _guard(
    initialize.InitializeShareGroupStateResponse,
    initialize.InitializeStateResult,
    initialize.PartitionResult,
)
read_share_group_state = _guard(
    read.ReadShareGroupStateResponse, read.ReadStateResult, read.PartitionResult
)
write_share_group_state = _guard(
    write.WriteShareGroupStateResponse, write.WriteStateResult, write.PartitionResult
)
delete_share_group_state = _guard(
    delete.DeleteShareGroupStateResponse, delete.DeleteStateResult, delete.PartitionResult
)
read_share_group_state_summary = _guard(
    summary.ReadShareGroupStateSummaryResponse,
    summary.ReadStateSummaryResult,
    summary.PartitionResult,
)
