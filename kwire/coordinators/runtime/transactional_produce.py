"""Finds the transactional batches of a Produce request and verifies that they may be written.

All transactional batches of a request must be of one producer, and the request must name its
transactional id; otherwise the whole request fails.  kwire.coordinators.runtime.verification
explains the verification of each partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import trio

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
from kwire.coordinators.runtime.verification import (
    PARTITIONS_AT_ONCE,
    ProducerIdentity,
    TopicPartition,
    VerificationResult,
    VerificationSupport,
    verify,
    verify_in_turns,
)
from kwire.log import LogError, whole_batch_size
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.codecs.messages.produce import ProduceRequest
    from kwire.codecs.primitives import Records
    from kwire.coordinators.runtime.coordinators import Coordinators

ABORTABLE_SINCE = 11

_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors if the coordinator cannot decide or cannot be reached.  Producers do not expect these, so
Produce answers NOT_ENOUGH_REPLICAS instead, which they retry."""

ProducerFields: TypeAlias = dict[TopicPartition, tuple[int, int, int]]
"""Partition -> producer id, producer epoch and base sequence of its transactional batch."""


def is_transactional(records: Records | None) -> bool:
    """Return whether the header marks a transactional batch.

    The batch is validated later.
    """
    return (
        isinstance(records, memoryview)
        and len(records) >= HEADER_SIZE
        and records[FLAGS_POS] & TRANSACTIONAL_FLAG != 0
        and records[MAGIC_POS] == MAGIC
    )


def has_transactional(request: ProduceRequest) -> bool:
    """Return whether any batch of a Produce request is transactional.

    Partitions that do not exist count too.  Raises LogError, the answer to the whole request, if a
    batch before the first transactional one has an impossible length or magic.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                whole_batch_size(data.records)
                if is_transactional(data.records):
                    return True
    return False


def verify_request(
    node: Node, coordinators: Coordinators, request: ProduceRequest, version: int
) -> VerificationResult | Awaitable[VerificationResult]:
    """Verifies the transactional batches of a request that has some.

    Raises LogError if that is the answer to the whole request.
    """
    if request.transactional_id is None:
        raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    count = sum(len(topic.partition_data) for topic in request.topic_data)
    if count > PARTITIONS_AT_ONCE:
        return _verify_in_turns(node, coordinators, request, version)
    batches = dict(_batches(node, request, version))
    if not batches:
        return VerificationResult({}, {})
    return verify(node, coordinators, *_to_verify(request, version, batches))


async def _verify_in_turns(
    node: Node, coordinators: Coordinators, request: ProduceRequest, version: int
) -> VerificationResult:
    """As `verify_request`, for a request with so many partitions that others must not wait."""
    batches: ProducerFields = {}
    rest = _batches(node, request, version)
    while part := dict(islice(rest, PARTITIONS_AT_ONCE)):
        batches |= part
        await trio.lowlevel.checkpoint()
    if not batches:
        return VerificationResult({}, {})
    return await verify_in_turns(node, coordinators, *_to_verify(request, version, batches))


def _to_verify(
    request: ProduceRequest, version: int, batches: ProducerFields
) -> tuple[ProducerIdentity, dict[TopicPartition, int], VerificationSupport]:
    """Return the producer, the base sequence of each partition's batch, and what the version of
    the request supports.  Raises LogError if the batches have several producers."""
    sequences = {place: sequence for place, (_, _, sequence) in batches.items()}
    support = VerificationSupport.of(version, ABORTABLE_SINCE)
    return _producer(request, batches), sequences, support


def _producer(request: ProduceRequest, batches: ProducerFields) -> ProducerIdentity:
    """Return the only producer of the batches.  Raises LogError if there are several."""
    producers = {(producer_id, epoch) for producer_id, epoch, _ in batches.values()}
    if len(producers) > 1:
        raise LogError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            message="Transactional records contained more than one producer ID",
        )
    assert request.transactional_id is not None, "verify_request has checked it"
    return ProducerIdentity(request.transactional_id, *producers.pop())


def _batches(
    node: Node, request: ProduceRequest, version: int
) -> Iterator[tuple[TopicPartition, tuple[int, int, int]]]:
    """Yield transactional batches with a producer id, of partitions hosted here.

    A batch without a producer id is treated as a plain one.
    """
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
                    yield (name, data.index), producer


def refusal(error: ErrorCode) -> LogError:
    """Return the error of a Produce response for a transactional batch that may not be written."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return LogError(error, message="Partition was not added to the transaction")
    if error in _RETRIABLE:
        return LogError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            message="Unable to verify the partition has been added to the transaction."
            f" Underlying error: {error.name}",
        )
    return LogError(error)
