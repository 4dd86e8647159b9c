"""What a follower's Fetch asks for, and when the follower asks again after errors and pauses."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.replication import fetcher
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.followed import FIRST_PAUSE_MS
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.cluster.replication.following_stage import (
    ASKS_FOR_EPOCHS,
    LEADER,
    TOPIC,
    TOPIC_ID,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    batch,
    data,
    diverging,
    epoch_ends,
    fetched,
    filled,
    following,
    log_offsets,
    requested_partitions,
)
from tests.cluster.replication.simulation.network import Call

BACKOFF_S = 1.0
"""replica.fetch.backoff.ms, by default."""
OTHER, OTHER_ID = "other", b"o" * 16
SESSION = 9


async def fetch(stage: FollowingStage) -> tuple[Call, FetchRequest]:
    """The follower's next request, which must be a Fetch."""
    call = await stage.next_request(FetchRequest)
    assert isinstance(call.request, FetchRequest)
    return call, call.request


# -- what a Fetch asks for


@pytest.mark.parametrize(("version", "names_epoch"), [(14, False), (15, True), (17, True)])
async def test_fetch_names_the_follower_and_the_limits_of_its_settings(
    tmp_path: Path, version: int, names_epoch: bool
) -> None:
    """From version 15 on with its broker epoch, 100 (KIP-903)."""
    settings = {
        "replica.fetch.wait.max.ms": "321",
        "replica.fetch.min.bytes": "3",
        "replica.fetch.response.max.bytes": "54321",
        "replica.fetch.max.bytes": "4321",
    }
    async with following(tmp_path, version, settings) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        _, request = await fetch(stage)
        state = request.replica_state
        named = None if state is None else (state.replica_id, state.replica_epoch)
        assert (request.replica_id, named) == ((-1, (1, 100)) if names_epoch else (1, None))
        limits = request.max_wait_ms, request.min_bytes, request.max_bytes
        assert limits == (321, 3, 54321)
        [partition] = request.topics[0].partitions
        assert (partition.partition, partition.partition_max_bytes) == (0, 4321)
        assert (partition.current_leader_epoch, partition.fetch_offset) == (1, 0)


@pytest.mark.parametrize(("version", "last_epoch"), [(11, -1), (12, 1)])
async def test_fetch_names_the_last_epoch_where_the_leader_reports_divergence(
    tmp_path: Path, version: int, last_epoch: int
) -> None:
    async with following(tmp_path, version) as stage:
        await filled(stage, 1)
        asked = requested_partitions(await stage.next_request(FetchRequest))
        assert asked[0].last_fetched_epoch == last_epoch


