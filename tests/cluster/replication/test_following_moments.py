"""Answers to a follower that arrive after its role has changed, and what it asks next."""

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
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.cluster.replication.following_stage import (
    ASKS_FOR_EPOCHS,
    LEADER,
    TOPIC,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    asked_for,
    batch,
    data,
    diverging,
    epoch_ends,
    fetched,
    following,
)


def ends_of(index: int, offset: int) -> ListOffsetsResponse:
    told = [ListOffsetsPartitionResponse(index, ErrorCode.NONE, offset=offset)]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(TOPIC, told)])


async def told_anew(stage: FollowingStage, leaders: dict[int, int], epoch: int) -> None:
    """What was asked for in the epoch before is answered with nothing."""
    call = await stage.asked(FetchRequest)
    stage.tell(leaders, epoch)
    await stage.answer(call, fetched())


async def filled(stage: FollowingStage, count: int, *, high_watermark: int = 0) -> None:
    """Both partitions follow broker 2 in epoch 1, and have `count` records of it."""
    stage.tell({0: LEADER, 1: LEADER}, 1)
    batches = [batch(offset, 1) for offset in range(count)]
    both = [data(index, *batches, high_watermark=high_watermark) for index in (0, 1)]
    call = await stage.asked(FetchRequest)
    await stage.answer(call, fetched(*both))
    assert (stage.end(0), stage.end(1)) == (count, count)


async def answered_late(stage: FollowingStage, ends: dict[int, tuple[int, int]]) -> None:
    """Broker 1 leads partition 1 before it gets the answer about the ends of epochs, `ends`."""
    await filled(stage, 3)
    await told_anew(stage, {0: LEADER, 1: LEADER}, 2)
    call = await stage.asked(OffsetForLeaderEpochRequest)
    stage.tell({1: 1}, 3)
    await stage.answer(call, epoch_ends(ends))


async def test_new_leader_does_not_cut_its_log_by_an_answer_about_an_epochs_end(
    tmp_path: Path,
) -> None:
    """It goes on to follow the other partition, by the task that has asked."""
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await answered_late(stage, {0: (1, 2), 1: (1, 1)})
        assert stage.partition(1).is_leader
        assert (stage.end(0), stage.end(1)) == (2, 3)


async def test_new_leader_keeps_its_epoch_when_a_late_answer_asks_for_no_cut(
    tmp_path: Path,
) -> None:
    """Nothing is written in its epoch yet, and whoever follows it asks for where that began."""
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await answered_late(stage, {0: (1, 3), 1: (1, 3)})
        assert stage.partition(1).log.epochs.entries == [(1, 0), (3, 3)]


