"""Pending offsets, compared with a model that orders commits by log offset, as Kafka does."""

from __future__ import annotations

from random import Random

import pytest

from kwire.groups.offset_record import (
    CommittedOffset,
    OffsetCommit,
    OffsetKey,
    offset_tombstone,
)
from kwire.groups.offsets import Offsets

PLACES = [OffsetKey(group, "t", index) for group in "gh" for index in range(3)]
PRODUCERS = (7, 8, 9)


class Model:
    """Each offset with its place in the log: of two the later one wins (OffsetMetadataManager)."""

    def __init__(self) -> None:
        self.position = 0
        self.committed: dict[OffsetKey, tuple[int, int]] = {}
        self.pending: dict[int, dict[OffsetKey, tuple[int, int]]] = {}

    def write(self, place: OffsetKey, offset: int, producer_id: int | None) -> None:
        self.position += 1
        if producer_id is None:
            self.committed[place] = self.position, offset
        else:
            self.pending.setdefault(producer_id, {})[place] = self.position, offset

    def delete(self, place: OffsetKey) -> None:
        self.position += 1
        self.committed.pop(place, None)
        for offsets in self.pending.values():
            offsets.pop(place, None)

    def end(self, producer_id: int, commit: bool) -> None:
        for place, found in self.pending.pop(producer_id, {}).items():
            if commit and found > self.committed.get(place, (-1, 0)):
                self.committed[place] = found

    def is_pending(self, place: OffsetKey) -> bool:
        return any(place in offsets for offsets in self.pending.values())


def step(rng: Random, offsets: Offsets, model: Model) -> str:
    """Something that the log might say, to both."""
    place, producer_id = rng.choice(PLACES), rng.choice(PRODUCERS)
    match rng.choice(("plain", "pending", "pending", "pending", "end", "delete")):
        case "plain":
            model.write(place, model.position, None)
            offsets.apply(record(place, model.position - 1))
            return f"commit {place}"
        case "pending":
            model.write(place, model.position, producer_id)
            offsets.apply_pending(record(place, model.position - 1), producer_id)
            return f"{producer_id} commits {place}"
        case "delete":
            model.delete(place)
            offsets.apply(offset_tombstone(*place))
            return f"delete {place}"
    commit = rng.random() < 0.6
    model.end(producer_id, commit)
    offsets.end_transaction(producer_id, commit)
    return f"end {producer_id} commit={commit}"


def record(place: OffsetKey, offset: int) -> OffsetCommit:
    return OffsetCommit(place, CommittedOffset(offset))


@pytest.mark.parametrize("round_number", range(20))
def test_later_commit_overtakes_a_pending_offset(rng: Random, round_number: int) -> None:
    offsets, model, said = Offsets(), Model(), []
    for _ in range(60):
        said.append(step(rng, offsets, model))
        for place in PLACES:
            found = offsets.get(*place)
            expected = model.committed.get(place)
            assert (None if found is None else found.offset) == (
                None if expected is None else expected[1]
            ), (place, said)
            assert (place in offsets.pending) == model.is_pending(place), (place, said)
    for producer_id in PRODUCERS:
        offsets.end_transaction(producer_id, commit=False)
    assert not any(place in offsets.pending for place in PLACES)
    assert not any(True for group in "gh" for _ in offsets.pending.of_group(group))


def test_pending_offsets_are_deleted_with_their_group_or_topic() -> None:
    offsets = Offsets()
    offsets.apply(record(OffsetKey("g", "t", 0), 5))
    offsets.apply_pending(record(OffsetKey("g", "t", 0), 6), 7)
    offsets.apply_pending(record(OffsetKey("g", "t", 1), 6), 7)
    offsets.apply_pending(record(OffsetKey("h", "u", 1), 6), 8)
    named = [(r.key.topic, r.key.partition) for r in offsets.tombstones("g")]
    assert named == [("t", 0), ("t", 1)]
    gone = offsets.tombstones_of_topics([("t", bytes(16)), ("u", bytes(16))])
    assert {(r.key.group_id, r.key.topic, r.key.partition) for r in gone} == {
        ("g", "t", 0),
        ("g", "t", 1),
        ("h", "u", 1),
    }
    for tombstone in gone:
        offsets.apply(tombstone)
    for producer_id in PRODUCERS:
        offsets.end_transaction(producer_id, commit=True)
    assert offsets.by_group == {}


def test_pending_offset_does_not_expire() -> None:
    offsets = Offsets()
    for index in (0, 1):
        offsets.apply(record(OffsetKey("g", "t", index), 5))
    offsets.apply_pending(record(OffsetKey("g", "t", 1), 6), 7)
    assert offsets.expired("g", 1000, 10, lambda _: 0) == [("t", 0)]
    offsets.end_transaction(7, commit=False)
    assert offsets.expired("g", 1000, 10, lambda _: 0) == [("t", 0), ("t", 1)]
