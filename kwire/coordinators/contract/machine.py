"""What a driver asks of a coordinator machine: a fold over the records of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from kwire.coordinators.contract.effects import Effects


class MachineRecord(Protocol):
    """What a machine writes to its partition."""

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value; no value deletes what the key names."""


RecordT = TypeVar("RecordT", bound=MachineRecord)
EffectsT = TypeVar("EffectsT", bound=Effects[Any, Any, Any])
TimerT = TypeVar("TimerT", contravariant=True)


class Machine(Protocol[RecordT, EffectsT, TimerT]):
    """kwire.groups.machine and kwire.txn.machine are two."""

    replaced_keys: ClassVar[tuple[bytes, ...]]
    """How keys begin of which a record with a value makes all that came before it needless.

    That may then be left out where records are replayed, as compaction does.
    """

    def decode(self, key: bytes | None, value: bytes | None) -> RecordT | None:
        """The record of these bytes; None if it is of no kind that this machine knows.

        Raises ValueError for one that it knows and cannot read.
        """

    def apply(self, record: RecordT) -> None:
        """Follow one record, live and on load alike: durable state changes nowhere else."""

    def settle(self, effects: EffectsT) -> None:
        """Lay what the log does not say over what `apply` has made of the records."""

    def loaded(self, now_ms: int) -> Iterable[EffectsT]:
        """All records have been applied: clocks begin to run."""

    def unloaded(self, now_ms: int) -> Iterable[EffectsT]:
        """The partition is led here no longer: who waits is told; nothing else may follow."""

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> EffectsT | None:
        """Topics (name, id) are no more in the cluster; None where that is of no importance."""

    def timer(self, timer: TimerT, now_ms: int) -> EffectsT:
        """A timer that was set has come due; it may matter no longer."""


PendingT = TypeVar("PendingT", contravariant=True)


@runtime_checkable
class TransactionalMachine(Protocol[PendingT]):
    """A machine whose records may be part of clients' transactions."""

    def apply_pending(self, record: PendingT, producer_id: int) -> None:
        """As `apply`, for a record of a transaction that is not ended yet."""

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """A marker was appended: what is pending of the producer counts from now on, or never."""