async def test_new_leader_does_not_begin_anew_where_the_old_one_began(tmp_path: Path) -> None:
    """The answer to where the old leader's log begins arrives late."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.asked(FetchRequest)
        refused = data(1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        await stage.answer(call, fetched(data(0), refused))
        await stage.answer(await stage.asked(ListOffsetsRequest), ends_of(1, 7))
        call = await stage.asked(ListOffsetsRequest)
        stage.tell({1: 1}, 2)
        await stage.answer(call, ends_of(1, 9))
        assert stage.partition(1).is_leader
        assert (stage.partition(1).log_start_offset, stage.end(1)) == (0, 3)


async def test_new_leader_is_not_cut_between_two_steps_of_a_cut(tmp_path: Path) -> None:
    """The recovery point is written first, in a thread."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3)
        call = await stage.asked(FetchRequest)

        async def elected_meanwhile(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as there
            stage.tell({1: 1}, 2)
            return work()

        # Undone within `following`, which has a patch of its own in this place.
        with patch("trio.to_thread.run_sync", elected_meanwhile):
            await stage.answer(call, fetched(diverging(1, 1, 1)))
        assert stage.partition(1).is_leader
        assert stage.end(1) == 3


@pytest.mark.parametrize("leader", [1, LEADER])
async def test_records_that_arrive_after_the_epoch_has_ended_are_dropped(
    tmp_path: Path, leader: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.asked(FetchRequest)
        stage.tell({1: leader}, 2)
        answer = [data(index, batch(1, 1), high_watermark=2) for index in (0, 1)]
        await stage.answer(call, fetched(*answer))
        assert (stage.end(0), stage.end(1)) == (2, 1)
        assert stage.partition(1).high_watermark == 0


async def test_records_of_a_later_epoch_are_left_out(tmp_path: Path) -> None:
    """Their leader is one that this broker does not follow yet (KAFKA-18723)."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(1, 1), batch(2, 2))))
        assert stage.end(0) == 2


async def test_epochs_of_fetched_records_are_asked_for_by_their_own_starts(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 4)
        call = await stage.asked(FetchRequest)
        assert asked_for(call)[0].last_fetched_epoch == -1
        await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 1), batch(2, 3))))
        assert stage.partition().log.epochs.entries == [(1, 0), (3, 2)]
        asked = asked_for(await stage.asked(FetchRequest))[0]
        assert (asked.fetch_offset, asked.last_fetched_epoch) == (3, 3)
        assert asked.current_leader_epoch == 4


async def test_leader_is_asked_again_until_both_know_the_epoch(tmp_path: Path) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        stage.tell({0: LEADER}, 3)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 3))))
        await told_anew(stage, {0: LEADER}, 4)
        call = await stage.asked(OffsetForLeaderEpochRequest)
        await stage.answer(call, epoch_ends({0: (2, 5)}))
        assert stage.end() == 1
        call = await stage.asked(OffsetForLeaderEpochRequest)
        assert isinstance(call.request, OffsetForLeaderEpochRequest)
        assert call.request.topics[0].partitions[0].leader_epoch == 1
        await stage.answer(call, epoch_ends({0: (1, 1)}))
        assert asked_for(await stage.asked(FetchRequest))[0].fetch_offset == 1


async def test_partition_that_needs_no_question_is_fetched_beside_one_that_does(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, ASKS_FOR_EPOCHS) as stage:
        await filled(stage, 1)
        await told_anew(stage, {1: LEADER}, 2)
        call = await stage.asked(OffsetForLeaderEpochRequest)
        await stage.answer(call, epoch_ends({1: (1, 1)}))
        assert asked_for(await stage.asked(FetchRequest)).keys() == {0, 1}


async def test_log_is_cut_and_its_high_watermark_is_not_beyond_its_end(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(diverging(0, 1, 2)))
        assert (stage.end(), stage.partition().high_watermark) == (2, 2)
        assert asked_for(await stage.asked(FetchRequest))[0].fetch_offset == 2


async def test_high_watermark_of_a_leader_that_is_ahead_counts_up_to_the_end_of_the_log(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1, high_watermark=9)
        assert stage.partition().high_watermark == 1


async def test_log_without_epochs_is_cut_to_its_high_watermark(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=1)
        stage.partition().log.epochs.clear()
        await told_anew(stage, {0: LEADER}, 2)
        call = await stage.asked(FetchRequest)
        assert stage.end() == 1
        asked = asked_for(call)[0]
        assert (asked.fetch_offset, asked.last_fetched_epoch) == (1, -1)


@pytest.mark.parametrize(
    ("start", "end", "begins", "high_watermark"), [(7, 9, 7, 7), (0, 2, 2, 2), (0, 9, 3, 3)]
)
async def test_follower_that_is_out_of_range_asks_where_the_leader_begins_and_ends(
    tmp_path: Path, start: int, end: int, begins: int, high_watermark: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 3, high_watermark=3)
        call = await stage.asked(FetchRequest)
        refused = data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        await stage.answer(call, fetched(refused))
        for offset in (start, end):
            await stage.answer(await stage.asked(ListOffsetsRequest), ends_of(0, offset))
        assert asked_for(await stage.asked(FetchRequest))[0].fetch_offset == begins
        assert stage.partition().high_watermark == high_watermark


async def test_follower_of_an_epoch_that_is_over_waits_for_the_controller(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        await filled(stage, 1)
        call = await stage.asked(FetchRequest)
        refused = data(0, error_code=ErrorCode.FENCED_LEADER_EPOCH, high_watermark=-1)
        await stage.answer(call, fetched(refused, data(1)))
        assert asked_for(await stage.asked(FetchRequest)).keys() == {1}
        await trio.sleep(60)
        assert asked_for(await stage.asked(FetchRequest)).keys() == {1}


@pytest.mark.parametrize("kind", ["damaged", "diverging", "of another epoch"])
async def test_session_begins_anew_after_what_was_not_taken(tmp_path: Path, kind: str) -> None:
    """In a session the leader tells high watermarks once, when they change."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER, 1: LEADER}, 1)
        call = await stage.asked(FetchRequest)
        both = [data(index, batch(0, 1), batch(1, 1)) for index in (0, 1)]
        await stage.answer(call, fetched(*both, session_id=9))
        call = await stage.asked(FetchRequest)
        assert isinstance(call.request, FetchRequest)
        assert call.request.session_epoch == 1
        damaged = bytearray(batch(2, 1))
        damaged[-1] ^= 1
        told = {
            "damaged": data(0, bytes(damaged), high_watermark=2),
            "diverging": diverging(0, 1, 1),
            "of another epoch": data(0, high_watermark=2),
        }[kind]
        if kind == "of another epoch":
            stage.tell({0: LEADER}, 2)
        await stage.answer(call, fetched(told, session_id=9))
        call = await stage.asked(FetchRequest)
        assert isinstance(call.request, FetchRequest)
        assert call.request.session_epoch == 0
