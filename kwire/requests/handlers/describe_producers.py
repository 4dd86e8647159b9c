"""DescribeProducers (key 61): v0.

Behaviour
- The response has the producers in a partition's producer state, each with the first offset of its
  open transaction (-1: none) and the epoch of the coordinator that last ended one (-1: none)
  (KIP-664).
- INVALID_TOPIC_EXCEPTION and UNKNOWN_TOPIC_OR_PARTITION have a message if the topic does not exist,
  and none if only the partition does not, as in Apache Kafka.
- Partitions stand in the order of the request, as often as in the request.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import why_invalid
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.log import LogError
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.guards.topics import by_topic
from kwire.requests.route import Right, Route

_NOT_HOSTED = "This server does not host this topic-partition."

ROUTE = Route(ApiKey.DESCRIBE_PRODUCERS, 0, 0, Right(AclOperation.READ, ResourceType.TOPIC))


def handle(
    broker: Broker, request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    """Return the active producers of each partition that this broker leads."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(broker, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    """Return the producer state of one partition, or the error."""
    try:
        producers = broker.hosted.led(topic, index).log.producers.entries.values()
    except LogError as error:
        return _failure(broker, topic, index, error.error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer in producers
        ],
    )


def _failure(broker: Broker, topic: str, index: int, error: ErrorCode) -> PartitionResponse:
    """Return the error of one partition; it has a message only if the topic does not exist."""
    message = None
    if topic not in broker.image.topics:
        reason = why_invalid(topic)
        if reason is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        message = reason or _NOT_HOSTED
    return PartitionResponse(partition_index=index, error_code=error, error_message=message)


# -- rights

MESSAGE = "Topic authorization failed."


def guard(access: Access, request: DescribeProducersRequest, proceed: Proceed) -> Response:
    """Let the handler describe topics that the sender may read; refuse the others."""
    return by_topic(
        access,
        request,
        proceed,
        AclOperation.READ,
        lambda topic: TopicResponse(
            topic.name,
            [
                PartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, MESSAGE)
                for index in topic.partition_indexes
            ],
        ),
    )
