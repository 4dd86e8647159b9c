"""Committed offsets beyond the scripts: recreated topics, lengths in UTF-16 units."""

from __future__ import annotations

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.groups.offset_record import (
    CommittedOffset,
    OffsetCommit,
    OffsetKey,
    offset_tombstone,
)
from kwire.groups.offsets import Offsets, commit, exceeds, fetch

FIRST, SECOND, UNKNOWN = b"1" * 16, b"2" * 16, bytes(16)


def offsets(topic_id: bytes) -> Offsets:
    committed = Offsets()
    key, value = OffsetKey("g", "t", 0), CommittedOffset(5, topic_id=topic_id)
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
def test_offset_of_a_deleted_topic_is_not_fetched_for_its_successor(
    committed_for: bytes, asked: bytes, offset: int
) -> None:
    topic = OffsetFetchRequestTopics(name="t", topic_id=asked, partition_indexes=[0])
    reply = fetch(offsets(committed_for), OffsetFetchRequestGroup("g", topics=[topic]))
    assert reply.topics[0].partitions[0].committed_offset == offset


@pytest.mark.parametrize(
    ("committed_for", "deleted", "forgotten"),
    [(FIRST, FIRST, 1), (SECOND, FIRST, 0), (UNKNOWN, FIRST, 1)],
)
def test_deleted_topic_deletes_its_offsets_but_not_its_successors(
    committed_for: bytes, deleted: bytes, forgotten: int
) -> None:
    committed = offsets(committed_for)
    assert len(committed.tombstones_of_topics([("t", deleted), ("u", deleted)])) == forgotten


def test_deleting_the_last_offset_leaves_no_entries() -> None:
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
def test_offset_metadata_is_measured_in_utf16_units(metadata: str, too_long: bool) -> None:
    assert exceeds(metadata, 10) is too_long


def test_fetch_of_an_uncommitted_offset_returns_kafkas_defaults() -> None:
    topic = OffsetFetchRequestTopics(name="t", topic_id=FIRST, partition_indexes=[3])
    reply = fetch(offsets(FIRST), OffsetFetchRequestGroup("g", topics=[topic]))
    (told,) = reply.topics[0].partitions
    assert (told.partition_index, told.committed_offset, told.committed_leader_epoch) == (3, -1, -1)
    assert (told.metadata, told.error_code) == ("", 0)


def pending(committed: Offsets, topic: str, producer_id: int) -> None:
    key = OffsetKey("g", topic, 0)
    committed.apply_pending(OffsetCommit(key, CommittedOffset(9)), producer_id)


def test_deleted_topic_deletes_its_pending_offsets() -> None:
    committed = Offsets()
    for topic in ("t", "u"):
        pending(committed, topic, 7)
    tombstones = committed.tombstones_of_topics([("t", FIRST)])
    assert tombstones == [offset_tombstone("g", "t", 0)]
    for tombstone in tombstones:
        committed.apply(tombstone)
    committed.end_transaction(7, commit=True)
    assert committed.get("g", "t", 0) is None
    assert committed.get("g", "u", 0) is not None


def test_tombstone_in_a_transaction_applies_at_once() -> None:
    """Whatever becomes of the transaction (OffsetMetadataManager.replay)."""
    committed = offsets(FIRST)
    pending(committed, "t", 7)
    committed.apply_pending(offset_tombstone("g", "t", 0), 8)
    assert committed.by_group == {}
    committed.end_transaction(7, commit=True)
    assert committed.by_group == {}


def test_pending_offset_is_unstable_only_with_require_stable() -> None:
    committed = offsets(FIRST)
    pending(committed, "t", 7)
    pending(committed, "u", 7)

    def told(topic: str, **options: bool) -> tuple[int, int]:
        asked = OffsetFetchRequestTopics(name=topic, topic_id=FIRST, partition_indexes=[0])
        request = OffsetFetchRequestGroup("g", topics=[asked])
        answer = fetch(committed, request, **options).topics[0].partitions[0]
        return answer.error_code, answer.committed_offset

    assert told("t") == (ErrorCode.NONE, 5)
    assert told("t", require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    committed.end_transaction(7, commit=False)
    assert told("t", require_stable=True) == (ErrorCode.NONE, 5)
    assert told("u", require_stable=True) == (ErrorCode.NONE, -1)


def test_commit_validates_each_partition_on_its_own() -> None:
    partitions = [
        OffsetCommitRequestPartition(index, 5, committed_metadata=metadata)
        for index, metadata in enumerate(["ok", "too long", "ok"])
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    records, response = commit(OffsetCommitRequest("g", topics=[topic]), 4, 0)
    assert [record.key.partition for record in records] == [0, 2]
    assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (2, ErrorCode.NONE),
    ]
