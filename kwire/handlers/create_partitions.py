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

from kwire.broker import Broker
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
from kwire.metadata.changes import AddPartitions, decide_all
from kwire.metadata.image import ClusterImage, PartitionImage
from kwire.metadata.placement import check_manual, new_partition, place
from kwire.metadata.refusal import Refusal

log = logging.getLogger("kwire.topics")


def handle(
    broker: Broker, request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    times = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if times[topic.name] == 1]
    duplicate = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    repeated = [_refused(name, duplicate) for name in times if times[name] > 1]
    if request.validate_only:
        growths = [_Growth(topic) for topic in wanted]
        decide_all(broker.image, growths)
        return CreatePartitionsResponse(results=repeated + [each.result for each in growths])
    return _create(broker, wanted, repeated)


async def _create(
    broker: Broker,
    wanted: list[CreatePartitionsTopic],
    repeated: list[CreatePartitionsTopicResult],
) -> CreatePartitionsResponse:
    growths = [_Growth(topic) for topic in wanted]
    try:
        await broker.commit(growths)
    except StoreError as problem:
        log.error("partitions are not created: %s", problem)
        refusal = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
        return CreatePartitionsResponse(
            results=repeated + [_refused(topic.name, refusal) for topic in wanted]
        )
    return CreatePartitionsResponse(results=repeated + [each.result for each in growths])


def _refused(name: str, refusal: Refusal) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, refusal.error, refusal.message)


class _Growth:
    """The decision on one topic; `result` is what is answered of it."""

    def __init__(self, wanted: CreatePartitionsTopic) -> None:
        self._wanted = wanted
        self.result = CreatePartitionsTopicResult(wanted.name)

    def __call__(self, image: ClusterImage) -> AddPartitions | None:
        try:
            change = _added(image, self._wanted)
        except Refusal as refusal:
            self.result = _refused(self._wanted.name, refusal)
            return None
        self.result = CreatePartitionsTopicResult(self._wanted.name)
        return change


def _added(image: ClusterImage, wanted: CreatePartitionsTopic) -> AddPartitions:
    """The topic's new partitions.  Raises Refusal."""
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
    return AddPartitions(topic.name, topic.id, have, tuple(added))


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
