"""Answers of a leader that arrive after this broker's role has changed, and its next requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.list_offsets import ListOffsetsRequest
from kwire.codecs.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.cluster.replication.following_stage import (
    ASKS_FOR_EPOCHS,
    LEADER,
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


async def begin_epoch(stage: FollowingStage, leaders: dict[int, int], epoch: int) -> None:
    """Answer the Fetch of the earlier epoch without records."""
    call = await stage.next_request(FetchRequest)
    stage.send_leader_and_isr(leaders, epoch)
    await stage.answer(call, fetched())


async def lead_before_the_answer(stage: FollowingStage, ends: dict[int, tuple[int, int]]) -> None:
    """Make broker 1 lead partition 1 before it gets the epoch ends `ends`."""
    await filled(stage, 3)
    await begin_epoch(stage, {0: LEADER, 1: LEADER}, 2)
    call = await stage.next_request(OffsetForLeaderEpochRequest)
    stage.send_leader_and_isr({1: 1}, 3)
    await stage.answer(call, epoch_ends(ends))


async def test_new_leader_ignores_a_late_epoch_end_answer(
    tmp_path: Path,
) -> None:
    """The task that asked continues to follow the other partition."""
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await lead_before_the_answer(stage, {0: (1, 2), 1: (1, 1)})
        assert stage.partition(1).is_leader
        assert (stage.end(0), stage.end(1)) == (2, 3)


async def test_new_leader_keeps_its_epoch_after_a_late_answer_without_truncation(
    tmp_path: Path,
) -> None:
    """Nothing is written in its epoch yet, and its followers will ask where that epoch started."""
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await lead_before_the_answer(stage, {0: (1, 3), 1: (1, 3)})
        assert stage.partition(1).log.epochs.entries == [(1, 0), (3, 3)]


async def test_new_leader_ignores_a_late_log_start_answer(tmp_path: Path) -> None:
    """The answer with the old leader's log start offset arrives late."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.next_request(FetchRequest)
        refused = data(1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        await stage.answer(call, fetched(data(0), refused))
        await stage.answer(await stage.next_request(ListOffsetsRequest), log_offsets(1, 7))
        call = await stage.next_request(ListOffsetsRequest)
        stage.send_leader_and_isr({1: 1}, 2)
        await stage.answer(call, log_offsets(1, 9))
        assert stage.partition(1).is_leader
        assert (stage.partition(1).log_start_offset, stage.end(1)) == (0, 3)


async def test_partition_that_becomes_leader_during_a_truncation_is_not_truncated_further(
    tmp_path: Path,
) -> None:
    """The first step writes the recovery point in a thread."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3)
        call = await stage.next_request(FetchRequest)

        async def elected_meanwhile(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as there
            stage.send_leader_and_isr({1: 1}, 2)
            return work()

        # Undone within `following`, which has a patch of its own in this place.
        with patch("trio.to_thread.run_sync", elected_meanwhile):
            await stage.answer(call, fetched(diverging(1, 1, 1)))
        assert stage.partition(1).is_leader
        assert stage.end(1) == 3


@pytest.mark.parametrize("leader", [1, LEADER])
async def test_records_that_arrive_after_their_epoch_ended_are_dropped(
    tmp_path: Path, leader: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.next_request(FetchRequest)
        stage.send_leader_and_isr({1: leader}, 2)
        answer = [data(index, batch(1, 1), high_watermark=2) for index in (0, 1)]
        await stage.answer(call, fetched(*answer))
        assert (stage.end(0), stage.end(1)) == (2, 1)
        assert stage.partition(1).high_watermark == 0


async def test_records_of_a_later_leader_epoch_are_not_appended(tmp_path: Path) -> None:
    """They are of a leader that this broker does not follow yet (KAFKA-18723)."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(1, 1), batch(2, 2))))
        assert stage.end(0) == 2


async def test_fetched_epochs_keep_their_own_start_offsets(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 4)
        call = await stage.next_request(FetchRequest)
        assert requested_partitions(call)[0].last_fetched_epoch == -1
        await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 1), batch(2, 3))))
        assert stage.partition().log.epochs.entries == [(1, 0), (3, 2)]
        asked = requested_partitions(await stage.next_request(FetchRequest))[0]
        assert (asked.fetch_offset, asked.last_fetched_epoch) == (3, 3)
        assert asked.current_leader_epoch == 4


