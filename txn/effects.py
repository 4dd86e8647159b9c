"""The effects of a decision about a transaction; see kwire.coordinators.contract.effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket
from kwire.txn.records import TransactionRecord
from kwire.txn.timers import Timer
from kwire.txn.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, Transaction

__all__ = ["Markers", "ProducerAnswer", "Ticket", "TransactionEffects"]


class ProducerAnswer(NamedTuple):
    """The reply to InitProducerId and EndTxn: an error, or the producer's new id and epoch."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers to write to the partitions of a transaction whose end is decided.

    The outbox gets them once the decision is committed, and again after a restart.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Partitions
    transaction_version: int
    prepared: Transaction | None = field(default=None, compare=False, repr=False)
    """The decided transaction.  It tells these markers from equal ones of another transaction:
    before version 2 all transactions of a producer have the same epoch."""


class TransactionEffects(coordinator.Effects[TransactionRecord, Timer, None]):
    """Markers are replies to the outbox, which precede the reply to the request."""

    __slots__ = ()
