"""Records in and out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchResponse
from kwire.codecs.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.context import CloseConnection
from kwire.log import LogError
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.partitions import transactional_produce
from kwire.partitions.fetching import Fetch, replica_id
from kwire.partitions.produce_versions import TOPIC_IDS_SINCE
from kwire.security.guards.base import Access, Proceed, Response, then

if TYPE_CHECKING:
    from kwire.codecs.messages.fetch import FetchRequest
    from kwire.context import Context
    from kwire.security.authority import Authority

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
    # Another request, for what was learnt of this one's bytes would be all that is looked at.
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
    return lambda topic: access.broker.topic_name(topic.topic_id) or ""


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
    """With acks=0 the end of the connection is all that a client can see of an error."""
    if request.acks != 0:
        return None
    errors = ", ".join(f"{topic.name or topic.topic_id.hex()}" for topic in refused)
    problem = CloseConnection(f"produce with acks=0 is not authorized on {errors}")
    if isinstance(reply, Awaitable):
        return _close_after(reply, problem)
    raise problem


async def _close_after(reply: Awaitable[Any], problem: CloseConnection) -> None:
    await reply
    raise problem


def fetch(access: Access, request: FetchRequest, proceed: Proceed) -> Response:
    """Replicas are brokers' business; of what consumers ask the handler has `leave_out` look at
    each partition, those of a session too."""
    is_consumer = replica_id(request, access.version) < 0
    if is_consumer or access.on_cluster(AclOperation.CLUSTER_ACTION):
        return proceed(request)
    refused = Fetch(access.broker, request, access.version)
    refused.refuse(list(refused.plan.targets), DENIED)
    return (
        FetchResponse(error_code=refused.plan.error) if refused.plan.error else refused.response()
    )


def leave_out(authority: Authority, fetch: Fetch, context: Context) -> None:
    """Have what the consumer may not read refused, and the rest read; replicas may read all."""
    if fetch.from_replica:
        return
    permitted: dict[str, bool] = {}

    def may_read(name: str | None) -> bool:
        if name is None:
            return True  # nobody knows the topic
        if name not in permitted:
            permitted[name] = authority.allows(context, AclOperation.READ, TOPIC, name)
        return permitted[name]

    name_of = fetch.broker.topic_name
    denied = [
        key
        for key, target in fetch.plan.targets.items()
        if not may_read(target.topic or name_of(target.topic_id))
    ]
    if denied:
        fetch.refuse(denied, DENIED)
