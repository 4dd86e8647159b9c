"""ShareFetch and ShareAcknowledge on a running broker: sessions, connections and waits.

conformance/wire/cases/share_*.py compares the responses with Apache Kafka 4.3.1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.share_fetch import (
    FetchPartition,
    ForgottenTopic,
    ShareFetchResponse,
)
from kwire.conformance.wire.cases.build import batch, fill, filled_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    acknowledge,
    fetch,
    join_until_assigned,
    new_group,
)
from kwire.conformance.wire.stage import Stage
from kwire.testing import BrokerProcess
from tests.coordinators.share_partitions.serving import WAIT_S, stage_on, unready_stage_on

LONG_MS = int(WAIT_S * 1000)
STATES = "__share_group_state"


@pytest.fixture
def stage(shared_broker: BrokerProcess) -> Iterator[Stage]:
    made = stage_on(shared_broker.bootstrap)
    yield made
    made.finish()


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    """First offset, last offset, the how manieth delivery it is."""
    assert response.error_code == ErrorCode.NONE
    return [
        (run.first_offset, run.last_offset, run.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for run in partition.acquired_records
    ]


def test_records_are_released_when_the_connection_closes(stage: Stage) -> None:
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    assert acquired(stage.send(fetch(group, "a", 0, topic), on="a")) == [(0, 5, 1)]
    stage.begin(fetch(group, "b", 0, topic, max_wait_ms=LONG_MS), on="b")
    stage.close_connection("a")
    assert acquired(stage.end("b")) == [(0, 5, 2)]
    told = stage.send(acknowledge(group, "a", 1, topic, (0, 5, [ACCEPT])), on="again")
    assert told.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_session_continued_on_another_connection_outlives_the_first(stage: Stage) -> None:
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic), on="a")
    stage.send(fetch(group, "a", 0, topic, max_wait_ms=0), on="later")
    stage.close_connection("a")
    for _ in range(3):  # the broker has seen the end by then, or never looks
        stage.send(fetch(group, "b", 0, topic, max_wait_ms=0), on="b")
    done = stage.send(acknowledge(group, "a", 1, topic, (0, 5, [ACCEPT])), on="later")
    assert done.error_code == ErrorCode.NONE
    assert done.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_unread_group_is_loaded_again_from_its_coordinator(stage: Stage) -> None:
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic), on="a")
    stage.send(acknowledge(group, "a", 1, topic, (0, 3, [ACCEPT])), on="a")
    stage.send(acknowledge(group, "a", -1, None), on="a")
    stage.close_connection("a")
    assert acquired(stage.send(fetch(group, "b", 0, topic, max_wait_ms=LONG_MS), on="b")) == [
        (4, 5, 2)
    ]


def test_share_fetch_waits_for_min_bytes(stage: Stage) -> None:
    group, topic = new_group(stage), stage.topic()
    join_until_assigned(stage, group, "a", topic)
    asked = fetch(group, "a", 0, topic, max_wait_ms=LONG_MS, min_bytes=2_000)
    stage.begin(asked, on="a")
    for _ in range(3):
        fill(stage, topic, batch(stage, b"x" * 900))
    assert acquired(stage.end("a")) == [(0, 2, 1)]


@pytest.mark.parametrize(
    ("min_bytes", "partitions_by_answer"),
    [
        (1, [[0], [1, 2, 3]]),
        (0, [[0], [1, 2, 3]]),
        (200, [[0, 1], [2, 3]]),
        (10_000, [[0, 1, 2, 3]]),
    ],
)
def test_first_share_fetch_has_as_many_partitions_as_min_bytes_needs(
    stage: Stage, min_bytes: int, partitions_by_answer: list[list[int]]
) -> None:
    """What Apache Kafka 4.3.1 answers most often of a group that it has not read yet.

    Its threads race: of 15 groups each, asked for 1 byte, 14 had a part of the partitions first (p0
    alone 8 times); for 0 bytes 15 had p0 alone; for 200, 14 had p0 and p1; for 10,000 all had all.
    """
    group = new_group(stage, f"g{min_bytes}")
    topic = stage.topic(f"four{min_bytes}", 4)
    for partition in range(4):
        fill(stage, topic, batch(stage, b"x" * 50), partition=partition)
    join_until_assigned(stage, group, "a", topic)
    request = fetch(group, "a", 0, topic, max_wait_ms=300, min_bytes=min_bytes)
    request.topics[0].partitions = [FetchPartition(partition) for partition in range(4)]
    answers = []
    for epoch in range(1, len(partitions_by_answer) + 1):
        answers.append(partitions_acquired(stage.send(request)))
        request = fetch(group, "a", epoch, max_wait_ms=300, min_bytes=min_bytes)
    assert answers == partitions_by_answer


def partitions_acquired(response: ShareFetchResponse) -> list[int]:
    """Partitions of which the member has records now; none other is told of."""
    assert response.error_code == ErrorCode.NONE
    partitions = [each for topic in response.responses for each in topic.partitions]
    assert all(each.acquired_records and not each.error_code for each in partitions)
    return [each.partition_index for each in partitions]


def test_share_fetch_answers_unknown_topic_for_a_deleted_topic_of_its_session(
    stage: Stage,
) -> None:
    """As Apache Kafka 4.4.0; a new topic of that name changes nothing."""
    group, topic = new_group(stage), stage.topic("deleted")
    join_until_assigned(stage, group, "a", topic)
    assert not acquired(stage.send(fetch(group, "a", 0, topic, max_wait_ms=0)))
    stage.delete_and_wait(topic)
    at_once = fetch(group, "a", 1, max_wait_ms=LONG_MS)
    assert errors(stage.send(at_once)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    again = stage.topic("deleted")
    assert (again.name, again.id == topic.id) == (topic.name, False)
    at_once = fetch(group, "a", 2, max_wait_ms=LONG_MS)
    assert errors(stage.send(at_once)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    at_once = fetch(group, "b", 0, topic, max_wait_ms=LONG_MS)  # a session without a name
    assert errors(stage.send(at_once, on="b")) == [ErrorCode.UNKNOWN_TOPIC_ID]
    gone = [ForgottenTopic(topic.id, [0])]
    assert errors(stage.send(fetch(group, "a", 3, max_wait_ms=0, forgotten_topics_data=gone))) == []


def errors(response: ShareFetchResponse) -> list[int]:
    """The error of each partition of a response that has none itself."""
    assert response.error_code == ErrorCode.NONE
    return [each.error_code for topic in response.responses for each in topic.partitions]


def test_waiting_share_fetch_continues_when_its_topic_is_deleted(stage: Stage) -> None:
    """Apache Kafka 4.4.0 answers without an error after the wait, and the next fetch with one."""
    group, topic = new_group(stage), stage.topic("deleted-meanwhile")
    join_until_assigned(stage, group, "a", topic)
    assert not acquired(stage.send(fetch(group, "a", 0, topic, max_wait_ms=0)))
    began = time.monotonic()
    stage.begin(fetch(group, "a", 1, max_wait_ms=600))
    stage.delete_and_wait(topic)
    response = stage.end()
    assert (response.error_code, response.responses) == (ErrorCode.NONE, [])
    assert time.monotonic() - began >= 0.6
    later = stage.send(fetch(group, "a", 2, max_wait_ms=LONG_MS))
    assert errors(later) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_share_fetch_without_a_heartbeat_creates_the_state_topic(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    """The fetch waits up to `max_wait_ms`; Apache Kafka 4.3.1 returns the same error."""
    broker = broker_factory()
    stage = unready_stage_on(broker.bootstrap)
    topic = filled_topic(stage)
    assert STATES not in topics(stage)
    took: list[float] = []
    for epoch in range(400):
        began = time.monotonic()
        told = stage.send(
            fetch("never", "m", epoch, topic if epoch == 0 else None, max_wait_ms=300)
        )
        took.append(time.monotonic() - began)
        assert told.error_code == ErrorCode.NONE
        assert not acquired(told)
        if any(each.error_code for answer in told.responses for each in answer.partitions):
            break
    # The fetch that gets the error may end early, and it may be the first one.
    assert all(0.3 <= each < 9 for each in took[:-1])
    assert STATES in topics(stage)
    [partition] = told.responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    stage.finish()


def topics(stage: Stage) -> set[str]:
    return {topic.name for topic in stage.ask(MetadataRequest(topics=None)).topics}


def test_share_fetch_beyond_the_session_limit_fails_after_the_wait(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = broker_factory({"group.share.max.share.sessions": "1"})
    stage = stage_on(broker.bootstrap)
    group, topic = new_group(stage), filled_topic(stage)
    join_until_assigned(stage, group, "a", topic)
    assert acquired(stage.send(fetch(group, "a", 0, topic), on="a"))
    began = time.monotonic()
    refused = stage.send(fetch(group, "b", 0, topic, max_wait_ms=500), on="b")
    assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert time.monotonic() - began >= 0.5
    again = stage.send(fetch(group, "a", 0, topic, max_wait_ms=0), on="a")
    assert again.error_code == ErrorCode.NONE, "it has its own place"
    stage.close_connection("a")
    until = time.monotonic() + WAIT_S
    while stage.send(fetch(group, "b", 0, topic), on="b").error_code:
        assert time.monotonic() < until, "the place of who is gone stays taken"
    stage.finish()
