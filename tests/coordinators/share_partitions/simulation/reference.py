"""A second, slow reader of `__share_group_state`, offset by offset, to compare with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kwire.codecs.batches import records
from kwire.codecs.messages.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.codecs.messages.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareState, ShareStateWrite

SNAPSHOT, UPDATE = 0, 1
UNSAID = -1
Mark = tuple[int, int]
"""(delivery count, state) of a record; of two marks the higher one is valid."""


@dataclass(frozen=True)
class Reference:
    """The state of one share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    marks: dict[int, Mark] = field(default_factory=dict)
    snapshot_epoch: int = 0
    updates: int = 0
    """Since the last snapshot."""

    @property
    def known(self) -> tuple[int, int, int, dict[int, Mark]]:
        return self.state_epoch, self.start_offset, self.complete_count, self.marks

    def after(self, written: ShareStateWrite) -> tuple[int, int, int, dict[int, Mark]]:
        """`known` after a write; one that comes late changes neither start offset nor count."""
        start, count = max(
            (self.start_offset, self.complete_count),
            (written.start_offset, written.delivery_complete_count),
        )
        marks = dict(self.marks)
        for first, last, deliveries, state in written.batches:
            _mark(marks, first, last, (deliveries, int(state)))
        return self.state_epoch, start, count, _from(marks, start)


def known_of(state: ShareState) -> tuple[int, int, int, dict[int, Mark]]:
    """`known` of an answered state; no offset may be in two batches."""
    marks: dict[int, Mark] = {}
    for first, last, count, delivery_state in state.batches:
        for offset in range(first, last + 1):
            assert offset not in marks, ("named twice", offset, state)
            marks[offset] = count, int(delivery_state)
    return state.state_epoch, state.start_offset, state.delivery_complete_count, marks


class References:
    """The references of all share partitions in a log."""

    def __init__(self) -> None:
        self._known: dict[ShareKey, Reference] = {}
        self.last_snapshots: dict[ShareKey, int] = {}
        """Share partition -> offset of its last snapshot record."""
        self.updates_max = 0
        """The highest number of updates after one snapshot."""

    def get(self, key: ShareKey) -> Reference | None:
        return self._known.get(key)

    def follow(self, batch: bytes, offset: int) -> None:
        for record in records(batch):
            assert record.key is not None
            assert record.value is not None, "no partition is forgotten here"
            kind = int.from_bytes(record.key[:2], "big")
            if kind == SNAPSHOT:
                key = _key(ShareSnapshotKey.decode(record.key[2:], 0))
                self._snapshot(key, ShareSnapshotValue.decode(record.value[2:], 0))
                self.last_snapshots[key] = offset
            else:
                assert kind == UPDATE
                key = _key(ShareUpdateKey.decode(record.key[2:], 0))
                self._update(key, ShareUpdateValue.decode(record.value[2:], 0))

    def _snapshot(self, key: ShareKey, value: ShareSnapshotValue) -> None:
        before = self._known.get(key)
        now = Reference(
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            _marks(value.state_batches),
            value.snapshot_epoch,
        )
        self._known[key] = now
        if before is None:
            return
        assert now.snapshot_epoch == before.snapshot_epoch + 1, (
            "wrong snapshot epoch",
            before,
            now,
        )
        assert now.state_epoch >= before.state_epoch, ("an earlier epoch", before, now)
        if now.state_epoch == before.state_epoch:
            if now.leader_epoch > 0:  # it was written by a leader, not initialized a second time
                assert before.updates, ("a snapshot follows a snapshot", before, now)
            assert now.leader_epoch >= before.leader_epoch, ("an earlier leader", before, now)
            assert now.start_offset >= before.start_offset, ("the start offset fell", before, now)
            for offset, mark in _from(before.marks, now.start_offset).items():
                assert now.marks.get(offset, (0, 0)) >= mark, (
                    "the snapshot lost an offset",
                    offset,
                    before,
                    now,
                )

    def _update(self, key: ShareKey, value: ShareUpdateValue) -> None:
        before = self._known[key]
        start = before.start_offset if value.start_offset == UNSAID else value.start_offset
        marks = dict(before.marks)
        for offset, mark in _marks(value.state_batches).items():
            _mark(marks, offset, offset, mark)
        assert value.snapshot_epoch == before.snapshot_epoch, (
            "wrong snapshot epoch",
            before,
            value,
        )
        assert value.leader_epoch >= before.leader_epoch, ("an earlier leader", before, value)
        assert start >= before.start_offset, ("the start offset fell", before, value)
        self._known[key] = Reference(
            before.state_epoch,
            value.leader_epoch,
            start,
            value.delivery_complete_count,
            _from(marks, start),
            before.snapshot_epoch,
            before.updates + 1,
        )
        self.updates_max = max(self.updates_max, before.updates + 1)


def _key(key: Any) -> ShareKey:  # noqa: ANN401 - of either record
    return ShareKey(key.group_id, key.topic_id, key.partition)


def _marks(batches: Iterable[Any]) -> dict[int, Mark]:
    marks: dict[int, Mark] = {}
    for each in batches:
        _mark(
            marks, each.first_offset, each.last_offset, (each.delivery_count, each.delivery_state)
        )
    return marks


def _mark(marks: dict[int, Mark], first: int, last: int, mark: Mark) -> None:
    for offset in range(first, last + 1):
        marks[offset] = max(marks.get(offset, mark), mark)


def _from(marks: dict[int, Mark], start: int) -> dict[int, Mark]:
    return {offset: mark for offset, mark in marks.items() if offset >= start}
