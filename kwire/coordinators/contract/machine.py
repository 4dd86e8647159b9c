"""The methods of a coordinator machine, whose state is a fold over the records of one partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from kwire.coordinators.contract.effects import Effects


class MachineRecord(Protocol):
    """A record that a machine writes to its partition."""

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value; a null value deletes the key's entry (a tombstone)."""


RecordT = TypeVar("RecordT", bound=MachineRecord)
EffectsT = TypeVar("EffectsT", bound=Effects[Any, Any, Any])
TimerT = TypeVar("TimerT", contravariant=True)


class Machine(Protocol[RecordT, EffectsT, TimerT]):
    """Examples: kwire.groups.machine, kwire.txn.machine and kwire.coordinators.share.machine."""

    replaced_keys: ClassVar[tuple[bytes, ...]]
    """Key prefixes of records that replace all earlier records of the same key.

    Replay may skip the earlier ones, as compaction does.  A tombstone replaces nothing here.
    """

    def decode(self, key: bytes | None, value: bytes | None) -> RecordT | None:
        """The decoded record, or None if its type is unknown to this machine.

        Raises ValueError if the type is known but the bytes cannot be read.
        """

    def apply(self, record: RecordT) -> None:
        """Change durable state by one record, live and on load.  Nothing else changes it."""

    def install_soft_state(self, effects: EffectsT) -> None:
        """Set the state that is not in the log (`effects.soft`), after `apply` of the records."""

    def loaded(self, now_ms: int) -> Iterable[EffectsT]:
        """Effects after the last record was applied: timers start."""

    def unloaded(self, now_ms: int) -> Iterable[EffectsT]:
        """Effects when this broker stops leading the partition; only their replies are sent."""

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> EffectsT | None:
        """Effects of the deletion of topics (name, id) from the cluster, or None if none."""

    def timer_fired(self, timer: TimerT, now_ms: int) -> EffectsT:
        """Effects of a timer that fires; the machine checks whether it still matters."""


PendingT = TypeVar("PendingT", contravariant=True)


@runtime_checkable
class TransactionalMachine(Protocol[PendingT]):
    """A machine whose records may belong to clients' transactions."""

    def apply_pending(self, record: PendingT, producer_id: int) -> None:
        """Like `apply`, for a record of a transaction that is still open."""

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """A marker was appended: apply the producer's pending records, or drop them."""
