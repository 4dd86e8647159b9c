"""Cases that scripts cannot express: empty ids, no producer ids, late markers, exact times."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.txn.effects import Markers, ProducerAnswer, TransactionEffects
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
from kwire.txn.limits import TransactionLimits
from kwire.txn.listing import TransactionFilter
from kwire.txn.machine import TransactionMachine
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.records import TransactionRecord
from kwire.txn.timers import AbortTimer
from kwire.txn.transaction import (
    EMPTY,
    LAST_EPOCH_OF_CLIENTS,
    NO_PARTITIONS,
    NO_TIMEOUT_MS,
    ONGOING,
    PREPARE_ABORT,
    Transaction,
)

NOW_MS = 1_000_000
TIMEOUT_MS = 5_000


class Named(str):
    """A ticket that is nothing but itself."""

    __slots__ = ()

    def resolve(self, value: object) -> None:
        raise AssertionError("nothing happens here")

    def refuse(self, error: ErrorCode) -> object:
        raise AssertionError("nothing happens here")


OUTBOX = Named("outbox")
ME = Named("me")
OPEN = Transaction(7, 3, TIMEOUT_MS, ONGOING, NOW_MS, {"t": frozenset({0})}, NOW_MS)


@pytest.fixture
def machine() -> TransactionMachine:
    """Without any producer ids."""
    return TransactionMachine(TransactionLimits(), ProducerIds(), OUTBOX)


def replies(effects: TransactionEffects) -> list[Any]:
    return [reply for ticket, reply in effects.replies if ticket is not OUTBOX]


def markers_of(effects: TransactionEffects) -> list[Markers]:
    return [
        reply
        for ticket, reply in effects.replies
        if ticket is OUTBOX and isinstance(reply, Markers)
    ]


def have(machine: TransactionMachine, effects: TransactionEffects) -> None:
    for record in effects.records:
        machine.apply(record)


@pytest.mark.parametrize(("timeout_ms", "valid"), [(0, False), (1, True), (9, True), (10, False)])
def test_transaction_timeout_must_be_between_1_ms_and_the_limit(
    timeout_ms: int, valid: bool
) -> None:
    limits = TransactionLimits(transaction_max_timeout_ms=9)
    error = ErrorCode.NONE if valid else ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert ProducerInitialization("id", timeout_ms).invalid(limits) is error


def test_empty_transactional_id_is_refused(machine: TransactionMachine) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    added = machine.add_partitions("", 7, 3, {"t": frozenset({0})}, 2, ME, NOW_MS)
    assert replies(added) == [invalid]
    ended = machine.end_txn(EndTransaction("", 7, 3, True, 2), ME, NOW_MS)
    assert replies(ended) == [ProducerAnswer(invalid)]
    assert machine.verify("", 7, 3, {"t": frozenset({0})}) == {("t", 0): invalid}
    assert machine.describe("").error_code == invalid


def test_init_without_producer_ids_is_retriable(machine: TransactionMachine) -> None:
    later = ProducerAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    new = machine.init_producer_id(ProducerInitialization("new", TIMEOUT_MS), ME, NOW_MS)
    assert (replies(new), new.records) == ([later], [])
    machine.apply(TransactionRecord("x", OPEN._replace(producer_epoch=LAST_EPOCH_OF_CLIENTS)))
    end = machine.end_txn(EndTransaction("x", 7, LAST_EPOCH_OF_CLIENTS, True, 2), ME, NOW_MS)
    assert (replies(end), end.records) == ([later], [])
    fence = machine.init_producer_id(ProducerInitialization("x", TIMEOUT_MS), ME, NOW_MS)
    assert (replies(fence), fence.records) == ([later], [])
    idle = OPEN._replace(producer_epoch=LAST_EPOCH_OF_CLIENTS, state=EMPTY, partitions={})
    machine.apply(TransactionRecord("x", idle))
    rotation = machine.init_producer_id(ProducerInitialization("x", TIMEOUT_MS), ME, NOW_MS)
    assert (replies(rotation), rotation.records) == ([later], [])


def test_timed_out_transaction_without_producer_ids_is_checked_again(
    machine: TransactionMachine,
) -> None:
    machine.apply(TransactionRecord("x", OPEN._replace(producer_epoch=LAST_EPOCH_OF_CLIENTS)))
    machine.apply(TransactionRecord("y", OPEN))
    first = machine.timer_fired(AbortTimer(), NOW_MS + TIMEOUT_MS + 1)
    assert first.records == []
    ((_, timer, _),) = first.timers
    assert timer is not None
    second = machine.timer_fired(timer, NOW_MS + TIMEOUT_MS + 1)
    assert [record.transactional_id for record in second.records] == ["y"]


def test_transaction_is_aborted_only_after_its_whole_timeout(machine: TransactionMachine) -> None:
    machine.apply(TransactionRecord("x", OPEN))
    assert not machine.timer_fired(AbortTimer(), NOW_MS + TIMEOUT_MS).records
    effects = machine.timer_fired(AbortTimer(), NOW_MS + TIMEOUT_MS + 1)
    (record,) = effects.records
    assert record.transaction is not None
    assert record.transaction.state is PREPARE_ABORT
    assert effects.atomic, "who is told of markers must be sure of their record"
    assert markers_of(effects) == [Markers("x", 7, 4, False, OPEN.partitions, 2)]


def test_transaction_without_a_timeout_stays_open(machine: TransactionMachine) -> None:
    machine.apply(TransactionRecord("x", OPEN._replace(timeout_ms=NO_TIMEOUT_MS)))
    assert not machine.timer_fired(AbortTimer(), NOW_MS + 2 * NO_TIMEOUT_MS).records


def test_duration_filter_excludes_an_equal_duration(machine: TransactionMachine) -> None:
    machine.apply(TransactionRecord("x", OPEN))
    wanted = TransactionFilter.of(ListTransactionsRequest(duration_filter=50))
    assert not machine.list_transactions(wanted, NOW_MS + 50)
    assert machine.list_transactions(wanted, NOW_MS + 51)


def test_duration_filter_of_zero_excludes_new_transactions(machine: TransactionMachine) -> None:
    """Apache Kafka wants no duration only where it is negative: as it is when none is asked for."""
    machine.apply(TransactionRecord("x", OPEN))
    wanted = TransactionFilter.of(ListTransactionsRequest(duration_filter=0))
    assert not machine.list_transactions(wanted, NOW_MS)
    assert machine.list_transactions(wanted, NOW_MS + 1)
    any_at_all = TransactionFilter.of(ListTransactionsRequest())
    assert machine.list_transactions(any_at_all, NOW_MS - 5), "begun by a clock that was ahead"


def test_late_markers_do_not_complete_the_next_transaction(machine: TransactionMachine) -> None:
    """Before version 2 all of a producer's transactions look alike."""
    machine.apply(TransactionRecord("x", OPEN))
    end = EndTransaction("x", 7, 3, True, 0)
    first = machine.end_txn(end, ME, NOW_MS)
    have(machine, first)
    (before,) = markers_of(first)
    have(machine, machine.markers_written(before, NOW_MS))
    have(machine, machine.add_partitions("x", 7, 3, OPEN.partitions, 0, ME, NOW_MS))
    second = machine.end_txn(end, ME, NOW_MS)
    have(machine, second)
    (now,) = markers_of(second)
    assert now == before, "they say the same"
    assert not machine.markers_written(before, NOW_MS).records
    assert machine.markers_written(now, NOW_MS).records


