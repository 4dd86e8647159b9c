"""A share partition step by step: acquire, acknowledge, release, expire."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import DeliveryState, StateBatch
from kwire.coordinators.share.partition import (
    AcknowledgedBatch,
    AcknowledgementRefused,
    AcknowledgeType,
    AcquiredBatch,
    ShareLimits,
    SharePartition,
    Transition,
    _last_to_keep,
)
from kwire.coordinators.share.state import ShareState

LIMITS = ShareLimits(max_deliveries=3)
ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)
MANY = 500
NOW_MS = 1_000_000


def begun(*batches: StateBatch, start: int = 0) -> SharePartition:
    state = ShareState(snapshot_epoch=0, state_epoch=1, start_offset=start, batches=batches)
    return SharePartition(state, start)


def take(
    partition: SharePartition,
    member: str,
    *read: tuple[int, int],
    most: int = MANY,
    batch_size: int = MANY,
    now_ms: int = NOW_MS,
    at_most: bool = False,
) -> list[AcquiredBatch]:
    return partition.acquire(member, read, most, batch_size, now_ms, LIMITS, at_most=at_most)


def say(
    partition: SharePartition,
    member: str,
    first: int,
    last: int,
    *types: int,
    succeeded: bool = True,
) -> Transition:
    batch = AcknowledgedBatch(first, last, types)
    transition = partition.acknowledge(member, [batch], NOW_MS, LIMITS)
    partition.settle(transition, succeeded=succeeded)
    return transition


def test_acquired_record_is_not_acquired_by_another_member() -> None:
    partition = begun()
    assert take(partition, "a", (0, 4), most=3) == [AcquiredBatch(0, 4, 1)], "batches stay whole"
    assert take(partition, "b", (0, 4), (5, 9)) == [AcquiredBatch(5, 9, 1)]
    assert take(partition, "c", (0, 4), (5, 9)) == []
    assert partition.next_fetch_offset == 10


def test_start_offset_rises_over_accepted_records_in_order() -> None:
    partition = begun()
    take(partition, "a", (0, 9))
    assert say(partition, "a", 5, 9, ACCEPT).batches == [StateBatch(5, 9, 1, 2)]
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 5)
    say(partition, "a", 0, 4, ACCEPT)
    assert (partition.start_offset, partition.end_offset) == (10, 10)
    assert partition.delivery_complete_count == 0


def test_each_acknowledge_type_sets_its_state() -> None:
    partition = begun()
    take(partition, "a", (0, 4))
    transition = say(partition, "a", 0, 4, ACCEPT, ACCEPT, REJECT, RELEASE, GAP)
    assert transition.batches == [
        StateBatch(0, 1, 1, DeliveryState.ACKNOWLEDGED),
        StateBatch(2, 2, 1, DeliveryState.ARCHIVED),
        StateBatch(3, 3, 1, DeliveryState.AVAILABLE),
        StateBatch(4, 4, 1, DeliveryState.ARCHIVED),
    ]
    assert (partition.start_offset, partition.next_fetch_offset) == (3, 3)
    assert take(partition, "b", (0, 4)) == [AcquiredBatch(3, 3, 2)]


def test_released_record_is_archived_at_the_delivery_limit() -> None:
    partition = begun()
    for count in (1, 2, 3):
        assert take(partition, "a", (0, 0)) == [AcquiredBatch(0, 0, count)]
        state = say(partition, "a", 0, 0, RELEASE).batches[0].state
    assert state == DeliveryState.ARCHIVED
    assert (partition.start_offset, take(partition, "a", (0, 0))) == (1, [])


def test_records_are_available_after_their_lock_ends() -> None:
    partition = begun()
    take(partition, "a", (0, 4))
    assert partition.next_lock_end_ms == NOW_MS + LIMITS.lock_ms
    assert not partition.expire(NOW_MS + LIMITS.lock_ms - 1, LIMITS).changes
    transition = partition.expire(NOW_MS + LIMITS.lock_ms, LIMITS)
    assert take(partition, "b", (0, 4)) == [], "not before it is written"
    partition.settle(transition, succeeded=True)
    assert take(partition, "b", (0, 4)) == [AcquiredBatch(0, 4, 2)]
    with pytest.raises(AcknowledgementRefused) as refused:
        say(partition, "a", 0, 4, ACCEPT)
    assert refused.value.error is ErrorCode.INVALID_RECORD_STATE


def test_renewed_lock_is_not_written() -> None:
    partition = begun()
    take(partition, "a", (0, 4), now_ms=NOW_MS - 20_000)
    assert say(partition, "a", 0, 4, RENEW).batches == []
    assert partition.next_lock_end_ms == NOW_MS + LIMITS.lock_ms
    frozen = ShareLimits(may_renew=False)
    with pytest.raises(AcknowledgementRefused, match="not enabled"):
        partition.acknowledge("a", [AcknowledgedBatch(0, 4, [RENEW])], NOW_MS, frozen)
    say(partition, "a", 0, 4, ACCEPT)
    assert partition.start_offset == 5


def test_records_of_a_leaving_member_are_released() -> None:
    partition = begun()
    take(partition, "a", (0, 4))
    take(partition, "b", (0, 4), (5, 9))
    partition.settle(partition.release("a", LIMITS), succeeded=True)
    assert take(partition, "c", (0, 4), (5, 9)) == [AcquiredBatch(0, 4, 2)]


def test_failed_write_leaves_the_records_unchanged() -> None:
    partition = begun()
    take(partition, "a", (0, 4))
    say(partition, "a", 0, 4, ACCEPT, succeeded=False)
    assert partition.start_offset == 0
    say(partition, "a", 0, 4, ACCEPT)
    assert partition.start_offset == 5


@pytest.mark.parametrize(
    ("first", "last", "error"),
    [
        (5, 9, ErrorCode.INVALID_REQUEST),
        (3, 5, ErrorCode.INVALID_REQUEST),
        (2, 4, ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_invalid_acknowledgements_are_refused(first: int, last: int, error: ErrorCode) -> None:
    """And nothing of the rest of the request has happened."""
    partition = begun()
    take(partition, "a", (0, 1))
    take(partition, "b", (0, 1), (2, 4))
    batches = [AcknowledgedBatch(0, 1, [ACCEPT]), AcknowledgedBatch(first, last, [ACCEPT])]
    with pytest.raises(AcknowledgementRefused) as refused:
        partition.acknowledge("a", batches, NOW_MS, LIMITS)
    assert refused.value.error is error
    say(partition, "a", 0, 1, ACCEPT)
    assert partition.start_offset == 2


def test_second_acknowledgement_in_one_request_is_refused() -> None:
    partition = begun()
    take(partition, "a", (0, 4))
    batches = [AcknowledgedBatch(0, 4, [ACCEPT]), AcknowledgedBatch(4, 4, [RELEASE])]
    with pytest.raises(AcknowledgementRefused):
        partition.acknowledge("a", batches, NOW_MS, LIMITS)


def test_acknowledgement_before_the_start_offset_is_ignored() -> None:
    partition = begun()
    take(partition, "a", (0, 9))
    partition.raise_start_to(5)
    assert say(partition, "a", 0, 4, ACCEPT).changes == []
    assert say(partition, "a", 3, 6, ACCEPT).batches == [StateBatch(5, 6, 1, 2)]
    assert partition.start_offset == 7


def test_acquire_stops_at_max_record_locks() -> None:
    partition = begun()
    limits = ShareLimits(max_record_locks=100)
    read = [(at, at + 9) for at in range(0, 200, 10)]
    acquired = partition.acquire("a", read, MANY, MANY, NOW_MS, limits)
    assert acquired == [AcquiredBatch(0, 99, 1)]
    assert not partition.may_acquire(limits)
    say(partition, "a", 50, 59, RELEASE)
    assert partition.may_acquire(limits)
    given_back = partition.acquire("b", read[5:], MANY, MANY, NOW_MS, limits)
    assert given_back == [AcquiredBatch(50, 59, 2)], "it needs no room"
    say(partition, "a", 0, 9, ACCEPT)
    more = partition.acquire("b", read[10:], MANY, MANY, NOW_MS, limits)
    assert more == [AcquiredBatch(100, 109, 1)]


def test_in_flight_limit_counts_whole_batches_that_were_read() -> None:
    """Of a batch that was acquired in part the rest counts, too; new records are told of apart."""
    partition = begun()
    limits = ShareLimits(max_record_locks=100)
    read = [(at, at + 24) for at in range(0, 200, 25)]

    def strictly(member: str, from_batch: int) -> list[AcquiredBatch]:
        given = read[from_batch:]
        return partition.acquire(member, given, 60, MANY, NOW_MS, limits, at_most=True)

    assert strictly("a", 0) == [AcquiredBatch(0, 59, 1)]
    assert strictly("b", 2) == [AcquiredBatch(60, 74, 1), AcquiredBatch(75, 84, 1)]
    assert strictly("c", 3) == [AcquiredBatch(85, 99, 1)]
    assert strictly("d", 3) == []


def test_acquire_with_at_most_splits_a_batch() -> None:
    partition = begun()
    assert take(partition, "a", (0, 9), most=3, at_most=True) == [AcquiredBatch(0, 2, 1)]
    assert take(partition, "b", (0, 9)) == [AcquiredBatch(3, 9, 1)]


def test_acquired_batches_have_the_batch_size() -> None:
    partition = begun()
    read = [(at, at + 3) for at in range(0, 16, 4)]
    assert take(partition, "a", *read, batch_size=5) == [
        AcquiredBatch(0, 7, 1),
        AcquiredBatch(8, 15, 1),
    ]


def test_offsets_without_records_are_acquired_with_their_neighbours() -> None:
    """The member says that there is nothing (GAP)."""
    partition = begun()
    assert take(partition, "a", (3, 4), (9, 9)) == [AcquiredBatch(0, 9, 1)]


def test_partition_starts_with_the_stored_state() -> None:
    """What was acquired and not written is available again."""
    partition = begun(StateBatch(5, 6, 1, 2), StateBatch(9, 9, 2, 0), start=3)
    assert (partition.start_offset, partition.end_offset) == (3, 10)
    assert partition.delivery_complete_count == 2
    assert take(partition, "a", (0, 12)) == [
        AcquiredBatch(3, 4, 1),
        AcquiredBatch(7, 8, 1),
    ]
    assert take(partition, "a", (9, 12)) == [AcquiredBatch(9, 9, 3)], "its last delivery is its own"
    assert take(partition, "a", (9, 12)) == [AcquiredBatch(10, 12, 1)]
    done = begun(StateBatch(3, 6, 1, 2), start=3)
    assert done.start_offset == 7


@pytest.mark.parametrize(
    ("limit", "portions"),
    [
        (2, [(0, 5), (0, 5)]),
        (3, [(0, 5), (0, 5), *((each, each) for each in range(6))]),
        (5, [(0, 5)] * 3 + [(0, 2), (0, 0), (1, 1), (2, 2), (3, 5), (3, 3), (4, 4), (5, 5)]),
    ],
)
def test_often_released_records_are_delivered_in_portions(
    limit: int, portions: list[tuple[int, int]]
) -> None:
    """As Apache Kafka 4.3.1 does."""
    limits, read = ShareLimits(max_deliveries=limit), [(0, 1), (2, 4), (5, 5)]
    partition, found = begun(), []
    while told := partition.acquire("a", read, MANY, MANY, NOW_MS, limits):
        ((first, last, _),) = told
        found.append((first, last))
        said = AcknowledgedBatch(first, last, [RELEASE])
        partition.settle(partition.acknowledge("a", [said], NOW_MS, limits), succeeded=True)
    assert found == portions
    assert partition.start_offset == 6


@pytest.mark.parametrize(("end", "last"), [(1, 4), (5, 4), (6, 9), (10, 9), (12, 9)])
def test_records_in_flight_end_with_the_batch_that_reaches_the_limit(end: int, last: int) -> None:
    assert _last_to_keep([(0, 4), (5, 9)], end) == last
