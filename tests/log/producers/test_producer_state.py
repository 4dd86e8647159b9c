"""Idempotent and transactional producers: the answers of Apache Kafka 4.3.1 to the same batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.log import (
    AppendResult,
    Log,
    LogError,
    Origin,
    Verification,
    aborted_transactions,
)
from kwire.log.producers.entry import BATCHES_KEPT
from tests.log.configs import DEFAULTS

if TYPE_CHECKING:
    from tests.log.conftest import Append, MakeBatch, OpenLog

NOW_MS = 1_700_000_000_000
LAST = 2**31 - 1
EXPIRATION_MS = 86_400_000


class Producer:
    """Appends batches of one producer id."""

    def __init__(self, log: Log, make_batch: MakeBatch, producer_id: int = 7) -> None:
        self.log = log
        self.make_batch = make_batch
        self.producer_id = producer_id
        self.proof: Verification | None = None

    def send(
        self, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False
    ) -> AppendResult:
        batch = self.make_batch(
            count,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.log.append(batch, leader_epoch=0, now_ms=NOW_MS, verification=self.proof)

    def refused(self, sequence: int, *, epoch: int = 0, transactional: bool = False) -> ErrorCode:
        with pytest.raises(LogError) as caught:
            self.send(sequence, epoch=epoch, transactional=transactional)
        assert caught.value.log_start_offset == self.log.log_start_offset
        return caught.value.error

    def end(
        self,
        kind: ControlType,
        *,
        epoch: int = 0,
        coordinator_epoch: int = 1,
        transaction_version: int = 0,
    ) -> AppendResult:
        marker = control_batch(
            kind,
            coordinator_epoch,
            producer_id=self.producer_id,
            producer_epoch=epoch,
            timestamp=NOW_MS,
        )
        return self.log.append(
            marker,
            leader_epoch=0,
            now_ms=NOW_MS,
            origin=Origin.COORDINATOR,
            transaction_version=transaction_version,
        )


@pytest.fixture
def log(open_log: OpenLog) -> Log:
    return open_log()


@pytest.fixture
def producer(log: Log, make_batch: MakeBatch) -> Producer:
    return Producer(log, make_batch)


def test_gap_in_sequence_numbers_is_refused(producer: Producer) -> None:
    assert [producer.send(sequence, 2).first_offset for sequence in (0, 2, 4)] == [0, 2, 4]
    assert producer.refused(7) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.refused(5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(6).first_offset == 6


def test_unknown_producer_may_begin_with_any_sequence(producer: Producer) -> None:
    producer.send(9)
    assert producer.refused(11) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not producer.send(10).duplicate


def test_last_five_batches_are_recognized_as_duplicates(producer: Producer) -> None:
    for number in range(BATCHES_KEPT + 1):
        producer.send(2 * number, 2)
    for number in range(1, BATCHES_KEPT + 1):
        again = producer.send(2 * number, 2)
        assert (again.duplicate, again.first_offset, again.last_offset) == (
            True,
            2 * number,
            2 * number + 1,
        )
    assert producer.refused(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_part_of_a_written_batch_is_not_a_duplicate(producer: Producer) -> None:
    producer.send(0, 4)
    assert producer.refused(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.refused(3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batch_of_another_producer_epoch_follows_kafkas_rules(producer: Producer) -> None:
    producer.send(0)
    assert producer.refused(3, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.send(0, epoch=1)
    assert producer.refused(1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(1, epoch=1).first_offset == 2


def test_sequence_numbers_wrap_to_zero(producer: Producer) -> None:
    producer.send(LAST)
    producer.send(0)
    again = producer.send(LAST)
    assert (again.duplicate, again.first_offset) == (True, 0)


def test_sequence_numbers_wrap_within_a_batch(producer: Producer) -> None:
    producer.send(LAST - 1, 3)  # LAST - 1, LAST, 0
    assert producer.send(LAST - 1, 3).duplicate
    assert producer.send(1, 3).first_offset == 3


def test_sequence_numbers_of_producers_are_independent(log: Log, make_batch: MakeBatch) -> None:
    first, second = Producer(log, make_batch, 1), Producer(log, make_batch, 2)
    first.send(0)
    second.send(5)
    first.send(1)
    second.send(6)
    assert [entry.last_sequence for entry in log.producers.entries.values()] == [1, 6]


def test_duplicate_of_the_last_batch_is_recognized_after_reopening(
    open_log: OpenLog, producer: Producer, make_batch: MakeBatch
) -> None:
    for number in range(3):
        producer.send(number)
    producer.log.close()
    again = Producer(open_log(clean=True), make_batch)
    assert again.send(2).duplicate
    assert again.send(3).first_offset == 3


def test_duplicates_of_the_last_five_batches_are_recognized_after_a_kill(
    open_log: OpenLog, producer: Producer, make_batch: MakeBatch
) -> None:
    for number in range(6):
        producer.send(number)
    again = Producer(open_log(), make_batch)
    assert [again.send(number).first_offset for number in range(1, 6)] == [1, 2, 3, 4, 5]


def test_idle_producer_expires(producer: Producer, open_log: OpenLog) -> None:
    producer.send(0)
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS - 1)
    assert list(producer.log.producers.entries.values())
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS)
    assert not list(producer.log.producers.entries.values())
    assert (
        producer.send(5).first_offset == 1
    )  # an expired producer may begin with any sequence number
    producer.log.close()
    late = open_log(clean=True, now_ms=NOW_MS + EXPIRATION_MS)
    assert not list(late.producers.entries.values())


def test_producer_with_an_open_transaction_does_not_expire(producer: Producer) -> None:
    producer.send(0, transactional=True)
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS)
    assert list(producer.log.producers.entries.values())
    producer.end(ControlType.ABORT)
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS)
    assert not list(producer.log.producers.entries.values())


def test_open_transaction_survives_a_long_stop(producer: Producer, open_log: OpenLog) -> None:
    """The transaction begins at the log's first offset."""
    producer.send(0, transactional=True)
    producer.log.close()
    for clean in (True, False):
        late = open_log(clean=clean, recovery_point=1, now_ms=NOW_MS + 2 * EXPIRATION_MS)
        assert late.first_unstable_offset == 0
        assert late.producers.has_ongoing_txn(7, 0)