async def test_follower_takes_and_reports_the_log_start_offset_of_its_leader(
    tmp_path: Path,
) -> None:
    """The leader answers DeleteRecords once all replicas have reported it."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        assert requested_partitions(call)[0].log_start_offset == 0
        both = data(0, batch(0, 1), batch(1, 1), high_watermark=2)
        await stage.answer(call, fetched(both, session_id=SESSION))
        call, _ = await fetch(stage)
        raised = data(0, high_watermark=2, log_start_offset=1)
        await stage.answer(call, fetched(raised, session_id=SESSION))
        assert stage.partition().log_start_offset == 1
        asked = requested_partitions(await stage.next_request(FetchRequest))[0]
        assert (asked.log_start_offset, asked.fetch_offset) == (1, 2)


async def test_session_request_names_only_partitions_that_have_changed(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(0, 1)), data(1), session_id=SESSION))
        call, request = await fetch(stage)
        assert (request.session_id, request.session_epoch) == (SESSION, 1)
        assert requested_partitions(call).keys() == {0}
        await stage.answer(call, fetched(session_id=SESSION))
        call, request = await fetch(stage)
        assert (request.session_epoch, requested_partitions(call)) == (2, {})


async def test_session_continues_after_one_full_request_for_a_missed_update(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 2)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(diverging(0, 1, 1), session_id=SESSION))
        session_epochs = []
        for _ in range(3):
            call, request = await fetch(stage)
            session_epochs.append(request.session_epoch)
            await stage.answer(call, fetched(session_id=SESSION))
        assert session_epochs == [0, 1, 2]


@pytest.mark.parametrize("version", [ASKS_FOR_EPOCHS, TRUNCATES_ON_FETCH])
async def test_records_go_to_the_topic_that_the_response_names(
    tmp_path: Path, version: int
) -> None:
    """Before version 13 by its name, later by its id."""
    async with following(tmp_path, version) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        stage.send_leader_and_isr({0: LEADER}, 1, topic=OTHER, topic_id=OTHER_ID)
        call, request = await fetch(stage)
        if not request.topics[1:]:  # the fetcher had sent its first request already
            await stage.answer(call, fetched())
            call, request = await fetch(stage)
        assert [topic.topic for topic in request.topics] == [TOPIC, OTHER]
        response = FetchResponse(
            responses=[
                FetchableTopicResponse(OTHER, OTHER_ID, [data(0, batch(0, 1), batch(1, 1))]),
                FetchableTopicResponse(TOPIC, TOPIC_ID, [data(0, batch(0, 1))]),
            ]
        )
        await stage.answer(call, response)
        assert stage.broker.broker is not None
        ends = {
            topic: partitions[0].log_end_offset
            for topic, partitions in stage.broker.broker.hosted.by_topic.items()
        }
        assert ends == {TOPIC: 1, OTHER: 2}


async def test_other_tasks_run_between_large_partitions_of_one_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = len(batch(0, 1))
    monkeypatch.setattr(fetcher, "BYTES_AT_ONCE", 2 * size_bytes)
    indexes = range(5)
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr(dict.fromkeys(indexes, LEADER), 1)
        call, _ = await fetch(stage)
        call.reply = fetched(*(data(index, batch(0, 1)) for index in indexes))
        call.done.set()
        filled_before = []
        while (count := sum(stage.end(index) for index in indexes)) < len(indexes):
            filled_before.append(count)
            await trio.lowlevel.checkpoint()
        assert set(filled_before) <= {0, 2, 4}
        assert set(filled_before) & {2, 4}


# -- after errors


async def test_delayed_partitions_are_fetched_each_at_its_own_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Meanwhile the others are fetched."""
    refused = ErrorCode.KAFKA_STORAGE_ERROR
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, error_code=refused), data(1)))
        call, _ = await fetch(stage)
        assert requested_partitions(call).keys() == {1}
        await trio.sleep(0.4)
        await stage.answer(call, fetched(data(1, error_code=refused)))
        assert await stage.pause_s() == pytest.approx(BACKOFF_S - 0.4)
        call, _ = await fetch(stage)
        assert requested_partitions(call).keys() == {0}
        await trio.sleep(0.4)
        await stage.answer(call, fetched(data(0)))
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {0, 1}


async def test_added_partition_is_fetched_while_others_are_delayed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        refused = data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await stage.answer(call, fetched(refused))
        stage.send_leader_and_isr({1: LEADER}, 1)
        assert await stage.pause_s() == 0
        call, _ = await fetch(stage)
        assert requested_partitions(call).keys() == {1}


async def test_lost_connection_delays_all_partitions_and_ends_the_session(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0), data(1), session_id=SESSION))
        call, request = await fetch(stage)
        assert request.session_epoch == 1
        call.fail()
        assert await stage.pause_s() == BACKOFF_S
        call, request = await fetch(stage)
        assert (request.session_id, request.session_epoch) == (SESSION, 0)
        assert requested_partitions(call).keys() == {0, 1}


async def test_failing_connection_is_reported_once_until_the_leader_answers(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kwire.replication")

    def levels() -> list[str]:
        found = [
            each.levelname
            for each in caplog.records
            if each.getMessage().startswith("Cannot fetch from the leader")
        ]
        caplog.clear()
        return found

    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        for _ in range(2):
            await stage.pause_s()
            call, _ = await fetch(stage)
            call.fail()
        await stage.pause_s()
        assert levels() == ["WARNING", "DEBUG"]
        handlers = dict(stage.network.handlers)
        call, _ = await fetch(stage)
        stage.network.handlers.clear()  # another reason: the leader cannot be reached
        call.fail()
        await trio.sleep(2 * BACKOFF_S + 0.1)
        assert levels() == ["DEBUG", "WARNING", "DEBUG"]
        stage.network.handlers |= handlers
        await stage.pause_s()
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0)))
        assert [
            each.levelname for each in caplog.records if "answers Fetch again" in each.getMessage()
        ] == ["INFO"]
        caplog.clear()
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0)))
        assert not caplog.records, "it is not said again"
        stage.network.handlers.clear()
        call, _ = await fetch(stage)
        call.fail()
        await trio.sleep(BACKOFF_S + 0.1)
        assert levels() == ["WARNING", "WARNING"]