def test_reply_comes_after_the_markers(machine: TransactionMachine) -> None:
    """So a transaction of few partitions is over when its producer hears that it is."""
    machine.apply(TransactionRecord("x", OPEN))
    effects = machine.end_txn(EndTransaction("x", 7, 3, True, 2), ME, NOW_MS)
    assert [ticket for ticket, _ in effects.replies] == [OUTBOX, ME]
    assert replies(effects) == [ProducerAnswer(ErrorCode.NONE, 7, 4)]


def test_tombstone_deletes_the_id(machine: TransactionMachine) -> None:
    machine.apply(TransactionRecord("x", OPEN))
    machine.apply(TransactionRecord("x", None))
    machine.apply(TransactionRecord("x", None))
    assert machine.transactions == {}
    assert machine.describe("x").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_add_partitions_without_partitions_begins_a_transaction(
    machine: TransactionMachine,
) -> None:
    """A transaction begins all the same, as it does with Apache Kafka."""
    machine.apply(TransactionRecord("x", OPEN._replace(state=EMPTY, partitions=NO_PARTITIONS)))
    effects = machine.add_partitions("x", 7, 3, {}, 2, ME, NOW_MS)
    (record,) = effects.records
    assert record.transaction is not None
    assert record.transaction.state is ONGOING