def test_transaction_is_unstable_until_its_marker_is_replicated(
    producer: Producer, append: Append
) -> None:
    log = producer.log
    append(log, 2)
    producer.send(0, 3, transactional=True)
    append(log)
    assert log.first_unstable_offset == 2
    producer.end(ControlType.COMMIT)
    unstable = [log.first_unstable_offset]
    for high_watermark in (6, 7):
        log.high_watermark_advanced(high_watermark)
        unstable.append(log.first_unstable_offset)
    assert unstable == [2, 2, None]
    assert aborted_transactions(log, 0, 7) == []


def test_aborted_transaction_gets_an_index_entry(log: Log, make_batch: MakeBatch) -> None:
    first, second = Producer(log, make_batch, 1), Producer(log, make_batch, 2)
    first.send(0, transactional=True)  # offset 0
    second.send(0, transactional=True)  # 1
    first.end(ControlType.ABORT)  # 2
    second.send(1, transactional=True)  # 3
    second.end(ControlType.ABORT)  # 4
    first.send(1, transactional=True)  # 5
    first.end(ControlType.COMMIT)  # 6
    assert aborted_transactions(log, 0, 7) == [(1, 0), (2, 1)]
    assert aborted_transactions(log, 3, 7) == [(2, 1)]
    assert aborted_transactions(log, 5, 7) == []
    assert aborted_transactions(log, 0, 1) == [(1, 0)]


def test_aborted_transactions_are_listed_in_the_order_of_their_markers(
    log: Log, make_batch: MakeBatch
) -> None:
    """Apache Kafka's Fetch also lists them in the order of their markers."""
    first, second = Producer(log, make_batch, 1), Producer(log, make_batch, 2)
    first.send(0, transactional=True)  # offset 0
    second.send(0, transactional=True)  # 1
    second.end(ControlType.ABORT)  # 2
    first.end(ControlType.ABORT)  # 3
    assert aborted_transactions(log, 0, 4) == [(2, 1), (1, 0)]


def test_plain_batch_in_an_open_transaction_is_refused(producer: Producer) -> None:
    producer.send(0, transactional=True)
    assert producer.refused(1) is ErrorCode.INVALID_TXN_STATE
    producer.end(ControlType.ABORT)
    assert producer.send(1).first_offset == 2


def test_marker_of_an_older_epoch_is_refused(producer: Producer) -> None:
    producer.send(0, epoch=3, transactional=True)
    with pytest.raises(LogError, match="INVALID_PRODUCER_EPOCH"):
        producer.end(ControlType.COMMIT, epoch=2)
    producer.end(ControlType.COMMIT, epoch=3, coordinator_epoch=5)
    producer.send(1, epoch=3, transactional=True)
    with pytest.raises(LogError, match="TRANSACTION_COORDINATOR_FENCED"):
        producer.end(ControlType.COMMIT, epoch=3, coordinator_epoch=4)
    assert producer.end(ControlType.COMMIT, epoch=3, coordinator_epoch=5).first_offset == 3