async def test_lost_leader_is_reported_once_until_it_answers_again(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[int] = []
    monkeypatch.setattr(ReplicationContext, "leader_lost", lambda _, leader: lost.append(leader))
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        for _ in range(2):
            for _ in range(2):
                await stage.pause_s()
                call, _request = await fetch(stage)
                call.fail()
            await stage.pause_s()
            call, _request = await fetch(stage)
            await stage.answer(call, fetched(data(0)))
    assert lost == [LEADER, LEADER]


@pytest.mark.parametrize(
    ("error", "session_id", "pause_s"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION, 0),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION, 0),
        (ErrorCode.UNKNOWN_SERVER_ERROR, SESSION, BACKOFF_S),
    ],
)
async def test_error_of_a_whole_fetch_leads_to_a_full_request(
    tmp_path: Path, autojump_clock: MockClock, error: ErrorCode, session_id: int, pause_s: float
) -> None:
    """At once if the error is about the session."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0), session_id=SESSION))
        call, _ = await fetch(stage)
        await stage.answer(call, FetchResponse(error_code=error, session_id=SESSION))
        assert await stage.pause_s() == pause_s
        call, request = await fetch(stage)
        assert (request.session_id, request.session_epoch) == (session_id, 0)
        assert requested_partitions(call).keys() == {0}


async def test_records_of_a_later_leader_epoch_delay_the_partition(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The controller will name that epoch here."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(0, 2))))
        assert await stage.pause_s() == BACKOFF_S


async def test_damaged_records_delay_the_partition(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    damaged = bytearray(batch(0, 1))
    damaged[-1] ^= 1
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, bytes(damaged))))
        assert await stage.pause_s() == BACKOFF_S
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(0, 1))))
        assert stage.end() == 1


async def test_partition_whose_log_is_offline_waits_for_the_controller(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call, _ = await fetch(stage)
        stage.partition(0).log.offline = True
        answer = [data(index, batch(1, 1)) for index in (0, 1)]
        await stage.answer(call, fetched(*answer))
        assert (stage.end(0), stage.end(1)) == (1, 2)
        await trio.sleep(10 * BACKOFF_S)
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {1}


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "DEBUG"),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, "DEBUG"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "DEBUG"),
        (ErrorCode.UNKNOWN_TOPIC_ID, "DEBUG"),
        (ErrorCode.INCONSISTENT_TOPIC_ID, "DEBUG"),
        (ErrorCode.KAFKA_STORAGE_ERROR, "WARNING"),
    ],
)
async def test_refused_partition_warns_unless_the_leader_is_only_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: ErrorCode, level: str
) -> None:
    caplog.set_level(logging.DEBUG, "kwire.replication")
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, error_code=error)))
    [refusal] = [each for each in caplog.records if "refuses Fetch" in each.getMessage()]
    assert refusal.levelname == level


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH]
)
async def test_leader_that_does_not_know_yet_that_it_leads_is_asked_again_soon(
    tmp_path: Path, autojump_clock: MockClock, error: ErrorCode
) -> None:
    """Producers with acks=all wait for this follower; the pause doubles up to the setting."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        pauses_s = []
        for _ in range(9):
            call, _ = await fetch(stage)
            await stage.answer(call, fetched(data(0, error_code=error)))
            pauses_s.append(await stage.pause_s())
        assert pauses_s == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, BACKOFF_S, BACKOFF_S]


