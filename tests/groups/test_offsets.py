"""Committed offsets beside the scripts: topics that come again, lengths as Java counts them."""

from __future__ import annotations

import pytest

from kwire.codecs.messages.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.groups.offsets import Offsets, exceeds, fetch
from kwire.groups.records import OffsetCommit, offset_tombstone

FIRST, SECOND, UNKNOWN = b"1" * 16, b"2" * 16, bytes(16)


def offsets(topic_id: bytes) -> Offsets:
    committed = Offsets()
    key, value = OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=5, topic_id=topic_id)
    committed.apply(OffsetCommit(key, value))
    return committed


@pytest.mark.parametrize(
    ("committed_for", "asked", "offset"),
    [
        (FIRST, FIRST, 5),
        (FIRST, SECOND, -1),
        (FIRST, UNKNOWN, 5),
        (UNKNOWN, SECOND, 5),
    ],
)
def test_offsets_of_an_earlier_topic_are_not_those_of_a_later(
    committed_for: bytes, asked: bytes, offset: int
) -> None:
    topic = OffsetFetchRequestTopics(name="t", topic_id=asked, partition_indexes=[0])
    reply = fetch(offsets(committed_for), OffsetFetchRequestGroup("g", topics=[topic]))
    assert reply.topics[0].partitions[0].committed_offset == offset


@pytest.mark.parametrize(
    ("committed_for", "deleted", "forgotten"),
    [(FIRST, FIRST, 1), (SECOND, FIRST, 0), (UNKNOWN, FIRST, 1)],
)
def test_what_goes_with_a_deleted_topic(
    committed_for: bytes, deleted: bytes, forgotten: int
) -> None:
    committed = offsets(committed_for)
    assert len(committed.tombstones_of_topics([("t", deleted), ("u", deleted)])) == forgotten


def test_forgetting_leaves_nothing_behind() -> None:
    committed = offsets(FIRST)
    for tombstone in (
        offset_tombstone("g", "t", 1),
        offset_tombstone("g", "u", 0),
        offset_tombstone("h", "t", 0),
    ):
        committed.apply(tombstone)
    assert committed.get("g", "t", 0) is not None
    committed.apply(offset_tombstone("g", "t", 0))
    assert committed.by_group == {}


@pytest.mark.parametrize(
    ("metadata", "too_long"),
    [
        ("", False),
        ("m" * 10, False),
        ("m" * 11, True),
        ("ü" * 10, False),
        ("\U0001f600" * 5, False),
        ("\U0001f600" * 5 + "m", True),
    ],
)
def test_metadata_is_measured_in_utf16_units(metadata: str, too_long: bool) -> None:
    assert exceeds(metadata, 10) is too_long
