"""What a member says of records that it has, in ShareAcknowledge and in ShareFetch alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_acknowledge import ShareAcknowledgeRequest
from kwire.codecs.messages.share_fetch import ShareFetchRequest
from kwire.coordinators.promise import Promise
from kwire.share.partition import AcknowledgedBatch, AcknowledgeType, Refused
from kwire.share.records import ShareKey
from kwire.share.session import Place
from kwire.sharing.manager import ShareManager


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
    return [
        ((topic.topic_id, partition.partition_index), partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    ]


class Outcome(NamedTuple):
    """What a member is told of what it has said of a partition."""

    error: ErrorCode
    sentence: str | None = None


DONE = Outcome(ErrorCode.NONE)
INVALID = Outcome(ErrorCode.INVALID_REQUEST)
_HIGHEST = {1: AcknowledgeType.REJECT, 2: AcknowledgeType.RENEW}
"""Kinds that there are, by the version of the request."""


def are_valid(batches: Iterable[Batch], version: int, *, renews: bool) -> bool:
    """Whether they follow each other, and say something that there is of each offset."""
    end = -1
    for batch in batches:
        types, length = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if length < 1 or batch.first_offset <= end or len(types) not in (1, length):
            return False
        if not all(0 <= kind <= _HIGHEST[version] for kind in types):
            return False
        if AcknowledgeType.RENEW in types and not renews:
            return False
        end = batch.last_offset
    return True


async def acknowledge(
    shares: ShareManager,
    group_id: str,
    member_id: str,
    said: Sequence[tuple[Place, Sequence[Batch]]],
    version: int,
    *,
    renews: bool,
) -> list[Outcome]:
    """What comes of each, once it is written."""
    pending: list[Promise[Outcome]] = []
    for (topic_id, partition), batches in said:
        promise = Promise[Outcome]()
        pending.append(promise)
        led = shares.find(ShareKey(group_id, topic_id, partition))
        if not are_valid(batches, version, renews=renews):
            promise.resolve(INVALID)
        elif led is None:
            promise.resolve(Outcome(shares.why_not_read(topic_id)))
        else:
            given = [
                AcknowledgedBatch(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in batches
            ]
            try:
                led.acknowledge(member_id, given, partial(_resolve, promise))
            except Refused as refused:
                promise.resolve(Outcome(refused.error, str(refused)))
    return [each.value if each.resolved else await each.wait() for each in pending]
