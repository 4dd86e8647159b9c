"""What a decision comes to, before any of it has happened.

An operation, a timer and the end of loading each give `Effects` and change nothing; the runtime
makes them come true (the order is written down in kwire.coordinators.runtime).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kwire.codecs.errors import ErrorCode
from kwire.txn.records import TransactionRecord
from kwire.txn.timers import Timer, TimerKey
from kwire.txn.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, Transaction

Ticket = Any
"""Names who waits for a reply: given by the runtime, handed back with the reply."""


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


@dataclass(slots=True)
class Effects:
    """See the module."""

    records: list[TransactionRecord] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    """(ticket, reply): to who asked, and Markers to the outbox, before the reply of who asked."""
    timers: list[tuple[TimerKey, Timer | None, int]] = field(default_factory=list)
    """(key, timer, ms from now)"""
    notes: list[str] = field(default_factory=list)
    """What an operator would want to read about it, in sentences."""
    refused: Callable[[ErrorCode], Effects] | None = None
    """What happens instead when the records could not be appended."""
    atomic: bool = True
    """Whether the records must share a batch."""
    producer: tuple[int, int] | None = None
    """Records of this coordinator are never part of a transaction themselves."""

    @classmethod
    def reply(cls, ticket: Ticket, response: object) -> Effects:
        return cls(replies=[(ticket, response)])
