"""The transactional batches of a Produce request: whose they are, and whether they may be written.

All of a request's transactional batches are of one producer, which says its transactional id.  A
request that is wrong in that fails whole; see kwire.coordinators.runtime.verification for
the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias

from kwire.codecs.batch_layout import (
    FLAGS_POS,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POS,
    PRODUCER,
    PRODUCER_POS,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.verification import Place, Producer, Support, Verdict, verify
from kwire.log import LogError, whole_batch_size
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.codecs.messages.produce import ProduceRequest
    from kwire.codecs.primitives import Records
    from kwire.coordinators.runtime.coordinators import Coordinators

ABORTABLE_SINCE = 11

_NOT_NOW = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What the coordinator says when it cannot tell, or is not reached; producers know none of it."""

Batches: TypeAlias = dict[Place, tuple[int, int, int]]
"""The producer's id, its epoch and the base sequence of each partition's transactional batch."""


def is_transactional(records: Records | None) -> bool:
    """Whether it looks like a batch of a transaction; what it is worth is looked at later."""
    return (
        isinstance(records, memoryview)
        and len(records) >= HEADER_SIZE
        and records[FLAGS_POS] & TRANSACTIONAL_FLAG != 0
        and records[MAGIC_POS] == MAGIC
    )


def has_transactional(request: ProduceRequest) -> bool:
    """Whether any partition's batch is one of a transaction.

    This is what is looked for first, in partitions that are there and that are not, up to the first
    one. LogError, which answers the whole request, where the length or the magic cannot be.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                whole_batch_size(data.records)
                if is_transactional(data.records):
                    return True
    return False


def verdict(
    node: Node, coordinators: Coordinators, request: ProduceRequest, version: int
) -> Verdict | Awaitable[Verdict]:
    """Of the transactional batches of a request that has some.

    Raises LogError where that is the answer to the whole request.
    """
    if request.transactional_id is None:
        raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    batches = _batches(node, request, version)
    producers = {(producer_id, epoch) for producer_id, epoch, _ in batches.values()}
    if not producers:
        return Verdict({}, {})
    if len(producers) > 1:
        raise LogError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            message="Transactional records contained more than one producer ID",
        )
    producer = Producer(request.transactional_id, *producers.pop())
    sequences = {place: sequence for place, (_, _, sequence) in batches.items()}
    support = Support.of(version, ABORTABLE_SINCE)
    return verify(node, coordinators, producer, sequences, support)


def _batches(node: Node, request: ProduceRequest, version: int) -> Batches:
    """Those with a producer id, of partitions that are there; without one they are plain ones."""
    batches: Batches = {}
    for topic in request.topic_data:
        name = topic.name if version < TOPIC_IDS_SINCE else node.metadata.topic_name(topic.topic_id)
        hosted = node.hosted.by_topic.get(name) if name is not None else None
        if name is None or hosted is None:
            continue
        for data in topic.partition_data:
            if data.index in hosted and is_transactional(data.records):
                assert isinstance(data.records, memoryview)
                producer = PRODUCER.unpack_from(data.records, PRODUCER_POS)
                if producer[0] >= 0:
                    batches[name, data.index] = producer
    return batches


def refusal(error: ErrorCode) -> LogError:
    """How Produce tells that a transactional batch may not be written."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return LogError(error, message="Partition was not added to the transaction")
    if error in _NOT_NOW:
        return LogError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            message="Unable to verify the partition has been added to the transaction."
            f" Underlying error: {error.name}",
        )
    return LogError(error)
