"""What a broker does with the words of controllers, and with what its followers fetch."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.following_stage import (
    LEADER,
    TOPIC,
    TOPIC_ID,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    asked_for,
    batch,
    data,
    fetched,
    following,
)

FOLLOWER = 2
TOPICS_BY_NAME = 12
"""A version of Fetch for which this broker need not know of the topic's id."""


def error_of(answer: LeaderAndIsrResponse) -> ErrorCode:
    told = answer.topics[0].partition_errors[0].error_code
    return ErrorCode(answer.error_code or told)


async def test_controller_of_an_earlier_epoch_is_refused(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        assert error_of(stage.tell({0: 1}, 1, controller_epoch=5)) == ErrorCode.NONE
        told = stage.tell({0: LEADER}, 2, controller_epoch=4)
        assert error_of(told) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert (stage.partition().leader, stage.partition().leader_epoch) == (1, 1)


async def test_word_to_an_earlier_registration_is_refused(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: 1}, 1)
        told = stage.tell({0: LEADER}, 2, broker_epoch=stage.broker.epoch - 1)
        assert error_of(told) == ErrorCode.STALE_BROKER_EPOCH
        assert stage.partition().is_leader


async def test_copy_of_what_was_told_changes_nothing(tmp_path: Path) -> None:
    """It comes after the leader has heard of a later ISR."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: 1}, 1, isr=(1,))
        leading = stage.partition().leading
        assert leading is not None
        leading.settled((1, 2), 4)
        told = stage.tell({0: 1}, 1, isr=(1,))
        assert error_of(told) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1, 2), 4)


async def test_new_leader_epoch_brings_its_isr_and_partition_epoch(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: 1}, 1, isr=(1, 2), partition_epoch=3)
        stage.tell({0: 1}, 2, isr=(1,), partition_epoch=7)
        partition = stage.partition()
        assert (partition.isr, partition.partition_epoch, partition.leader_epoch) == ((1,), 7, 2)
        assert partition.log.epochs.entries == [(2, 0)]


async def test_broker_that_stepped_down_fetches_nothing_until_it_is_told_the_same_epoch(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 1)
        await stage.asked(FetchRequest)
        manager = stage.broker.manager
        manager.step_down()
        await wait_all_tasks_blocked()
        assert stage.network.calls == []
        assert error_of(stage.tell({0: LEADER}, 1)) == ErrorCode.STALE_BROKER_EPOCH
        stage.broker.epoch += 1
        manager._host.broker_epoch = stage.broker.epoch
        assert error_of(stage.tell({0: LEADER}, 1)) == ErrorCode.NONE
        await stage.asked(FetchRequest)
        assert error_of(stage.tell({0: LEADER}, 1)) == ErrorCode.STALE_CONTROLLER_EPOCH


def waited_for(stage: FollowingStage) -> tuple[list[ErrorCode], list[bool]]:
    """Have broker 1 lead partition 0, with a producer that waits for a record to be replicated.

    Returns what the producer is told, and whether the broker leads after each later change.
    """
    stage.tell({0: 1}, 1)
    partition, changes = stage.partition(), list[bool]()
    stage.broker.led = lambda changed: changes.append(changed.is_leader)
    append(partition)
    told: list[ErrorCode] = []
    partition.when_replicated(1, told.append)
    return told, changes


async def test_leader_that_steps_down_answers_who_waits_and_tells_that_it_leads_no_more(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        told, changes = waited_for(stage)
        partition = stage.partition()
        stage.broker.manager.step_down()
        assert (told, changes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [False])
        assert (partition.is_leader, partition.leading) == (False, None)


@pytest.mark.parametrize("leader", [LEADER, 3])
async def test_leader_that_is_to_follow_answers_who_waits(tmp_path: Path, leader: int) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        told, changes = waited_for(stage)
        stage.tell({0: leader}, 2)
        assert (told, changes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [False])
        assert stage.partition().leading is None
        stage.tell({0: 1}, 3, isr=(1,))
        assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it is answered once"


async def test_partition_that_is_stopped_is_fetched_no_longer(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER, 1: LEADER}, 1)
        call = await stage.asked(FetchRequest)
        stage.stop(1, 1, delete=False)
        await stage.answer(call, fetched(data(0, batch(0, 1)), data(1, batch(0, 1))))
        assert (stage.end(0), stage.end(1)) == (1, 0)
        assert asked_for(await stage.asked(FetchRequest)).keys() == {0}


async def test_partition_is_not_stopped_by_who_knows_an_earlier_leader_epoch(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 2)
        told = stage.stop(0, 1, delete=True)
        assert told.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        await stage.asked(FetchRequest)
        assert stage.stop(0, -2, delete=True).partition_errors[0].error_code == ErrorCode.NONE
        await wait_all_tasks_blocked()
        assert stage.network.calls == []


async def test_nothing_is_fetched_once_all_is_led_here(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER, 1: LEADER}, 1)
        await stage.asked(FetchRequest)
        stage.tell({0: 1, 1: 1}, 2)
        await wait_all_tasks_blocked()
        assert stage.network.calls == []


async def test_everything_counts_at_once_for_the_only_replica(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 1)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 1), high_watermark=0)))
        stage.tell({0: 1}, 2, isr=(1,), replicas=(1,))
        assert stage.partition().high_watermark == 1


@pytest.mark.parametrize(("checkpoint", "start", "counts"), [(2, 0, 2), (1, 2, 2), (9, 0, 3)])
async def test_replica_that_is_opened_goes_by_its_checkpoint_and_start(
    tmp_path: Path, checkpoint: int, start: int, counts: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 1)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, *[batch(each, 1) for each in range(3)])))
        broker = stage.broker.broker
        assert broker is not None
        del broker.hosted.by_topic[TOPIC]
        log = broker.logs.logs[TOPIC, 0]
        log.log_start_offset = start
        broker.logs.high_watermarks[TOPIC, 0] = checkpoint
        stage.tell({0: LEADER}, 2)
        assert stage.partition().high_watermark == counts


# -- followers that fetch


def append(partition: Partition) -> None:
    partition.append(build([Record(0, 0, None, b"v")]), now_ms=0)


async def fetch(
    stage: FollowingStage,
    offset: int,
    *,
    leader_epoch: int = 3,
    last_epoch: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
) -> PartitionData:
    """What broker 2 is answered, at once unless it waits."""
    asked = FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1000,
    )
    request = FetchRequest(
        replica_id=FOLLOWER,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1000,
        topics=[FetchTopic(TOPIC, TOPIC_ID, [asked])],
    )
    reply = await stage.broker._answer(request, TOPICS_BY_NAME)
    assert isinstance(reply, FetchResponse)
    return reply.responses[0].partitions[0]


async def led_by_this(stage: FollowingStage) -> Partition:
    """In epoch 3 with two records of epoch 1 and one of 3; broker 2 is in sync."""
    stage.tell({0: LEADER}, 1)
    call = await stage.asked(FetchRequest)
    await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 1))))
    stage.tell({0: 1}, 3)
    append(stage.partition())
    return stage.partition()


async def test_follower_is_sent_what_does_not_count_yet(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_by_this(stage)
        told = await fetch(stage, 2, last_epoch=1)
        assert (told.error_code, told.high_watermark) == (ErrorCode.NONE, 0)
        assert told.records
        assert partition.high_watermark == 2, "what it fetched before it has"


async def test_follower_whose_log_diverges_is_not_counted(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_by_this(stage)
        told = await fetch(stage, 3, last_epoch=1)
        assert told.diverging_epoch is not None
        assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (1, 2)
        assert partition.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_follower_of_another_epoch_is_not_counted(
    tmp_path: Path, epoch: int, error: ErrorCode
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_by_this(stage)
        assert (await fetch(stage, 3, leader_epoch=epoch, last_epoch=3)).error_code == error
        assert partition.high_watermark == 0


async def test_follower_that_asks_beyond_the_end_is_not_counted(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_by_this(stage)
        told = await fetch(stage, 7)
        assert told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.high_watermark == 0
        assert partition.leading is not None
        follower = partition.leading.follower(FOLLOWER)
        assert follower is not None
        assert follower.log_end_offset == -1


async def test_fetch_that_waits_tells_its_leader_where_its_follower_is_when_it_comes_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """What is appended has it read again, by when the follower may be gone."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_by_this(stage)
        assert partition.leading is not None
        follower = partition.leading.follower(FOLLOWER)
        assert follower is not None
        told: list[PartitionData] = []

        async def wait_for_much() -> None:
            told.append(await fetch(stage, 3, last_epoch=3, max_wait_ms=2000, min_bytes=1000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_much)
            await wait_all_tasks_blocked()
            fetched_ms = follower.last_fetch_ms
            for _ in range(3):
                await trio.sleep(0.3)
                append(partition)
                await wait_all_tasks_blocked()
        assert told[0].records
        said = (follower.last_fetch_ms, follower.leader_end_offset, follower.log_end_offset)
        assert said == (fetched_ms, 3, 3)
        assert follower.last_caught_up_ms == fetched_ms


async def test_follower_that_has_all_joins_the_isr(tmp_path: Path) -> None:
    """All that the leader had when its epoch began, be it a new leader's or the same one's."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.show()
        stage.tell({0: 1}, 1, isr=(1,))
        for epoch in (1, 2):
            append(stage.partition())
            stage.tell({0: 1}, epoch, isr=(1,))
            leading = stage.partition().leading
            assert leading is not None
            await fetch(stage, epoch - 1, leader_epoch=epoch)
            assert leading.proposed is None
            await fetch(stage, epoch, leader_epoch=epoch)
            assert leading.proposed == (1, FOLLOWER)


async def test_next_epoch_of_a_leader_knows_what_its_followers_have(tmp_path: Path) -> None:
    """What all have that are in sync by then counts at once."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: 1}, 1, isr=(1, FOLLOWER, 3), replicas=(1, FOLLOWER, 3))
        append(stage.partition())
        await fetch(stage, 1, leader_epoch=1)
        assert stage.partition().high_watermark == 0
        stage.tell({0: 1}, 2, isr=(1, FOLLOWER), replicas=(1, FOLLOWER, 3))
        assert stage.partition().high_watermark == 1


async def test_first_epoch_of_all_is_compared_too(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 0)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 0))))
        stage.tell({0: 1}, 3)
        append(stage.partition())
        told = await fetch(stage, 2, last_epoch=0)
        assert told.diverging_epoch is not None
        assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (0, 1)


# -- a leader that refuses


@pytest.mark.parametrize(
    ("error", "asks_again"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False),
    ],
)
async def test_follower_asks_again_unless_its_leader_epoch_is_over(
    tmp_path: Path, autojump_clock: MockClock, error: ErrorCode, asks_again: bool
) -> None:
    """Then it waits until the controller tells it of the next one."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.tell({0: LEADER}, 1)
        call = await stage.asked(FetchRequest)
        await stage.answer(call, fetched(data(0, error_code=error)))
        await trio.sleep(2)
        await wait_all_tasks_blocked()
        assert bool(stage.network.calls) == asks_again
