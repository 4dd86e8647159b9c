"""CreatePartitions (key 37): v0-3.

Behaviour
- Sets the number of partitions of each topic; it can only grow (INVALID_PARTITIONS).  New
  partitions have as many replicas as the topic's first one, or those assigned by hand, one list a
  new partition.
- A topic named twice: INVALID_REQUEST, once.  An unknown one: UNKNOWN_TOPIC_OR_PARTITION without a
  message.
- More than 10,000 new partitions of one topic: POLICY_VIOLATION.  (Apache Kafka fails there with
  UNKNOWN_SERVER_ERROR.)
- `validate_only` answers as if it had been done.

Version notes: flexible from v2; v3 may be throttled (KIP-599).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace

from kwire.broker import Broker
from kwire.cluster.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kwire.context import Context
from kwire.controller.topic_creation import PARTITIONS_MAX
from kwire.placement import check_manual, new_partition, place
from kwire.refusal import Refusal

log = logging.getLogger("kwire.topics")


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if times[topic.name] == 1]
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_refused(name, duplicate) for name in times if times[name] > 1]
    if request.validate_only:
        _, results = _decide(broker.image, wanted)
        return CreatePartitionsResponse(results=repeated + results)
    return _create(broker, wanted, repeated)


async def _create(
    broker: Broker,
    wanted: list[CreatePartitionsTopic],
    repeated: list[CreatePartitionsTopicResult],
) -> CreatePartitionsResponse:
    results: list[CreatePartitionsTopicResult] = []

    def change(image: ClusterImage) -> ClusterImage:
        nonlocal results
        image, results = _decide(image, wanted)
        return image

    try:
        await broker.commit(change)
    except StoreError as problem:
        log.error("partitions are not created: %s", problem)
        refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
        results = [_refused(topic.name, refusal) for topic in wanted]
    return CreatePartitionsResponse(results=repeated + results)


def _refused(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, refusal.error, refusal.message)


def _decide(
    image: ClusterImage, wanted: list[CreatePartitionsTopic]
) -> tuple[ClusterImage, list[CreatePartitionsTopicResult]]:
    changed: list[TopicImage] = []
    results = []
    for topic in wanted:
        try:
            changed.append(_grown(image, topic))
        except Refusal as refusal:
            results.append(_refused(topic.name, refusal))
        else:
            results.append(CreatePartitionsTopicResult(topic.name))
    return (image.with_topics(changed) if changed else image), results


def _grown(image: ClusterImage, wanted: CreatePartitionsTopic) -> TopicImage:
    """The topic with its new partitions.  Raises Refusal."""
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if wanted.count == have:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {wanted.count} would not "
            "be an increase.",
        )
    count = wanted.count - have
    if count > PARTITIONS_MAX:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    size = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        added = place(image.brokers, count, size, have)
    else:
        assigned = [each.broker_ids for each in wanted.assignments]
        added = _assigned(image, assigned, count, size)
    return replace(topic, partitions=(*topic.partitions, *added))


def _assigned(
    image: ClusterImage, assigned: list[list[int]], count: int, size: int
) -> list[PartitionImage]:
    if len(assigned) != count:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count} additional partition(s), but only {len(assigned)} "
            "assignment(s) were specified.",
        )
    for replicas in assigned:
        check_manual(replicas, image.brokers, size)
    return [new_partition(replicas) for replicas in assigned]
