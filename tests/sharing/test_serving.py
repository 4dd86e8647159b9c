"""ShareFetch and ShareAcknowledge of a broker that runs: sessions, connections and waits.

What is answered to whom is compared with Apache Kafka 4.3.1 in conformance/wire/cases/share_*.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.metadata import MetadataRequest
from kwire.codecs.messages.share_fetch import ShareFetchResponse
from kwire.conformance.wire.cases.build import batch, fill, filled_topic
from kwire.conformance.wire.cases.share_group import (
    ACCEPT,
    acknowledge,
    assigned,
    fetch,
    group_of,
)
from kwire.conformance.wire.stage import Stage
from kwire.testing import BrokerProcess
from tests.sharing.serving import WAIT_S, stage_on, unready_stage_on

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


def test_what_a_member_has_is_for_others_when_its_connection_ends(stage: Stage) -> None:
    group, topic = group_of(stage), filled_topic(stage)
    assigned(stage, group, "a", topic)
    assert acquired(stage.send(fetch(group, "a", 0, topic), on="a")) == [(0, 5, 1)]
    stage.begin(fetch(group, "b", 0, topic, max_wait_ms=LONG_MS), on="b")
    stage.close_connection("a")
    assert acquired(stage.end("b")) == [(0, 5, 2)]
    told = stage.send(acknowledge(group, "a", 1, topic, (0, 5, [ACCEPT])), on="again")
    assert told.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_that_went_on_elsewhere_outlives_the_connection(stage: Stage) -> None:
    group, topic = group_of(stage), filled_topic(stage)
    assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic), on="a")
    stage.send(fetch(group, "a", 0, topic, max_wait_ms=0), on="later")
    stage.close_connection("a")
    for _ in range(3):  # the broker has seen the end by then, or never looks
        stage.send(fetch(group, "b", 0, topic, max_wait_ms=0), on="b")
    done = stage.send(acknowledge(group, "a", 1, topic, (0, 5, [ACCEPT])), on="later")
    assert done.error_code == ErrorCode.NONE
    assert done.responses[0].partitions[0].error_code == ErrorCode.NONE


def test_a_group_that_nobody_reads_is_read_anew_from_its_coordinator(stage: Stage) -> None:
    group, topic = group_of(stage), filled_topic(stage)
    assigned(stage, group, "a", topic)
    stage.send(fetch(group, "a", 0, topic), on="a")
    stage.send(acknowledge(group, "a", 1, topic, (0, 3, [ACCEPT])), on="a")
    stage.send(acknowledge(group, "a", -1, None), on="a")
    stage.close_connection("a")
    assert acquired(stage.send(fetch(group, "b", 0, topic, max_wait_ms=LONG_MS), on="b")) == [
        (4, 5, 2)
    ]


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(stage: Stage) -> None:
    group, topic = group_of(stage), stage.topic()
    assigned(stage, group, "a", topic)
    asked = fetch(group, "a", 0, topic, max_wait_ms=LONG_MS, min_bytes=2_000)
    stage.begin(asked, on="a")
    for _ in range(3):
        fill(stage, topic, batch(stage, b"x" * 900))
    assert acquired(stage.end("a")) == [(0, 2, 1)]


def test_a_group_without_a_heartbeat_has_the_topic_of_states_made(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    """Its fetch waits no longer than it asks for; Apache Kafka 4.3.1 tells the same error then."""
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
        if epoch and told.responses:  # the error is told
            break
    assert min(took) >= 0.3
    assert min(took) < 9, "what it waited for took longer"
    assert STATES in topics(stage)
    [partition] = told.responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    stage.finish()


def topics(stage: Stage) -> set[str]:
    return {topic.name for topic in stage.ask(MetadataRequest(topics=None)).topics}


def test_who_finds_all_sessions_taken_is_told_so_after_the_wait(
    broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = broker_factory({"group.share.max.share.sessions": "1"})
    stage = stage_on(broker.bootstrap)
    group, topic = group_of(stage), filled_topic(stage)
    assigned(stage, group, "a", topic)
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
