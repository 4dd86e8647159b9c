"""Guards of Produce and Fetch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.coordinators.runtime import transactional_produce
from kwire.log import LogError
from kwire.requests.context import CloseConnection
from kwire.requests.guards.base import Access, Proceed, Response, then
from kwire.requests.handlers.fetching.fetch import Fetch, replica_id
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE

if TYPE_CHECKING:
    from kwire.codecs.messages.fetch import FetchRequest

TOPIC = ResourceType.TOPIC
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def produce(access: Access, request: ProduceRequest, proceed: Proceed) -> Response:
    if not _may_be_transactional(access, request):
        refused = [_refused(topic, TRANSACTION_DENIED) for topic in request.topic_data]
        return _closing(request, None, refused) or ProduceResponse(refused)
    allowed, denied = access.split(
        AclOperation.WRITE, TOPIC, request.topic_data, _names(access), nameless=True
    )
    if not denied:
        return proceed(request)
    refused = [_refused(topic, DENIED) for topic in denied]
    # A copy: a shortcut must not learn from a request that lacks what its bytes contain.
    rest = replace(request, topic_data=allowed)

    def merge(response: ProduceResponse) -> ProduceResponse:
        response.responses = [*refused, *response.responses]
        return response

    reply = proceed(rest)
    return _closing(request, reply, refused) if request.acks == 0 else then(reply, merge)


def _may_be_transactional(access: Access, request: ProduceRequest) -> bool:
    try:
        if not transactional_produce.has_transactional(request):
            return True
    except LogError:
        return True  # the handler refuses it
    name = request.transactional_id
    return name is not None and access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _names(access: Access) -> Callable[[TopicProduceData], str]:
    if access.version < TOPIC_IDS_SINCE:
        return lambda topic: topic.name
    return lambda topic: access.broker.metadata.topic_name(topic.topic_id) or ""


def _refused(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        topic.name,
        topic.topic_id,
        [
            PartitionProduceResponse(data.index, error, -1, log_start_offset=-1)
            for data in topic.partition_data
        ],
    )


def _closing(
    request: ProduceRequest, reply: Response, refused: list[TopicProduceResponse]
) -> Response:
    """Close the connection of an acks=0 request, after its allowed part is written; else None.

    The client can see an error in no other way.
    """
    if request.acks != 0:
        return None
    topics = ", ".join(f"{topic.name or topic.topic_id.hex()}" for topic in refused)
    problem = CloseConnection(f"produce with acks=0 is not authorized on {topics}")
    if isinstance(reply, Awaitable):
        return _close_after(reply, problem)
    raise problem


async def _close_after(reply: Awaitable[Any], problem: CloseConnection) -> None:
    await reply
    raise problem


def fetch(access: Access, request: FetchRequest, proceed: Proceed) -> Response:
    """Only brokers may fetch as a replica.

    The handler checks the rights of consumers, because a session has partitions that its requests
    do not name.
    """
    is_consumer = replica_id(request, access.version) < 0
    if is_consumer or access.on_cluster(AclOperation.CLUSTER_ACTION):
        return proceed(request)
    refused = Fetch(access.broker, request, access.version)
    refused.refuse(list(refused.plan.targets), DENIED)
    return (
        FetchResponse(error_code=refused.plan.error) if refused.plan.error else refused.response()
    )
