"""Handles the acknowledgements of a member, in ShareAcknowledge and ShareFetch requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import ShareFetchRequest
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.partition import (
    AcknowledgedBatch,
    AcknowledgementRefused,
    AcknowledgeType,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import MemberKey, TopicIdPartition
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.coordinators.share_partitions.manager import ShareManager


def _resolve(promise: Promise[PartitionOutcome], error: ErrorCode) -> None:
    promise.resolve(PartitionOutcome(error))


class WireAcknowledgement(Protocol):
    """A batch of acknowledgements; both request types have a class of their own for it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Acknowledgements = list[tuple[TopicIdPartition, Sequence[WireAcknowledgement]]]
"""(partition, its batches) for each partition that a request names."""


def acknowledgements_of(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Acknowledgements:
    """Return the acknowledgements of a request; an empty list for partitions without any."""
    return [
        ((topic.topic_id, partition.partition_index), partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
    ]


class PartitionOutcome(NamedTuple):
    """The result of the acknowledgements for one partition."""

    error: ErrorCode
    message: str | None = None


DONE = PartitionOutcome(ErrorCode.NONE)
INVALID = PartitionOutcome(ErrorCode.INVALID_REQUEST)
DENIED = PartitionOutcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
NOT_READ = PartitionOutcome(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
"""Apache Kafka's answer for a partition that is hosted here but not read by the group."""
_HIGHEST_TYPE = {1: AcknowledgeType.REJECT, 2: AcknowledgeType.RENEW}
"""The highest acknowledgement type of each request version."""


def are_valid(batches: Iterable[WireAcknowledgement], version: int, *, renews: bool) -> bool:
    """Return whether the batches are in offset order and have valid types.

    A batch may begin at the last offset of the batch before it: the second acknowledgement of that
    offset is refused later, because the record is not acquired any more.
    """
    end = -1
    for batch in batches:
        types, length = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if length < 1 or batch.first_offset < end or len(types) not in (1, length):
            return False
        if not all(0 <= kind <= _HIGHEST_TYPE[version] for kind in types):
            return False
        if AcknowledgeType.RENEW in types and not renews:
            return False
        end = batch.last_offset
    return True


async def acknowledge(
    shares: ShareManager,
    member: MemberKey,
    said: Sequence[tuple[TopicIdPartition, Sequence[WireAcknowledgement]]],
    version: int,
    *,
    renews: bool,
    may_read: Callable[[TopicIdPartition], bool] | None = None,
) -> list[PartitionOutcome]:
    """Carries out acknowledgements; returns an outcome per partition once all are written.

    `renews`: whether the request may contain RENEW.  `may_read`: whether the member may read a
    partition; None if that needs no check.
    """
    pending: list[Promise[PartitionOutcome]] = []
    for place, batches in said:
        promise = Promise[PartitionOutcome]()
        pending.append(promise)
        led = shares.find(ShareKey(member[0], *place))
        if not are_valid(batches, version, renews=renews):
            promise.resolve(INVALID)
        elif may_read is not None and not may_read(place):
            promise.resolve(DENIED)
        elif led is None or not batches:
            promise.resolve(_without_records(shares, place, batches))
        else:
            _acknowledge(led, member[1], batches, promise)
    return [promise.value if promise.resolved else await promise.wait() for promise in pending]


def _without_records(
    shares: ShareManager, place: TopicIdPartition, batches: Sequence[WireAcknowledgement]
) -> PartitionOutcome:
    """Return the outcome of a partition of which no record is acknowledged.

    It is an error if the partition is not here, NOT_READ if the group does not read it here, DONE
    if there are no batches.
    """
    if not shares.hosts(place):
        return PartitionOutcome(shares.error_for_missing(place))
    return NOT_READ if batches else DONE


def _acknowledge(
    led: LedPartition,
    member_id: str,
    batches: Sequence[WireAcknowledgement],
    promise: Promise[PartitionOutcome],
) -> None:
    """Acknowledges a member's batches of one partition; `promise` gets the outcome.

    The outcome comes once the share coordinator has stored it, or at once if it is refused.
    """
    acknowledged = [
        AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in batches
    ]
    try:
        led.acknowledge(member_id, acknowledged, partial(_resolve, promise))
    except AcknowledgementRefused as refused:
        promise.resolve(PartitionOutcome(refused.error, str(refused)))