async def test_leader_is_asked_again_until_both_logs_have_the_epoch(tmp_path: Path) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 3))))
        await begin_epoch(stage, {0: LEADER}, 4)
        call = await stage.next_request(OffsetForLeaderEpochRequest)
        await stage.answer(call, epoch_ends({0: (2, 5)}))
        assert stage.end() == 1
        call = await stage.next_request(OffsetForLeaderEpochRequest)
        assert isinstance(call.request, OffsetForLeaderEpochRequest)
        assert call.request.topics[0].partitions[0].leader_epoch == 1
        await stage.answer(call, epoch_ends({0: (1, 1)}))
        assert requested_partitions(await stage.next_request(FetchRequest))[0].fetch_offset == 1


async def test_partition_without_a_query_is_fetched_beside_one_with_a_query(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await filled(stage, 1)
        await begin_epoch(stage, {1: LEADER}, 2)
        call = await stage.next_request(OffsetForLeaderEpochRequest)
        await stage.answer(call, epoch_ends({1: (1, 1)}))
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {0, 1}


async def test_truncation_lowers_the_high_watermark_to_the_log_end(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(diverging(0, 1, 2)))
        assert (stage.end(), stage.partition().high_watermark) == (2, 2)
        assert requested_partitions(await stage.next_request(FetchRequest))[0].fetch_offset == 2


async def test_follower_high_watermark_is_limited_by_its_log_end_offset(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1, high_watermark=9)
        assert stage.partition().high_watermark == 1


async def test_log_without_epochs_is_truncated_to_its_high_watermark(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=1)
        stage.partition().log.epochs.clear()
        await begin_epoch(stage, {0: LEADER}, 2)
        call = await stage.next_request(FetchRequest)
        assert stage.end() == 1
        asked = requested_partitions(call)[0]
        assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, -1)


@pytest.mark.parametrize(
    ("start", "end", "begins", "high_watermark"), [(7, 9, 7, 7), (0, 2, 2, 2), (0, 9, 3, 3)]
)
async def test_out_of_range_follower_asks_for_the_leaders_log_offsets(
    tmp_path: Path, start: int, end: int, begins: int, high_watermark: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.next_request(FetchRequest)
        refused = data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        await stage.answer(call, fetched(refused))
        for offset in (start, end):
            await stage.answer(await stage.next_request(ListOffsetsRequest), log_offsets(0, offset))
        assert (
            requested_partitions(await stage.next_request(FetchRequest))[0].fetch_offset == begins
        )
        assert stage.partition().high_watermark == high_watermark


async def test_follower_with_a_fenced_epoch_waits_for_the_controller(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.next_request(FetchRequest)
        refused = data(0, error_code=ErrorCode.FENCED_LEADER_EPOCH, high_watermark=-1)
        await stage.answer(call, fetched(refused, data(1)))
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {1}
        await trio.sleep(60)
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {1}


@pytest.mark.parametrize("kind", ["damaged", "diverging", "of another epoch"])
async def test_ignored_response_data_starts_a_new_fetch_session(tmp_path: Path, kind: str) -> None:
    """In a session the leader sends a high watermark only when it has changed."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        call = await stage.next_request(FetchRequest)
        both = [data(index, batch(0, 1), batch(1, 1)) for index in (0, 1)]
        await stage.answer(call, fetched(*both, session_id=9))
        call = await stage.next_request(FetchRequest)
        assert isinstance(call.request, FetchRequest)
        assert call.request.session_epoch == 1
        damaged = bytearray(batch(2, 1))
        damaged[-1] ^= 1
        results = {
            "damaged": data(0, bytes(damaged), high_watermark=2),
            "diverging": diverging(0, 1, 1),
            "of another epoch": data(0, high_watermark=2),
        }[kind]
        if kind == "of another epoch":
            stage.send_leader_and_isr({0: LEADER}, 2)
        await stage.answer(call, fetched(results, session_id=9))
        call = await stage.next_request(FetchRequest)
        assert isinstance(call.request, FetchRequest)
        assert call.request.session_epoch == 0
