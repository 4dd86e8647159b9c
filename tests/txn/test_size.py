"""What many transactional ids and large transactions cost."""

from __future__ import annotations

import tracemalloc

from kwire.codecs.errors import ErrorCode
from kwire.txn.end_txn import End
from kwire.txn.init_producer_id import Initialization
from kwire.txn.shard import EXPIRED_AT_ONCE
from kwire.txn.simulation import Ticket, TransactionMachine
from kwire.txn.timers import AbortTimer, ExpiryTimer

IDS = 5_000
BYTES_PER_ID_MAX = 450
"""Measured: 350 with a name of 27 characters, its key and its place in the table included."""


def started(machine: TransactionMachine, count: int) -> None:
    for number in range(count):
        request = Initialization(f"payments-application-{number:06}", 60_000)
        ticket = Ticket(lambda error: error)
        machine.happen(machine.shard.init_producer_id(request, ticket, machine.now_ms), ticket)


def test_memory_of_transactional_ids() -> None:
    first = TransactionMachine()
    started(first, IDS)
    second = TransactionMachine()
    tracemalloc.start()
    try:
        for key, value in first.log:
            record = second.shard.decode(key, value)
            assert record is not None
            second.shard.apply(record)
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(second.shard.transactions) == IDS
    assert size_bytes / IDS < BYTES_PER_ID_MAX


def test_a_transaction_of_ten_thousand_partitions() -> None:
    machine = TransactionMachine()
    started(machine, 1)
    ((name, now),) = machine.shard.transactions.items()
    places = {f"topic-{topic}": frozenset(range(100)) for topic in range(100)}
    who = (name, now.producer_id, now.producer_epoch)
    ticket = Ticket(lambda error: error)
    for _ in range(2):
        effects = machine.shard.add_partitions(*who, places, 2, ticket, machine.now_ms)
        machine.happen(effects, ticket)
    assert ticket.replies == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(machine.records) == 2, "what is there already is not written again"
    machine.outbox.hold = True
    machine.happen(machine.shard.end_txn(End(*who, True, 2), ticket, machine.now_ms), ticket)
    (markers,) = machine.outbox.held
    assert sum(len(indexes) for indexes in markers.partitions.values()) == 10_000


def test_what_is_due_at_once_is_done_in_slices() -> None:
    """Others have their turn between the slices of a timer."""
    machine = TransactionMachine()
    started(machine, EXPIRED_AT_ONCE + 100)
    later_ms = machine.now_ms + machine.limits.transactional_id_expiration_ms
    first = machine.shard.timer(ExpiryTimer(), later_ms)
    assert len(first.records) == EXPIRED_AT_ONCE
    ((_, timer, delay_ms),) = first.timers
    assert timer is not None
    assert delay_ms == 0
    machine.happen(first)
    assert len(machine.shard.timer(timer, later_ms).records) == 100


def test_transactions_are_aborted_one_at_a_time() -> None:
    machine = TransactionMachine()
    started(machine, 3)
    for name, now in list(machine.shard.transactions.items()):
        who = (name, now.producer_id, now.producer_epoch)
        ticket = Ticket(lambda error: error)
        machine.happen(machine.shard.add_partitions(*who, {}, 2, ticket, machine.now_ms), ticket)
    later_ms = machine.now_ms + 60_001
    effects = machine.shard.timer(AbortTimer(), later_ms)
    assert len(effects.records) == 1
    machine.load()
    machine.wait(70_000)
    states = {transaction.state.label for transaction in machine.shard.transactions.values()}
    assert states == {"CompleteAbort"}