def test_marker_of_transaction_version_2_needs_a_higher_epoch(producer: Producer) -> None:
    """KIP-1228: the same epoch is a late marker, unless nothing is open (KAFKA-19999)."""
    producer.send(0, transactional=True)
    with pytest.raises(LogError, match="INVALID_PRODUCER_EPOCH"):
        producer.end(ControlType.COMMIT, epoch=0, transaction_version=2)
    producer.end(ControlType.COMMIT, epoch=1, transaction_version=2)
    producer.end(ControlType.COMMIT, epoch=1, transaction_version=2)
    assert producer.send(0, epoch=1, transactional=True).first_offset == 3


def test_marker_without_records_leaves_all_offsets_stable(producer: Producer) -> None:
    producer.end(ControlType.ABORT)
    assert producer.log.first_unstable_offset is None
    assert aborted_transactions(producer.log, 0, 1) == []
    assert next(iter(producer.log.producers.entries.values())).coordinator_epoch == 1


class TestVerification:
    """KIP-890: a transaction's first batch must be verified by the coordinator."""

    @pytest.fixture
    def log(self, open_log: OpenLog) -> Log:
        return open_log(DEFAULTS, verify_transactions=True)

    def test_transactional_batch_without_verification_is_refused(self, producer: Producer) -> None:
        assert producer.refused(0, transactional=True) is ErrorCode.INVALID_TXN_STATE

    def prove(
        self, producer: Producer, sequence: int = 0, *, epoch: int = 0, version_2: bool = False
    ) -> Verification | None:
        return producer.log.producers.start_verification(
            producer.producer_id, sequence, epoch, supports_epoch_bump=version_2, now_ms=NOW_MS
        )

    def test_verification_without_an_answer_expires(self, producer: Producer) -> None:
        state = producer.log.producers
        state.verify_transactions = True
        pending = producer.log.producers.start_verification(
            7, 0, 0, supports_epoch_bump=False, now_ms=NOW_MS + 5
        )
        assert pending is not None
        state.remove_expired(NOW_MS + 5 + EXPIRATION_MS - 1)
        assert state.verifications == {7: pending}
        state.remove_expired(NOW_MS + 5 + EXPIRATION_MS)
        assert state.verifications == {}

    def test_transaction_needs_one_verification_only(self, producer: Producer) -> None:
        producer.proof = self.prove(producer)
        assert producer.send(0, transactional=True).first_offset == 0
        producer.proof = None
        assert self.prove(producer, 1) is None
        assert producer.send(1, transactional=True).first_offset == 1

    def test_verification_ends_with_its_transaction(self, producer: Producer) -> None:
        """A verification that a marker overtook is not valid."""
        producer.proof = self.prove(producer)
        producer.end(ControlType.ABORT)
        assert producer.refused(0, transactional=True) is ErrorCode.INVALID_TXN_STATE

    @pytest.mark.parametrize(
        ("epoch", "version_2", "stays"),
        [(1, True, True), (1, False, False), (0, True, False), (2, True, False)],
    )
    def test_marker_with_a_bumped_epoch_keeps_the_next_verification(
        self, producer: Producer, epoch: int, version_2: bool, stays: bool
    ) -> None:
        """Each transaction of version 2 has an epoch of its own, and a marker names the next."""
        pending = self.prove(producer, epoch=epoch, version_2=version_2)
        marker = control_batch(
            ControlType.ABORT, 0, producer_id=7, producer_epoch=1, timestamp=NOW_MS
        )
        producer.log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        assert producer.log.producers.verifications == ({7: pending} if stays else {})

    def test_verification_of_another_producer_is_refused(
        self, producer: Producer, make_batch: MakeBatch
    ) -> None:
        other = Producer(producer.log, make_batch, 8)
        self.prove(producer)
        producer.proof = self.prove(other)
        assert producer.refused(0, transactional=True) is ErrorCode.INVALID_TXN_STATE

    def test_verified_batches_are_appended_in_sequence_order(self, producer: Producer) -> None:
        producer.proof = self.prove(producer, 0)
        self.prove(producer, 4)
        refused = producer.refused(4, transactional=True)
        assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.send(0, transactional=True).first_offset == 0

    def test_new_producer_with_epoch_bumps_must_begin_with_sequence_0(
        self, producer: Producer
    ) -> None:
        producer.proof = self.prove(producer, 3, version_2=True)
        refused = producer.refused(3, transactional=True)
        assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_stale_epoch_is_reported_before_a_missing_verification(
        self, producer: Producer
    ) -> None:
        producer.send(0, epoch=2)
        assert producer.refused(0, epoch=1, transactional=True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_marker_of_an_older_coordinator_epoch_is_refused(producer: Producer) -> None:
    with pytest.raises(LogError, match="TRANSACTION_COORDINATOR_FENCED"):
        producer.end(ControlType.COMMIT, coordinator_epoch=-2)
