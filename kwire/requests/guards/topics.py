"""Requests that name topics, each of which may be refused by itself."""

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
    """Have done what may be done on the topics; `refuse` makes the answer for each other one."""
    topics = request.topics
    allowed, denied = access.split(operation, ResourceType.TOPIC, topics, name_of)
    if not denied:
        return proceed(request)
    refused = [refuse(topic) for topic in denied]
    # Another request: a shortcut must not learn from one that lacks what its bytes ask for.
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
                ListOffsetsPartitionResponse(each.partition_index, DENIED)
                for each in topic.partitions
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
                DeleteRecordsPartitionResult(each.partition_index, -1, DENIED)
                for each in topic.partitions
            ],
        ),
    )


def offset_for_leader_epoch(
    access: Access, request: OffsetForLeaderEpochRequest, proceed: Proceed
) -> Response:
    """Brokers may ask about every topic, consumers about those that they may see."""
    if access.on_cluster(AclOperation.CLUSTER_ACTION, quiet=True):
        return proceed(request)
    return _by_topic(
        access,
        request,
        proceed,
        AclOperation.DESCRIBE,
        lambda topic: OffsetForLeaderTopicResult(
            topic.topic,
            [EpochEndOffset(DENIED, each.partition) for each in topic.partitions],
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
    """A topic that is named twice is that, whoever asks."""
    once, _ = named_once(request.topics, lambda topic: topic.name)
    permitted = access.permitted(
        AclOperation.ALTER, ResourceType.TOPIC, (topic.name for topic in once)
    )
    denied = {topic.name: None for topic in once if topic.name not in permitted}
    request.topics = [topic for topic in request.topics if topic.name not in denied]

    def merge(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results += [CreatePartitionsTopicResult(name, DENIED) for name in denied]
        return response

    return then(proceed(request), merge)
