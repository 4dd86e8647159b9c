"""The share coordinator's answer to each request, and the states in its records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.share.batches import DeliveryState, StateBatch, combine
from kwire.coordinators.share.in_flight import UNREAD, Delivery, RecordRuns
from kwire.coordinators.share.machine import (
    EMPTY_STATE,
    ERROR_MESSAGES,
    ShareStateAnswer,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import ShareSession, ShareSessions
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from tests.coordinators.share.test_coordinator_machine import Coordinator
from tests.groups.images import put


def negative(what: str) -> ShareStateAnswer:
    message = f"The {what} cannot be a negative number."
    return ShareStateAnswer(ErrorCode.INVALID_REQUEST, message)


UNKNOWN = ShareStateAnswer(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
OLD_LEADER = ShareStateAnswer(
    ErrorCode.FENCED_LEADER_EPOCH,
    "The leader epoch in the request is older than the epoch on the broker.",
)
OLD_STATE = ShareStateAnswer(
    ErrorCode.FENCED_STATE_EPOCH,
    "The coordinator rejected the request because the state epoch did not match.",
)


def uninitialized(what: str) -> ShareStateAnswer:
    sentence = f"{what} operation on uninitialized share partition not allowed."
    return ShareStateAnswer(ErrorCode.INVALID_REQUEST, sentence)


def summary(coordinator: Coordinator) -> ShareStateAnswer:
    return coordinator.ask(lambda t: coordinator.machine.summary(coordinator.key, t))


REQUESTS: dict[str, Callable[[Coordinator], ShareStateAnswer]] = {
    "initialize": lambda coordinator: coordinator.initialize(5, 10),
    "read": lambda coordinator: coordinator.read(5),
    "write": lambda coordinator: coordinator.write_state(5, 5, 10),
    "summary": summary,
    "delete": lambda coordinator: coordinator.delete(),
}
UNBEGUN = {
    "initialize": ShareStateAnswer(),
    "read": uninitialized("Read"),
    "write": uninitialized("Write"),
    "summary": ShareStateAnswer(state=EMPTY_STATE),
    "delete": ShareStateAnswer(),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_for_a_negative_partition_is_refused(name: str) -> None:
    coordinator = Coordinator()
    coordinator.key = coordinator.key._replace(partition=-1)
    assert REQUESTS[name](coordinator) == negative("partition id")
    assert coordinator.records == []


@pytest.mark.parametrize("partition", [0, 2])
@pytest.mark.parametrize("name", REQUESTS)
def test_uninitialized_partition_has_kafkas_error_for_each_request(
    name: str, partition: int
) -> None:
    coordinator = Coordinator()
    coordinator.key = coordinator.key._replace(partition=partition)
    assert REQUESTS[name](coordinator) == UNBEGUN[name]
    assert len(coordinator.records) == (name == "initialize")


@pytest.mark.parametrize("name", ["initialize", "summary", "delete"])
@pytest.mark.parametrize("what", ["topic", "partition"])
def test_request_for_a_missing_topic_or_partition_is_refused(name: str, what: str) -> None:
    coordinator = Coordinator()
    key = coordinator.key
    coordinator.key = (
        key._replace(topic_id=b"x" * 16) if what == "topic" else key._replace(partition=3)
    )
    assert REQUESTS[name](coordinator) == UNKNOWN
    assert coordinator.records == []


@pytest.mark.parametrize(
    ("state_epoch", "leader_epoch", "answer"),
    [
        (4, 7, OLD_STATE),
        (5, 6, OLD_LEADER),
        (4, 6, OLD_LEADER),
        (5, 7, ShareStateAnswer()),
        (6, 8, ShareStateAnswer()),
        (-1, 7, negative("state epoch")),
        (-1, -1, negative("leader epoch")),
    ],
)
def test_write_with_an_older_or_negative_epoch_is_refused(
    state_epoch: int, leader_epoch: int, answer: ShareStateAnswer
) -> None:
    coordinator = Coordinator()
    coordinator.initialize(5, 10)
    coordinator.read(7)
    count = len(coordinator.records)
    assert coordinator.write_state(state_epoch, leader_epoch, 11) == answer
    assert len(coordinator.records) - count == (answer == ShareStateAnswer())


@pytest.mark.parametrize(
    ("leader_epoch", "answered", "records"),
    [(6, False, 0), (7, True, 0), (8, True, 1), (-1, False, 0)],
)
def test_read_with_a_new_leader_epoch_fences_earlier_leaders(
    leader_epoch: int, answered: bool, records: int
) -> None:
    coordinator = Coordinator()
    coordinator.initialize(5, 10)
    coordinator.read(7)
    coordinator.write_state(5, 7, 10, StateBatch(10, 12, 1, 2), count=3)
    count = len(coordinator.records)
    answer = coordinator.read(leader_epoch)
    assert (answer.error is ErrorCode.NONE) is answered
    assert len(coordinator.records) - count == records
    if answered:
        assert answer.state is not None
        assert (answer.state.start_offset, answer.state.delivery_complete_count) == (10, 3)
        assert answer.state.batches == (StateBatch(10, 12, 1, 2),)
    state = coordinator.state
    assert state.leader_epoch == (8 if leader_epoch == 8 else 7)
    assert state.delivery_complete_count == 3, "a read loses nothing of what was written"


@pytest.mark.parametrize(
    ("state_epoch", "answer"), [(4, OLD_STATE), (5, ShareStateAnswer()), (6, ShareStateAnswer())]
)
def test_initialize_with_an_earlier_state_epoch_is_fenced(
    state_epoch: int, answer: ShareStateAnswer
) -> None:
    coordinator = Coordinator()
    coordinator.initialize(5, 10)
    assert coordinator.initialize(state_epoch, 20) == answer
    state = summary(coordinator).state
    assert state is not None
    assert state.start_offset == (10 if answer is OLD_STATE else 20)
    assert state.snapshot_epoch == (0 if answer is OLD_STATE else 1)
    assert (state.created_ms, state.written_ms) == (coordinator.now_ms, coordinator.now_ms)
    assert state.delivery_complete_count == 0


def test_delivery_complete_count_is_unknown_without_a_start_offset() -> None:
    coordinator = Coordinator()
    coordinator.initialize(5, -1)
    state = summary(coordinator).state
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count, state.leader_epoch) == (-1, -1, 0)


def test_deleted_share_state_is_empty() -> None:
    coordinator = Coordinator()
    coordinator.initialize(5, 10)
    assert coordinator.delete() == ShareStateAnswer()
    assert summary(coordinator) == ShareStateAnswer(state=EMPTY_STATE)
    count = len(coordinator.records)
    coordinator.delete()
    assert len(coordinator.records) == count, "nothing is left to be deleted"


def test_tombstones_of_deleted_topics_need_no_common_batch() -> None:
    coordinator = Coordinator()
    coordinator.image, other = put(coordinator.image, "u", 1)
    first = coordinator.key
    for key in (first, first._replace(partition=2), ShareKey("h", other, 0)):
        coordinator.key = key
        coordinator.initialize(1, 0)
    machine = coordinator.machine
    effects = machine.topics_deleted([("t", first.topic_id)], coordinator.now_ms)
    assert effects is not None
    assert not effects.atomic, "thousands of partitions fit into no batch"
    gone = [(each.key.group_id, each.key.topic_id, each.key.partition) for each in effects.records]
    assert gone == [("g", first.topic_id, 0), ("g", first.topic_id, 2)]
    assert machine.topics_deleted([("v", b"v" * 16)], coordinator.now_ms) is None


def test_failed_append_is_answered_with_kafkas_message() -> None:
    for error, sentence in ERROR_MESSAGES.items():
        assert ShareStateAnswer.refused(error) == ShareStateAnswer(error, sentence)
    assert ShareStateAnswer.refused(ErrorCode.NOT_COORDINATOR) == ShareStateAnswer(
        ErrorCode.NOT_COORDINATOR, None
    )


# -- states


batches = st.lists(
    st.builds(
        lambda first, length, count, state: StateBatch(first, first + length, count, state),
        st.integers(0, 30),
        st.integers(0, 5),
        st.integers(1, 3),
        st.sampled_from([0, 2, 4]),
    ),
    max_size=4,
)
writes = st.lists(
    st.tuples(st.integers(-1, 20), st.integers(-1, 9), st.integers(-1, 5), batches), max_size=5
)


@given(writes)
def test_updates_and_snapshots_give_the_same_state(
    steps: list[tuple[int, int, int, list[StateBatch]]],
) -> None:
    """However often a snapshot is written; a snapshot read again is the state that it was of."""
    key = ShareKey("g", bytes(16), 0)
    updated = whole = ShareState(0, 1, start_offset=0)
    complete = -1
    for start_offset, count, leader_epoch, changed in steps:
        complete = max((whole.start_offset, complete), (start_offset, count))[1]
        written = ShareStateWrite(1, leader_epoch, start_offset, count, combine(changed, -1))
        value = updated.to_update(key, written, leader_epoch).value
        assert value is not None
        updated = updated.updated(value)
        epoch = whole.leader_epoch if leader_epoch == -1 else leader_epoch
        whole = whole.snapshot_with(written, epoch, now_ms=7)
        snapshot = whole.to_snapshot(key).value
        assert snapshot is not None
        assert ShareState.of_snapshot(snapshot) == whole
        assert (whole.created_ms, whole.written_ms) == (7, 7)
        assert updated.start_offset == whole.start_offset
        assert updated.leader_epoch == whole.leader_epoch
        assert updated.delivery_complete_count == whole.delivery_complete_count == complete
        assert updated.batches == whole.batches
    assert whole.snapshot_epoch == len(steps)


# -- runs


def test_delivered_run_is_marked_split_when_it_is_cut() -> None:
    runs = RecordRuns(0)
    delivered = Delivery(DeliveryState.AVAILABLE, 1)
    runs.extend(9, delivered)
    runs.extend(19, UNREAD)
    assert [(run.first, run.last, run.acquired_together, run.is_split) for run in runs] == [
        (0, 9, 10, False),
        (10, 19, 10, False),
    ]
    runs.within(3, 14)
    assert [(run.first, run.last, run.acquired_together, run.is_split) for run in runs] == [
        (0, 2, 10, True),
        (3, 9, 10, True),
        (10, 14, 10, False),
        (15, 19, 10, False),
    ]
    runs.extend(19, UNREAD)
    assert runs.end == 20, "what is kept already is not kept twice"


@pytest.mark.parametrize(("last", "end"), [(19, 20), (14, 15), (10, 11), (9, 10), (4, 10)])
def test_drop_unread_drops_undelivered_runs_after_an_offset(last: int, end: int) -> None:
    runs = RecordRuns(0)
    runs.extend(9, Delivery(DeliveryState.ACQUIRED, 1, "m", 5))
    runs.extend(19, UNREAD)
    runs.drop_unread(last)
    assert runs.end == end


# -- sessions


def test_partition_must_be_reported_until_its_response_has_no_error() -> None:
    session = ShareSession()
    place, stranger = (b"a", 0), (b"b", 0)
    session.change([place], [])
    news = [session.must_report(place)]
    for succeeded in (True, False, True):
        session.record_result(place, succeeded=succeeded)
        news.append(session.must_report(place))
    assert news == [True, False, True, False]
    session.change([place], [])
    assert not session.must_report(place), "it is read already"
    session.record_result(stranger, succeeded=False)
    assert not session.must_report(stranger)
    assert session.next_order() == [place]


def test_topic_name_is_dropped_with_its_last_partition() -> None:
    session = ShareSession()
    session.change([(b"a", 0), (b"a", 1), (b"b", 0)], [])
    session.names = {b"a": "a", b"b": "b"}
    session.change([], [(b"a", 0), (b"c", 5)])
    assert session.names == {b"a": "a", b"b": "b"}
    session.change([], [(b"a", 1)])
    assert session.names == {b"b": "b"}


def test_sessions_find_their_group_and_the_current_session() -> None:
    sessions = ShareSessions()
    first = sessions.begin(("g", "m"), max_sessions=1)
    assert isinstance(first, ShareSession)
    assert sessions.is_current(("g", "m"), first)
    assert (sessions.of_group("g"), sessions.of_group("h")) == (True, False)
    second = sessions.begin(("g", "m"), max_sessions=1)
    assert not sessions.is_current(("g", "m"), first)
    sessions.end(("g", "m"))
    assert not sessions.of_group("g")
    assert isinstance(second, ShareSession)
    assert not sessions.is_current(("g", "m"), second)
