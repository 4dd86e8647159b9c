"""Transactions that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.txn.transaction import ONGOING, TransactionState

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.metrics.samples import Samples

STATES: Final[tuple[TransactionState, ...]] = tuple(
    state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)
"""The states that a transaction has in kwire."""


def collect(broker: Broker, samples: Samples) -> None:
    """Give the number of transactions in each state, and the age of the oldest open one."""
    counts = dict.fromkeys(STATES, 0)
    began_ms = now_ms = broker.now_ms()
    coordinator = broker.coordinators.transactions_if_any
    if coordinator is not None:
        for shard in coordinator.runtime.active():
            for transaction in shard.machine.transactions.values():
                counts[transaction.state] += 1
                if transaction.state is ONGOING:
                    began_ms = min(began_ms, transaction.start_timestamp_ms)
    for state, count in counts.items():
        samples.set("kwire_transactions", count, state.label)
    samples.set("kwire_transaction_oldest_open_seconds", (now_ms - began_ms) / 1000)
