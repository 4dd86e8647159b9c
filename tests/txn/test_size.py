"""The cost of many transactional ids and of large transactions."""

from __future__ import annotations

import tracemalloc

from kwire.codecs.errors import ErrorCode
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
from kwire.txn.machine import EXPIRED_AT_ONCE
from kwire.txn.timers import AbortTimer, ExpiryTimer
from tests.txn.simulation import Parked, TransactionSimulation

IDS = 5_000
BYTES_PER_ID_MAX = 450
"""Measured: 350 with a name of 27 characters, its key and its place in the table included."""


def started(simulation: TransactionSimulation, count: int) -> None:
    for number in range(count):
        request = ProducerInitialization(f"payments-application-{number:06}", 60_000)
        ticket = Parked(lambda error: error)
        simulation.carry_out(
            simulation.machine.init_producer_id(request, ticket, simulation.now_ms), ticket
        )


def test_memory_per_transactional_id_is_bounded() -> None:
    first = TransactionSimulation()
    started(first, IDS)
    second = TransactionSimulation()
    tracemalloc.start()
    try:
        for key, value in first.log:
            record = second.machine.decode(key, value)
            assert record is not None
            second.machine.apply(record)
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(second.machine.transactions) == IDS
    assert size_bytes / IDS < BYTES_PER_ID_MAX


def test_adding_ten_thousand_partitions_again_writes_no_record() -> None:
    simulation = TransactionSimulation()
    started(simulation, 1)
    ((name, now),) = simulation.machine.transactions.items()
    places = {f"topic-{topic}": frozenset(range(100)) for topic in range(100)}
    who = (name, now.producer_id, now.producer_epoch)
    ticket = Parked(lambda error: error)
    for _ in range(2):
        effects = simulation.machine.add_partitions(*who, places, 2, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
    assert ticket.replies == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(simulation.records) == 2, "what is there already is not written again"
    simulation.outbox.hold = True
    simulation.carry_out(
        simulation.machine.end_txn(EndTransaction(*who, True, 2), ticket, simulation.now_ms), ticket
    )
    (markers,) = simulation.outbox.held
    assert sum(len(indexes) for indexes in markers.partitions.values()) == 10_000


def test_expired_ids_are_deleted_in_slices() -> None:
    """Others have their turn between the slices of a timer."""
    simulation = TransactionSimulation()
    started(simulation, EXPIRED_AT_ONCE + 100)
    later_ms = simulation.now_ms + simulation.limits.transactional_id_expiration_ms
    first = simulation.machine.timer_fired(ExpiryTimer(), later_ms)
    assert len(first.records) == EXPIRED_AT_ONCE
    ((_, timer, delay_ms),) = first.timers
    assert timer is not None
    assert delay_ms == 0
    simulation.carry_out(first)
    assert len(simulation.machine.timer_fired(timer, later_ms).records) == 100


def test_timed_out_transactions_are_aborted_one_at_a_time() -> None:
    simulation = TransactionSimulation()
    started(simulation, 3)
    for name, now in list(simulation.machine.transactions.items()):
        who = (name, now.producer_id, now.producer_epoch)
        ticket = Parked(lambda error: error)
        simulation.carry_out(
            simulation.machine.add_partitions(*who, {}, 2, ticket, simulation.now_ms), ticket
        )
    later_ms = simulation.now_ms + 60_001
    effects = simulation.machine.timer_fired(AbortTimer(), later_ms)
    assert len(effects.records) == 1
    simulation.load()
    simulation.wait(70_000)
    states = {transaction.state.label for transaction in simulation.machine.transactions.values()}
    assert states == {"CompleteAbort"}
