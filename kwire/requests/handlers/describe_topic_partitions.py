"""DescribeTopicPartitions (key 75): v0.

Behaviour
- The response has the requested topics sorted by name, or all for an empty list, with their
  partitions in order.
- It has at most `response_partition_limit` and `max.request.partition.size.limit` partitions, but
  at least one.  If some are left out, `next_cursor` has the topic and partition with which the next
  request starts.
- A cursor skips the topics before its own.  Its topic must be in the list, if there is one, and its
  partition must not be negative; otherwise each topic has INVALID_REQUEST.
- Unknown topics have UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION and do not count against
  the limit.  A list with an empty name fails with UNKNOWN_SERVER_ERROR, as in Kafka.
- Eligible leader replicas (KIP-966) are always empty.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import ClusterImage, PartitionImage
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS, why_invalid
from kwire.cluster.metadata.views import leader_seen, offline_replicas
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.guards.visibility import topic_operations
from kwire.requests.route import Right, Route
from kwire.security.operations import TOPIC_OPERATIONS

ROUTE = Route(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, Right(AclOperation.DESCRIBE, ResourceType.TOPIC)
)


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Return one page of topics and partitions, sorted by name, from the cursor on."""
    requested_names = [topic.name for topic in request.topics]
    error = _request_error(requested_names, request.cursor)
    if error is not None:
        return DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(error, name) for name in requested_names]
        )
    names = sorted(set(requested_names) or broker.image.topics)
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = request.cursor.partition_index
    limit: int = broker.config.max_request_partition_size_limit
    limit = max(1, min(limit, request.response_partition_limit))
    return _describe(broker.image, context.listener, names, first_partition, limit)


def _request_error(requested_names: list[str], cursor: Cursor | None) -> ErrorCode | None:
    """Return the error of a request that is refused as a whole, else None.

    An empty name gives UNKNOWN_SERVER_ERROR, as in Apache Kafka.
    """
    if "" in requested_names:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if cursor is not None:
        if cursor.partition_index < 0:
            return ErrorCode.INVALID_REQUEST
        if requested_names and cursor.topic_name not in requested_names:
            return ErrorCode.INVALID_REQUEST
    return None


def _describe(
    image: ClusterImage, listener: str, names: list[str], first_partition: int, limit: int
) -> DescribeTopicPartitionsResponse:
    """Return at most `limit` partitions, and the cursor where the next page starts.

    `first_partition` counts for the first topic only.
    """
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic_response = _topic(image, name)
        response.topics.append(topic_response)
        topic = image.topics.get(name)
        if topic is not None:
            end = min(len(topic.partitions), first_partition + limit)
            topic_response.partitions = [
                _partition(image, index, topic.partitions[index], listener)
                for index in range(first_partition, end)
            ]
            limit -= len(topic_response.partitions)
            if end < len(topic.partitions) and limit == 0:
                response.next_cursor = Cursor(name, end)
                break
        first_partition = 0
    return response


def _topic(image: ClusterImage, name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return a topic without its partitions, or with the error why it has none."""
    response = DescribeTopicPartitionsResponseTopic(
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    topic = image.topics.get(name)
    if topic is not None:
        response.topic_id = topic.id
    elif why_invalid(name) is not None:
        response.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        response.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return response


def _partition(
    image: ClusterImage, index: int, partition: PartitionImage, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    """Return the leader, replicas and ISR of one partition."""
    _, leader = leader_seen(
        image, partition, listener
    )  # unlike Metadata, no error without a leader
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=list(partition.last_eligible),
        offline_replicas=offline_replicas(image, partition),
    )


# -- rights


def guard(access: Access, request: DescribeTopicPartitionsRequest, proceed: Proceed) -> Response:
    """Let the handler describe topics that the sender may describe.

    Topics that the request names are refused one by one; if it requests all topics, the others are
    left out.
    """
    everything = not request.topics
    names = [topic.name for topic in request.topics] or sorted(access.broker.image.topics)
    if "" in names:
        return proceed(request)  # the handler refuses it as a whole
    seen = access.permitted(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    denied = [] if everything else [name for name in dict.fromkeys(names) if name not in seen]
    allowed = [TopicRequest(name) for name in names if name in seen]
    cursor = request.cursor
    if everything and cursor is not None:
        # The cursor's topic may have been deleted or hidden; the handler needs it in the list.
        allowed = [topic for topic in allowed if topic.name >= cursor.topic_name]
        if not (allowed and allowed[0].name == cursor.topic_name):
            cursor = None

    def merge(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        """Set the sender's operations on each topic, and add the refused topics."""
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = topic_operations(access, topic.name)
        response.topics += [
            DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
            for name in denied
        ]
        return response

    if not allowed:  # an empty list would request all topics
        return merge(DescribeTopicPartitionsResponse())
    return reshaped(proceed(replace(request, topics=allowed, cursor=cursor)), merge)
