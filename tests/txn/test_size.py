"""The cost of many transactional ids and of large transactions."""

from __future__ import annotations

import tracemalloc

from kwire.codecs.errors import ErrorCode
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
from kwire.txn.machine import CHECKED_AT_ONCE
from kwire.txn.timers import AbortTimer, ExpiryTimer, Timer
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
    started(simulation, CHECKED_AT_ONCE + 100)
    later_ms = simulation.now_ms + simulation.limits.transactional_id_expiration_ms
    timer: Timer | None = ExpiryTimer()
    deleted = []
    while timer is not None:
        effects = simulation.machine.timer_fired(timer, later_ms)
        simulation.carry_out(effects)
        deleted.append(len(effects.records))
        ((_, timer, delay_ms),) = effects.timers
        if delay_ms:
            break
    assert deleted == [0, CHECKED_AT_ONCE, 100, 0]
    assert delay_ms == simulation.limits.remove_expired_interval_ms


def test_only_some_ids_are_looked_at_before_others_run() -> None:
    simulation = TransactionSimulation()
    started(simulation, CHECKED_AT_ONCE + 100)
    name, last = list(simulation.machine.transactions.items())[-1]
    who = (name, last.producer_id, last.producer_epoch)
    ticket = Parked(lambda error: error)
    simulation.carry_out(
        simulation.machine.add_partitions(*who, {}, 2, ticket, simulation.now_ms), ticket
    )
    later_ms = simulation.now_ms + 60_001
    timer: Timer | None = AbortTimer()
    aborted = []
    while timer is not None:
        effects = simulation.machine.timer_fired(timer, later_ms)
        aborted.append([record.transactional_id for record in effects.records])
        ((_, timer, delay_ms),) = effects.timers
        if delay_ms:
            break
    assert aborted == [[], [], [name], []]
    assert delay_ms == simulation.limits.abort_timed_out_interval_ms


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
