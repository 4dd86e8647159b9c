"""The state that the share coordinator stores of one share partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kwire.codecs.messages.coordinator import share_snapshot, share_update
from kwire.coordinators.share.batches import NO_OFFSET, StateBatch, combine
from kwire.coordinators.share.records import ShareKey, ShareStateSnapshot, ShareStateUpdate

NO_EPOCH = -1
NO_COUNT = -1


class WireBatch(Protocol):
    """A state batch in a message; each record and request type has its own class for it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareStateWrite:
    """A change that the leader of a share partition writes.

    Start offset and count hold together: a write changes them only if its start offset is higher
    than the stored one, or the same with a higher count.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@dataclass(frozen=True, slots=True)
class ShareState:
    """See the module.

    `start_offset` is -1 until a leader has written one.  `delivery_complete_count` is the number of
    records after it that are in a terminal state, or -1 if unknown.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0

    @classmethod
    def begun(
        cls, before: ShareState | None, state_epoch: int, start_offset: int, now_ms: int
    ) -> ShareState:
        """Return the state of a group that begins to read the partition, or starts it over."""
        return cls(
            snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
            state_epoch=state_epoch,
            start_offset=start_offset,
            delivery_complete_count=NO_COUNT if start_offset == NO_OFFSET else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )

    def snapshot_with(self, written: ShareStateWrite, leader_epoch: int, now_ms: int) -> ShareState:
        """Return the whole state after a write, with the next snapshot epoch."""
        start_offset, complete_count = self._progress(written)
        return replace(
            self,
            snapshot_epoch=self.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            batches=tuple(combine([*self.batches, *written.batches], start_offset)),
            created_ms=now_ms,
            written_ms=now_ms,
        )

    def _progress(self, written: ShareStateWrite) -> tuple[int, int]:
        """Return the start offset and the count after a write; a late write changes neither."""
        stored = self.start_offset, self.delivery_complete_count
        return max(stored, (written.start_offset, written.delivery_complete_count))

    # -- its records

    def to_snapshot(self, key: ShareKey) -> ShareStateSnapshot:
        """Return the record that stores this whole state."""
        value = share_snapshot.ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=[
                share_snapshot.StateBatch(
                    batch.first, batch.last, batch.state, batch.delivery_count
                )
                for batch in self.batches
            ],
        )
        return ShareStateSnapshot(share_snapshot.ShareSnapshotKey(*key), value)

    @classmethod
    def of_snapshot(cls, value: share_snapshot.ShareSnapshotValue) -> ShareState:
        """Return the state that a snapshot record stores."""
        return cls(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(batches_of(value.state_batches)),
            created_ms=value.create_timestamp,
            written_ms=value.write_timestamp,
        )

    def to_update(
        self, key: ShareKey, written: ShareStateWrite, leader_epoch: int
    ) -> ShareStateUpdate:
        """Return the record of a write alone, without the rest of the state.

        A write without start offset repeats the stored one, so that the record has it whole.
        """
        start_offset, complete_count = self._progress(written)
        value = share_update.ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            state_batches=[
                share_update.StateBatch(batch.first, batch.last, batch.state, batch.delivery_count)
                for batch in combine(written.batches, start_offset)
            ],
        )
        return ShareStateUpdate(share_update.ShareUpdateKey(*key), value)

    def updated(self, value: share_update.ShareUpdateValue) -> ShareState:
        """Return the state after an update record."""
        has_start = value.start_offset != NO_OFFSET  # older logs leave it out
        start_offset = value.start_offset if has_start else self.start_offset
        has_epoch = value.leader_epoch != NO_EPOCH
        return replace(
            self,
            leader_epoch=value.leader_epoch if has_epoch else self.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(combine([*self.batches, *batches_of(value.state_batches)], start_offset)),
        )


def batches_of(batches: Iterable[WireBatch]) -> list[StateBatch]:
    """Return the state batches of a record or request."""
    return [
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state
        )
        for batch in batches
    ]
