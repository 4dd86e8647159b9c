"""Guards of requests about several topics, of which each is allowed or refused by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.cluster.decisions.outcome import named_once
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import CreatePartitionsTopicResult
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)
from kwire.codecs.messages.describe_producers import PartitionResponse, TopicResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)
from kwire.requests.guards.base import Access, Proceed, Request, Response, then

if TYPE_CHECKING:
    from kwire.codecs.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from kwire.codecs.messages.delete_records import DeleteRecordsRequest
    from kwire.codecs.messages.describe_producers import DescribeProducersRequest
    from kwire.codecs.messages.list_offsets import ListOffsetsRequest
    from kwire.codecs.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGE = "Topic authorization failed."


def _by_topic(
    access: Access,
    request: Request,
    proceed: Proceed,
    operation: AclOperation,
    refuse: Callable[[Response], Response],
    name_of: Callable[[Any], str] = lambda topic: str(topic.name),
) -> Response:
    """Let the handler answer for the allowed topics; `refuse` makes the answer of each other."""
    topics = request.topics
    allowed, denied = access.split(operation, ResourceType.TOPIC, topics, name_of)
    if not denied:
        return proceed(request)
    refused = [refuse(topic) for topic in denied]
    # A copy: a shortcut must not learn from a request that lacks what its bytes contain.
    request = replace(request, topics=allowed)

    def merge(response: Response) -> Response:
        response.topics = [*refused, *response.topics]
        return response

    return then(proceed(request), merge)


def list_offsets(access: Access, request: ListOffsetsRequest, proceed: Proceed) -> Response:
    return _by_topic(
        access,
        request,
        proceed,
        AclOperation.DESCRIBE,
        lambda topic: ListOffsetsTopicResponse(
            topic.name,
            [
                ListOffsetsPartitionResponse(partition.partition_index, DENIED)
                for partition in topic.partitions
            ],
        ),
    )


def delete_records(access: Access, request: DeleteRecordsRequest, proceed: Proceed) -> Response:
    return _by_topic(
        access,
        request,
        proceed,
        AclOperation.DELETE,
        lambda topic: DeleteRecordsTopicResult(
            topic.name,
            [
                DeleteRecordsPartitionResult(partition.partition_index, -1, DENIED)
                for partition in topic.partitions
            ],
        ),
    )


def offset_for_leader_epoch(
    access: Access, request: OffsetForLeaderEpochRequest, proceed: Proceed
) -> Response:
    """Brokers may send it for every topic, consumers for topics that they may describe."""
    if access.on_cluster(AclOperation.CLUSTER_ACTION, quiet=True):
        return proceed(request)
    return _by_topic(
        access,
        request,
        proceed,
        AclOperation.DESCRIBE,
        lambda topic: OffsetForLeaderTopicResult(
            topic.topic,
            [EpochEndOffset(DENIED, partition.partition) for partition in topic.partitions],
        ),
        lambda topic: str(topic.topic),
    )


def describe_producers(
    access: Access, request: DescribeProducersRequest, proceed: Proceed
) -> Response:
    return _by_topic(
        access,
        request,
        proceed,
        AclOperation.READ,
        lambda topic: TopicResponse(
            topic.name,
            [PartitionResponse(index, DENIED, MESSAGE) for index in topic.partition_indexes],
        ),
    )


def create_partitions(
    access: Access, request: CreatePartitionsRequest, proceed: Proceed
) -> Response:
    """The handler refuses a topic that stands twice, whatever the sender's rights."""
    distinct_topics, _ = named_once(request.topics, lambda topic: topic.name)
    permitted = access.permitted(
        AclOperation.ALTER, ResourceType.TOPIC, (topic.name for topic in distinct_topics)
    )
    denied = {topic.name: None for topic in distinct_topics if topic.name not in permitted}
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def merge(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results += [CreatePartitionsTopicResult(name, DENIED) for name in denied]
        return response

    return then(proceed(request), merge)