@pytest.mark.parametrize(("end_offset", "warns"), [(1, True), (2, False)])
async def test_truncation_below_the_high_watermark_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end_offset: int, warns: bool
) -> None:
    """Only an unclean election can ask for it."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=2)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(diverging(0, 1, end_offset)))
        assert stage.end() == end_offset
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert bool(warnings) == warns


# -- questions besides Fetch


def refused_epoch_end(error: ErrorCode) -> OffsetForLeaderEpochResponse:
    told = [EpochEndOffset(error, 0, -1, -1)]
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(TOPIC, told)])


@pytest.mark.parametrize(
    ("answer", "pause_s"),
    [
        (refused_epoch_end(ErrorCode.NOT_LEADER_OR_FOLLOWER), FIRST_PAUSE_MS / 1000),
        (OffsetForLeaderEpochResponse(), BACKOFF_S),
    ],
    ids=["refused", "left out"],
)
async def test_epoch_question_is_asked_again_after_a_pause(
    tmp_path: Path,
    autojump_clock: MockClock,
    answer: OffsetForLeaderEpochResponse,
    pause_s: float,
) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await filled(stage, 2)
        call, _ = await fetch(stage)
        stage.send_leader_and_isr({0: LEADER}, 2)
        stage.send_stop_replica(1, 1, delete=False)
        await stage.answer(call, fetched())
        await stage.answer(await stage.next_request(OffsetForLeaderEpochRequest), answer)
        assert await stage.pause_s() == pause_s
        call = await stage.next_request(OffsetForLeaderEpochRequest)
        await stage.answer(call, epoch_ends({0: (1, 1)}))
        assert requested_partitions(await stage.next_request(FetchRequest))[0].fetch_offset == 1


async def test_fenced_epoch_question_waits_for_the_controller(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await filled(stage, 2)
        call, _ = await fetch(stage)
        stage.send_leader_and_isr({0: LEADER}, 2)
        stage.send_stop_replica(1, 1, delete=False)
        await stage.answer(call, fetched())
        call = await stage.next_request(OffsetForLeaderEpochRequest)
        await stage.answer(call, refused_epoch_end(ErrorCode.FENCED_LEADER_EPOCH))
        assert await stage.pause_s() == 10, "it asks nothing any more"
        stage.send_leader_and_isr({0: LEADER}, 3)
        await stage.next_request(OffsetForLeaderEpochRequest)


async def out_of_range(stage: FollowingStage) -> None:
    """Let the leader refuse the fetch offset of partition 0, the only one."""
    await filled(stage, 2, high_watermark=2)
    call, _ = await fetch(stage)
    stage.send_stop_replica(1, 1, delete=False)
    refused = data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    await stage.answer(call, fetched(refused))


async def test_refused_question_for_the_log_ends_is_asked_again_after_a_pause(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await out_of_range(stage)
        told = [ListOffsetsPartitionResponse(0, ErrorCode.OFFSET_OUT_OF_RANGE)]
        refused = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, told)])
        for _ in range(2):
            await stage.answer(await stage.next_request(ListOffsetsRequest), refused)
        assert await stage.pause_s() == BACKOFF_S
        for offset in (1, 9):
            call = await stage.next_request(ListOffsetsRequest)
            await stage.answer(call, log_offsets(0, offset))
        assert requested_partitions(await stage.next_request(FetchRequest))[0].fetch_offset == 2
        assert stage.partition().log_start_offset == 0


async def test_partition_stopped_during_a_question_is_not_fetched(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await out_of_range(stage)
        call = await stage.next_request(ListOffsetsRequest)
        stage.send_leader_and_isr({1: LEADER}, 2)
        stage.send_stop_replica(0, 1, delete=False)
        await stage.answer(call, log_offsets(0, 0))
        await stage.answer(await stage.next_request(ListOffsetsRequest), log_offsets(0, 1))
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {1}
        assert stage.end(0) == 2


# -- the replication quota (KIP-73)


def throttle(stage: FollowingStage, replicas: str, rate: int) -> None:
    quota = stage.broker.manager.quotas.follower
    quota.set_replicas(TOPIC, replicas, 1)
    quota.set_rate("rate", {"rate": str(rate)})


@pytest.mark.parametrize(
    ("replicas", "rate", "is_fetched"),
    [
        ("*", 0, {0}),
        ("1:1", 0, {0}),
        ("0:1", 0, {0, 1}),
        ("*", 10**9, {0, 1}),
    ],
)
async def test_follower_above_its_quota_fetches_only_what_is_not_behind(
    tmp_path: Path, replicas: str, rate: int, is_fetched: set[int]
) -> None:
    """Partition 0 ends at the high watermark, partition 1 is behind."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        throttle(stage, replicas, rate)
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        call, _ = await fetch(stage)
        caught_up = data(0, batch(0, 1), high_watermark=1)
        behind = data(1, batch(0, 1), high_watermark=9)
        await stage.answer(call, fetched(caught_up, behind))
        asked = requested_partitions(await stage.next_request(FetchRequest))
        assert asked.keys() == is_fetched


async def test_follower_above_its_quota_waits_if_all_partitions_are_behind(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """It fetches again when its rate has fallen: after 10 windows of a second."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        throttle(stage, "*", 1)
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(0, 1), high_watermark=9)))
        assert await stage.pause_s() > 5 * BACKOFF_S


async def test_replica_that_has_caught_up_stays_so_for_the_quota_until_it_appends(
    tmp_path: Path,
) -> None:
    """The leader's high watermark moves ahead of a follower between two Fetches."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        throttle(stage, "*", 0)
        stage.send_leader_and_isr({0: LEADER}, 1)
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(0, 1), high_watermark=1)))
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, high_watermark=3)))
        call, _ = await fetch(stage)
        await stage.answer(call, fetched(data(0, batch(1, 1), high_watermark=3)))
        await wait_all_tasks_blocked()
        assert stage.network.calls == []
