"""What a decision about a transaction comes to; see kwire.coordinators.contract.effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket
from kwire.txn.records import TransactionRecord
from kwire.txn.timers import Timer
from kwire.txn.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, Transaction

__all__ = ["Effects", "Markers", "ProducerAnswer", "Ticket"]


class ProducerAnswer(NamedTuple):
    """The reply to InitProducerId and EndTxn: the producer as it is from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Markers:
    """What has to be written into the partitions of a transaction whose end is decided.

    It goes to the outbox once that decision is committed, and again after a restart.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Partitions
    transaction_version: int
    prepared: Transaction | None = field(default=None, compare=False, repr=False)
    """The decision itself, by which the shard knows these from those of another like it: before
    version 2 all transactions of a producer have the same epoch."""


class Effects(coordinator.Effects[TransactionRecord, Timer, None]):
    """Markers are replies to the outbox; they go out before the reply of who asked."""

    __slots__ = ()
