"""What a member says of records that it has, in ShareAcknowledge and in ShareFetch alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import ShareFetchRequest
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.partition import AcknowledgedBatch, AcknowledgeType, Refused
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import Place, Reader
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.coordinators.share_partitions.manager import ShareManager


def _resolve(promise: Promise[Outcome], error: ErrorCode) -> None:
    promise.resolve(Outcome(error))


class Batch(Protocol):
    """As both requests have it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Said = list[tuple[Place, Sequence[Batch]]]
"""Of which partitions a request says something, and what."""


def said_in(request: ShareFetchRequest | ShareAcknowledgeRequest) -> Said:
    """All partitions that it names, also those of which it says nothing."""
    return [
        ((topic.topic_id, partition.partition_index), partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
    ]


class Outcome(NamedTuple):
    """What a member is told of what it has said of a partition."""

    error: ErrorCode
    sentence: str | None = None


DONE = Outcome(ErrorCode.NONE)
INVALID = Outcome(ErrorCode.INVALID_REQUEST)
DENIED = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
NOT_READ = Outcome(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
"""What Apache Kafka says of a partition that is there, but that the group does not read."""
_HIGHEST = {1: AcknowledgeType.REJECT, 2: AcknowledgeType.RENEW}
"""Kinds that there are, by the version of the request."""


def are_valid(batches: Iterable[Batch], version: int, *, renews: bool) -> bool:
    """Whether they follow each other, and say something that there is of each offset.

    One may begin where the one before it ends: that is seen when its second mention is looked at.
    """
    end = -1
    for batch in batches:
        types, length = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if length < 1 or batch.first_offset < end or len(types) not in (1, length):
            return False
        if not all(0 <= kind <= _HIGHEST[version] for kind in types):
            return False
        if AcknowledgeType.RENEW in types and not renews:
            return False
        end = batch.last_offset
    return True


async def acknowledge(
    shares: ShareManager,
    reader: Reader,
    said: Sequence[tuple[Place, Sequence[Batch]]],
    version: int,
    *,
    renews: bool,
    may_read: Callable[[Place], bool] | None = None,
) -> list[Outcome]:
    """What comes of each, once it is written; `may_read`: which topics, where somebody asks."""
    pending: list[Promise[Outcome]] = []
    for place, batches in said:
        promise = Promise[Outcome]()
        pending.append(promise)
        led = shares.find(ShareKey(reader[0], *place))
        if not are_valid(batches, version, renews=renews):
            promise.resolve(INVALID)
        elif may_read is not None and not may_read(place):
            promise.resolve(DENIED)
        elif led is None or not batches:
            promise.resolve(_without_records(shares, place, batches))
        else:
            _acknowledge(led, reader[1], batches, promise)
    return [each.value if each.resolved else await each.wait() for each in pending]


def _without_records(shares: ShareManager, place: Place, batches: Sequence[Batch]) -> Outcome:
    """Where the group reads nothing, or nothing is said."""
    if not shares.hosts(place):
        return Outcome(shares.why_not_read(place))
    return NOT_READ if batches else DONE


def _acknowledge(
    led: LedPartition, member_id: str, batches: Sequence[Batch], promise: Promise[Outcome]
) -> None:
    given = [
        AcknowledgedBatch(each.first_offset, each.last_offset, each.acknowledge_types)
        for each in batches
    ]
    try:
        led.acknowledge(member_id, given, partial(_resolve, promise))
    except Refused as refused:
        promise.resolve(Outcome(refused.error, str(refused)))
