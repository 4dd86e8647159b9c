"""The follower's side of a fetch session: what each request names, and when it begins again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.cluster.replication import fetch_session
from kwire.cluster.replication.fetch_session import FetchSessionClient, Key
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse

A0: Key = ("a", b"a" * 16, 0)
A1: Key = ("a", b"a" * 16, 1)
B0: Key = ("b", b"b" * 16, 0)
NEW_A: Key = ("a", b"n" * 16, 0)
"""Partition 0 of a topic that was deleted and created again."""


def wanted(*keys: Key) -> dict[Key, FetchPartition]:
    return {key: FetchPartition(partition=key[2]) for key in keys}


def request(session: FetchSessionClient, partitions: Mapping[Key, FetchPartition]) -> FetchRequest:
    filled = FetchRequest()
    session.fill(filled, partitions)
    return filled


def named(filled: FetchRequest) -> list[tuple[str, bytes, list[int]]]:
    return [
        (topic.topic, topic.topic_id, [each.partition for each in topic.partitions])
        for topic in filled.topics
    ]


def forgotten(filled: FetchRequest) -> list[tuple[str, bytes, list[int]]]:
    return [
        (topic.topic, topic.topic_id, list(topic.partitions))
        for topic in filled.forgotten_topics_data
    ]


def opened(partitions: Mapping[Key, FetchPartition]) -> FetchSessionClient:
    """Session 9, whose leader knows these partitions."""
    session = FetchSessionClient()
    first = request(session, partitions)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert session.answered(FetchResponse(session_id=9))
    return session


def test_first_request_names_all_partitions_by_topic() -> None:
    session = FetchSessionClient()
    first = request(session, wanted(A0, B0, A1, NEW_A))
    assert named(first) == [
        ("a", b"a" * 16, [0, 1]),
        ("b", b"b" * 16, [0]),
        ("a", b"n" * 16, [0]),
    ]
    assert forgotten(first) == []
    assert not session.is_open


def test_incremental_request_names_new_and_changed_partitions_only() -> None:
    """A partition has changed if its FetchPartition is another object."""
    partitions = wanted(A0, A1)
    session = opened(partitions)
    assert session.is_open
    next_partitions = {A0: partitions[A0], **wanted(A1, B0)}
    following = request(session, next_partitions)
    assert (following.session_id, following.session_epoch) == (9, 1)
    assert named(following) == [("a", b"a" * 16, [1]), ("b", b"b" * 16, [0])]
    session.answered(FetchResponse(session_id=9))
    unchanged = request(session, next_partitions)
    assert (unchanged.session_epoch, named(unchanged), forgotten(unchanged)) == (2, [], [])


def test_incremental_request_forgets_partitions_that_are_no_longer_wanted() -> None:
    partitions = wanted(A0, A1, B0)
    session = opened(partitions)
    following = request(session, {**wanted(NEW_A)})
    assert named(following) == [("a", b"n" * 16, [0])]
    assert forgotten(following) == [("a", b"a" * 16, [0, 1]), ("b", b"b" * 16, [0])]
    session.answered(FetchResponse(session_id=9))
    assert forgotten(request(session, {})) == [("a", b"n" * 16, [0])]


def test_leader_without_room_for_the_session_gets_full_requests() -> None:
    partitions = wanted(A0)
    session = opened(partitions)
    request(session, partitions)
    assert session.answered(FetchResponse(session_id=0))
    full = request(session, partitions)
    assert (full.session_id, full.session_epoch) == (0, 0)
    assert named(full) == [("a", b"a" * 16, [0])]


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 9),
    ],
)
def test_error_makes_the_next_request_a_full_one(error: ErrorCode, session_id: int) -> None:
    """It names the session that the leader then closes, if the leader knows it."""
    partitions = wanted(A0)
    session = opened(partitions)
    request(session, partitions)
    assert not session.answered(FetchResponse(error_code=error, session_id=9))
    full = request(session, partitions)
    assert (full.session_id, full.session_epoch) == (session_id, 0)
    assert named(full) == [("a", b"a" * 16, [0])]
    assert forgotten(full) == []


def test_partitions_of_an_unanswered_request_are_named_again() -> None:
    """The leader may not have read it."""
    session = opened(wanted(A0, A1))
    partitions = wanted(B0)
    request(session, partitions)
    session.lost()
    full = request(session, partitions)
    assert (full.session_id, full.session_epoch) == (9, 0)
    assert named(full) == [("b", b"b" * 16, [0])]
    session.answered(FetchResponse(session_id=10))
    following = request(session, partitions)
    assert (following.session_id, following.session_epoch) == (10, 1)
    assert (named(following), forgotten(following)) == ([], [])


def test_session_epoch_begins_again_at_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 would be a full request; the largest number is that of an int32."""
    assert fetch_session._EPOCH_MAX == 2**31 - 1
    monkeypatch.setattr(fetch_session, "_EPOCH_MAX", 3)
    session = opened(wanted(A0))
    epochs = []
    for _ in range(5):
        epochs.append(request(session, {}).session_epoch)
        session.answered(FetchResponse(session_id=9))
    assert epochs == [1, 2, 3, 1, 2]
