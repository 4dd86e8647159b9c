"""Share sessions: epochs, limits, and the order of partitions."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.session import ShareSession, ShareSessions

READER = ("group", "member")
A, B, C = ((name, 0) for name in (b"a", b"b", b"c"))


def begun(sessions: ShareSessions) -> ShareSession:
    session = sessions.begin(READER, max_sessions=2)
    assert isinstance(session, ShareSession)
    return session


def test_session_requires_the_next_epoch_in_each_request() -> None:
    sessions = ShareSessions()
    session = begun(sessions)
    assert sessions.next(READER, 1) is session
    assert sessions.next(READER, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.next(READER, 2) is session
    session.epoch = 2**31 - 1
    assert sessions.next(READER, 2**31 - 1) is session
    assert sessions.next(READER, 1) is session


def test_ended_session_is_not_found() -> None:
    sessions = ShareSessions()
    session = begun(sessions)
    assert sessions.end(READER) is session
    assert sessions.end(READER) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.next(READER, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_session_beyond_the_limit_is_refused() -> None:
    sessions = ShareSessions()
    first = begun(sessions)
    assert begun(sessions) is not first, "in its own place"
    sessions.begin(("group", "other"), max_sessions=2)
    refused = sessions.begin(("group", "third"), max_sessions=2)
    assert refused is ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_each_partition_is_first_in_turn() -> None:
    session = ShareSession()
    session.change([A, B, C], [])
    assert [session.next_order()[0] for _ in range(4)] == [A, B, C, A]
    session.change([A], [B])
    assert sorted(session.next_order()) == [A, C]
