"""Incremental fetch sessions (KIP-227), which behave as observed of Apache Kafka 4.3.1."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kwire.storage.partitions.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    Answers,
    FetchPlan,
    FetchSessions,
)

ID = b"\x01" * 16
OTHER_ID = b"\x02" * 16
NAMES = {ID: "a", OTHER_ID: "b"}
INT32_MAX = 2**31 - 1


def new_sessions(slots_max: int = 10) -> FetchSessions:
    numbers = count(100)
    return FetchSessions(slots_max, lambda: next(numbers))


def topic(name: str | bytes, **offsets: int) -> FetchTopic:
    partitions = [FetchPartition(int(p[1:]), fetch_offset=at) for p, at in offsets.items()]
    if isinstance(name, bytes):
        return FetchTopic(topic_id=name, partitions=partitions)
    return FetchTopic(topic=name, partitions=partitions)


def plan(
    sessions: FetchSessions,
    *topics: FetchTopic,
    session: int = 0,
    epoch: int = 0,
    forget: tuple[ForgottenTopic, ...] = (),
    by_topic_id: bool = False,
    now_ms: int = 0,
) -> FetchPlan:
    request = FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=list(topics),
        forgotten_topics_data=list(forget),
    )
    return sessions.plan(request, by_topic_id=by_topic_id, name_of=NAMES.get, now_ms=now_ms)


def answer(to: FetchPlan, *, records: bytes = b"", high_watermark: int = 5) -> Answers:
    return [
        (target, PartitionData(target.asked.partition, 0, high_watermark, 5, 0, records=records))
        for target in to.targets.values()
    ]


def open_session(
    sessions: FetchSessions, *topics: FetchTopic, by_topic_id: bool = False, now_ms: int = 0
) -> int:
    full = plan(sessions, *topics, by_topic_id=by_topic_id, now_ms=now_ms)
    assert full.opens_session
    return sessions.open(answer(full), now_ms, by_topic_id=by_topic_id)


def keys(of: FetchPlan) -> list[tuple[str | bytes, int]]:
    return list(of.targets)


def test_full_fetch_opens_a_session_for_incremental_fetches() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=3, p1=4))
    assert number == 100
    incremental = plan(sessions, session=number, epoch=1)
    assert keys(incremental) == [("a", 0), ("a", 1)]
    assert [target.asked.fetch_offset for target in incremental.targets.values()] == [3, 4]
    assert incremental.session is not None
    assert not incremental.opens_session


def test_partition_named_twice_is_read_once_by_its_last_entry() -> None:
    twice = plan(new_sessions(), topic("a", p0=3, p1=1), topic("a", p0=9))
    assert keys(twice) == [("a", 0), ("a", 1)]
    assert twice.targets["a", 0].asked.fetch_offset == 9


def test_incremental_fetch_adds_changes_and_forgets_partitions() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0, p1=0))
    forgotten = (ForgottenTopic(topic="a", partitions=[1, 7]), ForgottenTopic(topic="c"))
    changed = plan(
        sessions, topic("b", p2=5), topic("a", p0=8), session=number, epoch=1, forget=forgotten
    )
    assert {key: target.asked.fetch_offset for key, target in changed.targets.items()} == {
        ("a", 0): 8,
        ("b", 2): 5,
    }


def test_partition_added_and_forgotten_in_one_request_is_forgotten() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    forget = (ForgottenTopic(topic="a", partitions=[1]),)
    both = plan(sessions, topic("a", p1=0), session=number, epoch=1, forget=forget)
    assert keys(both) == [("a", 0)]


def test_wrong_session_epoch_or_id_is_refused_and_changes_nothing() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    assert plan(sessions, session=number, epoch=2).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert plan(sessions, session=number, epoch=-7).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    for unknown in (0, -4, 12345):
        refused = plan(sessions, session=unknown, epoch=1)
        assert refused.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert plan(sessions, session=number, epoch=1).error is ErrorCode.NONE
    repeated = plan(sessions, session=number, epoch=1)
    assert repeated.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_session_keeps_using_names_or_ids() -> None:
    sessions = new_sessions()
    by_name = open_session(sessions, topic("a", p0=0))
    by_id = open_session(sessions, topic(ID, p0=0), by_topic_id=True)
    error = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert plan(sessions, session=by_name, epoch=1, by_topic_id=True).error is error
    assert plan(sessions, session=by_id, epoch=1).error is error
    assert plan(sessions, session=by_name, epoch=1).error is ErrorCode.NONE
    assert plan(sessions, session=by_id, epoch=1, by_topic_id=True).error is ErrorCode.NONE


def test_session_by_id_knows_the_names_of_known_topics() -> None:
    known, unknown = topic(ID, p0=0), topic(b"\x07" * 16, p0=0)
    by_id = plan(new_sessions(), known, unknown, by_topic_id=True)
    assert [target.topic for target in by_id.targets.values()] == ["a", None]


def test_session_epoch_wraps_to_1() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    session = plan(sessions, session=number, epoch=1).session
    assert session is not None
    session.epoch = INT32_MAX
    assert plan(sessions, session=number, epoch=INT32_MAX).error is ErrorCode.NONE
    assert plan(sessions, session=number, epoch=1).error is ErrorCode.NONE


def test_session_ends_when_all_partitions_are_forgotten() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    forget = (ForgottenTopic(topic="a", partitions=[0]),)
    last = plan(sessions, session=number, epoch=1, forget=forget)
    assert (last.error, last.session, last.opens_session) == (ErrorCode.NONE, None, False)
    assert keys(last) == []
    assert len(sessions) == 0


def test_empty_session_is_opened_and_ends_at_its_first_use() -> None:
    sessions = new_sessions()
    number = open_session(sessions)
    assert number != NO_SESSION
    assert plan(sessions, session=number, epoch=1).session is None
    assert len(sessions) == 0


def test_full_fetch_ends_the_session_that_it_names() -> None:
    sessions = new_sessions()
    for epoch, opens in ((0, True), (-1, False)):
        number = open_session(sessions, topic("a", p0=0))
        again = plan(sessions, topic("a", p0=0), session=number, epoch=epoch)
        assert again.opens_session is opens
        assert len(sessions) == 0


def test_session_remembers_responses_but_not_errors() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    incremental = plan(sessions, session=number, epoch=1)
    target = incremental.targets["a", 0]
    assert (target.high_watermark, target.log_start_offset) == (5, 0)
    session = incremental.session
    assert session is not None
    session.told([(target, PartitionData(0, 1, -1))])
    assert target.high_watermark == -1


def test_partitions_with_records_are_read_last_in_the_next_fetch() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0, p1=0, p2=0))
    first = plan(sessions, session=number, epoch=1)
    assert first.session is not None
    answers = answer(first, records=b"x")
    first.session.told([answers[0], answers[2]])
    assert keys(plan(sessions, session=number, epoch=2)) == [("a", 1), ("a", 0), ("a", 2)]


def test_response_overtaken_by_a_later_request_is_void() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0))
    parked = plan(sessions, session=number, epoch=1)
    assert not parked.overtaken
    plan(sessions, session=number, epoch=2)
    assert parked.overtaken


def test_partition_forgotten_during_a_wait_stays_forgotten() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic("a", p0=0, p1=0))
    parked = plan(sessions, session=number, epoch=1)
    assert parked.session is not None
    answers = answer(parked, records=b"x")
    forget = (ForgottenTopic(topic="a", partitions=[0]),)
    plan(sessions, session=number, epoch=2, forget=forget)
    parked.session.told(answers)
    assert list(parked.session.targets) == [("a", 1)]


def test_session_ids_in_use_are_not_given_again() -> None:
    numbers = iter([7, 7, 0, 8])
    sessions = FetchSessions(10, lambda: next(numbers))
    assert open_session(sessions, topic("a", p0=0)) == 7
    assert open_session(sessions, topic("a", p0=0)) == 8


# Which session makes room for a new one


def test_no_session_opens_without_slots() -> None:
    assert open_session(new_sessions(0), topic("a", p0=0)) == NO_SESSION


def test_session_is_not_displaced_for_two_minutes() -> None:
    sessions = new_sessions(1)
    first = open_session(sessions, topic("a", p0=0))
    assert open_session(sessions, topic("a", p0=0, p1=0), now_ms=EVICTION_MS) == NO_SESSION
    assert open_session(sessions, topic("a", p0=0), now_ms=EVICTION_MS + 1) != NO_SESSION
    assert plan(sessions, session=first, epoch=1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.evictions == 1
    assert open_session(sessions, topic("a", p0=0), now_ms=3 * EVICTION_MS) != NO_SESSION
    assert sessions.evictions == 2


def test_longest_unused_session_is_displaced_first() -> None:
    sessions = new_sessions(2)
    used, unused = (open_session(sessions, topic("a", p0=0)) for _ in range(2))
    plan(sessions, session=used, epoch=1, now_ms=10)
    assert open_session(sessions, topic("a", p0=0), now_ms=EVICTION_MS + 5) != NO_SESSION
    assert plan(sessions, session=used, epoch=2).error is ErrorCode.NONE
    assert plan(sessions, session=unused, epoch=1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_session_in_use_is_displaced_only_by_a_larger_one() -> None:
    sessions = new_sessions(2)
    later = EVICTION_MS + 1
    small = open_session(sessions, topic("a", p0=0))
    large = open_session(sessions, topic("a", p0=0, p1=0, p2=0))
    for number in (small, large):
        plan(sessions, session=number, epoch=1, now_ms=later)
    assert open_session(sessions, topic("a", p0=0), now_ms=later) == NO_SESSION
    assert open_session(sessions, topic("a", p0=0, p1=0), now_ms=later) != NO_SESSION
    assert plan(sessions, session=small, epoch=2).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert plan(sessions, session=large, epoch=2).error is ErrorCode.NONE


def test_session_counts_as_old_from_its_first_use_after_two_minutes() -> None:
    sessions = new_sessions(1)
    number = open_session(sessions, topic("a", p0=0))
    plan(sessions, session=number, epoch=1, now_ms=EVICTION_MS)
    larger = topic("a", p0=0, p1=0)
    assert open_session(sessions, larger, now_ms=EVICTION_MS + 10) == NO_SESSION
    plan(sessions, session=number, epoch=2, now_ms=EVICTION_MS + 11)
    assert open_session(sessions, larger, now_ms=EVICTION_MS + 12) != NO_SESSION


def test_young_session_is_not_displaced_at_any_clock_time() -> None:
    hour = 1_700_000_000_000
    sessions = new_sessions(1)
    number = open_session(sessions, topic("a", p0=0), now_ms=hour)
    plan(sessions, session=number, epoch=1, now_ms=hour + EVICTION_MS)
    larger = topic("a", p0=0, p1=0)
    assert open_session(sessions, larger, now_ms=hour + EVICTION_MS) == NO_SESSION
    plan(sessions, session=number, epoch=2, now_ms=hour + EVICTION_MS + 1)
    assert open_session(sessions, larger, now_ms=hour + EVICTION_MS + 1) != NO_SESSION


def test_follower_session_displaces_consumers_and_is_not_displaced() -> None:
    sessions = new_sessions(1)
    open_session(sessions, topic("a", p0=0, p1=0, p2=0))
    follower = answer(plan(sessions, topic("a", p0=0)))
    assert sessions.open(follower, 1, by_topic_id=False, privileged=True) != NO_SESSION
    assert open_session(sessions, topic("a", p0=0, p1=0), now_ms=2) == NO_SESSION
    assert sessions.open(follower, 3, by_topic_id=False, privileged=True) == NO_SESSION


_partitions = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(0, 9), max_size=4
)


@given(_partitions.filter(bool), st.lists(st.tuples(_partitions, _partitions), max_size=6))
def test_session_partitions_are_the_sum_of_its_requests(
    start: dict[tuple[str, int], int],
    steps: list[tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]],
) -> None:
    def topics(partitions: dict[tuple[str, int], int]) -> list[FetchTopic]:
        return [topic(name, **{f"p{index}": at}) for (name, index), at in partitions.items()]

    sessions = new_sessions()
    number = open_session(sessions, *topics(start))
    wanted = dict(start)
    for epoch, (change, forget) in enumerate(steps, 1):
        wanted = {key: at for key, at in (wanted | change).items() if key not in forget}
        forgotten = tuple(ForgottenTopic(topic=name, partitions=[at]) for name, at in forget)
        result = plan(sessions, *topics(change), session=number, epoch=epoch, forget=forgotten)
        assert {key: each.asked.fetch_offset for key, each in result.targets.items()} == wanted
        if not wanted:
            assert len(sessions) == 0
            return
    assert sessions.partitions == len(wanted)


# What an answer in a session leaves out


TOLD = PartitionData(0, high_watermark=5, log_start_offset=2, records=b"")


@pytest.mark.parametrize(
    ("data", "is_known"),
    [
        (TOLD, True),
        (replace(TOLD, last_stable_offset=4), True),
        (replace(TOLD, records=b"x"), False),
        (replace(TOLD, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), False),
        (replace(TOLD, high_watermark=6), False),
        (replace(TOLD, high_watermark=4), False),
        (replace(TOLD, log_start_offset=3), False),
        (replace(TOLD, log_start_offset=1), False),
        (replace(TOLD, diverging_epoch=EpochEndOffset(1, 2)), False),
        (replace(TOLD, preferred_read_replica=0), False),
        (replace(TOLD, preferred_read_replica=1), False),
    ],
)
def test_partition_data_equal_to_the_last_response_are_known(
    data: PartitionData, is_known: bool
) -> None:
    target = plan(new_sessions(), topic("a", p0=0)).targets["a", 0]
    assert not target.knows(TOLD), "nothing was told yet"
    target.told(TOLD)
    assert target.knows(data) is is_known


def test_response_after_an_error_is_never_left_out() -> None:
    target = plan(new_sessions(), topic("a", p0=0)).targets["a", 0]
    target.told(TOLD)
    target.told(replace(TOLD, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, log_start_offset=-1))
    assert (target.high_watermark, target.log_start_offset) == (-1, -1)
    assert not target.knows(TOLD)


def test_partitions_of_a_session_are_found_by_its_id() -> None:
    sessions = new_sessions()
    first = open_session(sessions, topic("a", p0=0, p1=0))
    second = open_session(sessions, topic(OTHER_ID, p3=0), by_topic_id=True)
    assert [target.key for target in sessions.targets_of(first)] == [("a", 0), ("a", 1)]
    (target,) = sessions.targets_of(second)
    assert (target.key, target.topic, target.topic_id) == ((OTHER_ID, 3), "b", OTHER_ID)
    assert [*sessions.targets_of(second + 1)] == []
    assert sessions.partitions == 3


def test_topics_of_a_session_by_id_are_forgotten_by_id() -> None:
    sessions = new_sessions()
    number = open_session(sessions, topic(ID, p0=0), topic(OTHER_ID, p0=0), by_topic_id=True)
    forget = (ForgottenTopic(topic_id=ID, partitions=[0]),)
    left = plan(sessions, session=number, epoch=1, forget=forget, by_topic_id=True)
    assert keys(left) == [(OTHER_ID, 0)]


def test_session_counts_with_the_partitions_of_its_last_request() -> None:
    sessions = new_sessions(1)
    number = open_session(sessions, topic("a", p0=0))
    later = EVICTION_MS + 1
    plan(sessions, topic("a", p1=0, p2=0), session=number, epoch=1, now_ms=later)
    assert open_session(sessions, topic("a", p0=0, p1=0, p2=0), now_ms=later) == NO_SESSION
    assert open_session(sessions, topic("a", p0=0, p1=0, p2=0, p3=0), now_ms=later) != NO_SESSION


def test_smallest_old_session_is_displaced_by_the_lowest_id() -> None:
    later = EVICTION_MS + 1
    sessions = new_sessions(3)
    numbers = [open_session(sessions, topic("a", **each)) for each in (
        {"p0": 0, "p1": 0}, {"p0": 0}, {"p1": 0},
    )]  # fmt: skip
    for number in reversed(numbers):
        plan(sessions, session=number, epoch=1, now_ms=later)
    assert open_session(sessions, topic("a", p0=0, p1=0), now_ms=later) != NO_SESSION
    errors = [plan(sessions, session=number, epoch=2).error for number in numbers]
    assert errors == [ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.NONE]


def test_larger_follower_displaces_consumers_then_an_old_follower() -> None:
    later = EVICTION_MS + 1
    sessions = new_sessions(2)
    answered = answer(plan(sessions, topic("a", p0=0, p1=0)))
    follower = sessions.open(answered[:1], 0, by_topic_id=False, privileged=True)
    consumer = open_session(sessions, topic("a", p0=0, p1=0, p2=0))
    for number in (consumer, follower):
        plan(sessions, session=number, epoch=1, now_ms=later)
    for gone in (consumer, follower):
        assert sessions.open(answered, later, by_topic_id=False, privileged=True) != NO_SESSION
        assert [*sessions.targets_of(gone)] == []
    assert sessions.open(answered, later, by_topic_id=False, privileged=True) == NO_SESSION
    assert sessions.evictions == 2
