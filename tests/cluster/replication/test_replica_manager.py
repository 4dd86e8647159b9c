"""How a broker carries out controllers' requests, and counts its followers' Fetches."""

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
    batch,
    data,
    fetched,
    following,
    requested_partitions,
)

FOLLOWER = 2
TOPICS_BY_NAME = 12
"""A version of Fetch that names topics by name, not by id."""


def error_of(answer: LeaderAndIsrResponse) -> ErrorCode:
    outcome = answer.topics[0].partition_errors[0].error_code
    return ErrorCode(answer.error_code or outcome)


async def test_request_of_an_earlier_controller_is_refused(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        assert error_of(stage.send_leader_and_isr({0: 1}, 1, controller_epoch=5)) == ErrorCode.NONE
        outcome = stage.send_leader_and_isr({0: LEADER}, 2, controller_epoch=4)
        assert error_of(outcome) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert (stage.partition().leader, stage.partition().leader_epoch) == (1, 1)


async def test_request_to_an_earlier_registration_is_refused(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1)
        outcome = stage.send_leader_and_isr({0: LEADER}, 2, broker_epoch=stage.broker.epoch - 1)
        assert error_of(outcome) == ErrorCode.STALE_BROKER_EPOCH
        assert stage.partition().is_leader


async def test_repeated_leader_and_isr_changes_nothing(tmp_path: Path) -> None:
    """The copy arrives after the leader has got a later ISR."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1, isr=(1,))
        leading = stage.partition().leading
        assert leading is not None
        leading.settled((1, 2), 4)
        outcome = stage.send_leader_and_isr({0: 1}, 1, isr=(1,))
        assert error_of(outcome) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert (stage.partition().isr, stage.partition().partition_epoch) == ((1, 2), 4)


async def test_new_leader_epoch_sets_isr_and_partition_epoch(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1, isr=(1, 2), partition_epoch=3)
        stage.send_leader_and_isr({0: 1}, 2, isr=(1,), partition_epoch=7)
        partition = stage.partition()
        assert (partition.isr, partition.partition_epoch, partition.leader_epoch) == ((1,), 7, 2)
        assert partition.log.epochs.entries == [(2, 0)]


async def test_stepped_down_broker_fetches_nothing_until_leader_and_isr(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        await stage.next_request(FetchRequest)
        requests = stage.broker.requests
        requests.step_down()
        await wait_all_tasks_blocked()
        assert stage.network.calls == []
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == ErrorCode.STALE_BROKER_EPOCH
        stage.broker.epoch += 1
        requests._host.broker_epoch = stage.broker.epoch
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == ErrorCode.NONE
        await stage.next_request(FetchRequest)
        assert (
            error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == ErrorCode.STALE_CONTROLLER_EPOCH
        )


def leader_with_a_waiting_producer(stage: FollowingStage) -> tuple[list[ErrorCode], list[bool]]:
    """Make broker 1 lead partition 0, with a producer that waits for acks=all.

    Returns what the producer is told, and whether the broker leads after each later change.
    """
    stage.send_leader_and_isr({0: 1}, 1)
    partition, changes = stage.partition(), list[bool]()
    stage.broker.led = lambda changed: changes.append(changed.is_leader)
    append(partition)
    outcomes: list[ErrorCode] = []
    partition.when_replicated(1, outcomes.append)
    return outcomes, changes


async def test_stepping_down_leader_answers_waiting_requests_and_reports_the_change(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        outcomes, changes = leader_with_a_waiting_producer(stage)
        partition = stage.partition()
        stage.broker.requests.step_down()
        assert (outcomes, changes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [False])
        assert (partition.is_leader, partition.leading) == (False, None)


@pytest.mark.parametrize("leader", [LEADER, 3])
async def test_leader_that_becomes_a_follower_answers_waiting_requests(
    tmp_path: Path, leader: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        outcomes, changes = leader_with_a_waiting_producer(stage)
        stage.send_leader_and_isr({0: leader}, 2)
        assert (outcomes, changes) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [False])
        assert stage.partition().leading is None
        stage.send_leader_and_isr({0: 1}, 3, isr=(1,))
        assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it is answered once"


@pytest.mark.parametrize("stopped", [0, 1])
async def test_stopped_partition_is_no_longer_fetched(tmp_path: Path, stopped: int) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        call = await stage.next_request(FetchRequest)
        stage.send_stop_replica(stopped, 1, delete=False)
        await stage.answer(call, fetched(data(0, batch(0, 1)), data(1, batch(0, 1))))
        assert (stage.end(stopped), stage.end(1 - stopped)) == (0, 1)
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == {1 - stopped}


async def test_stop_replica_with_an_earlier_leader_epoch_is_refused(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 2)
        outcome = stage.send_stop_replica(0, 1, delete=True)
        assert outcome.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        await stage.next_request(FetchRequest)
        assert (
            stage.send_stop_replica(0, -2, delete=True).partition_errors[0].error_code
            == ErrorCode.NONE
        )
        await wait_all_tasks_blocked()
        assert stage.network.calls == []


async def test_fetcher_ends_when_this_broker_leads_all_partitions(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        await stage.next_request(FetchRequest)
        stage.send_leader_and_isr({0: 1, 1: 1}, 2)
        await wait_all_tasks_blocked()
        assert stage.network.calls == []


async def test_only_replica_advances_its_high_watermark_at_once(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 1), high_watermark=0)))
        stage.send_leader_and_isr({0: 1}, 2, isr=(1,), replicas=(1,))
        assert stage.partition().high_watermark == 1


@pytest.mark.parametrize(("checkpoint", "start", "counts"), [(2, 0, 2), (1, 2, 2), (9, 0, 3)])
async def test_opened_replica_has_the_high_watermark_of_checkpoint_and_log_start(
    tmp_path: Path, checkpoint: int, start: int, counts: int
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, *[batch(each, 1) for each in range(3)])))
        broker = stage.broker.broker
        assert broker is not None
        del broker.hosted.by_topic[TOPIC]
        log = broker.logs.logs[TOPIC, 0]
        log.log_start_offset = start
        broker.logs.high_watermarks[TOPIC, 0] = checkpoint
        stage.send_leader_and_isr({0: LEADER}, 2)
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
    """The answer to a Fetch of broker 2; waits as long as the Fetch waits."""
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


async def led_partition(stage: FollowingStage) -> Partition:
    """Lead in epoch 3, with two records of epoch 1 and one of epoch 3; broker 2 is in sync."""
    stage.send_leader_and_isr({0: LEADER}, 1)
    call = await stage.next_request(FetchRequest)
    await stage.answer(call, fetched(data(0, batch(0, 1), batch(1, 1))))
    stage.send_leader_and_isr({0: 1}, 3)
    append(stage.partition())
    return stage.partition()


async def test_follower_fetches_records_above_the_high_watermark(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_partition(stage)
        outcome = await fetch(stage, 2, last_epoch=1)
        assert (outcome.error_code, outcome.high_watermark) == (ErrorCode.NONE, 0)
        assert outcome.records
        assert partition.high_watermark == 2, "what it fetched before it has"


async def test_fetch_of_a_diverging_follower_does_not_count_as_progress(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_partition(stage)
        outcome = await fetch(stage, 3, last_epoch=1)
        assert outcome.diverging_epoch is not None
        assert (outcome.diverging_epoch.epoch, outcome.diverging_epoch.end_offset) == (1, 2)
        assert partition.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_fetch_in_another_leader_epoch_does_not_count_as_progress(
    tmp_path: Path, epoch: int, error: ErrorCode
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_partition(stage)
        assert (await fetch(stage, 3, leader_epoch=epoch, last_epoch=3)).error_code == error
        assert partition.high_watermark == 0


async def test_fetch_beyond_the_log_end_does_not_count_as_progress(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_partition(stage)
        outcome = await fetch(stage, 7)
        assert outcome.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.high_watermark == 0
        assert partition.leading is not None
        follower = partition.leading.follower(FOLLOWER)
        assert follower is not None
        assert follower.log_end_offset == -1


async def test_waiting_fetch_counts_as_progress_only_on_arrival(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """An append makes the waiting Fetch read again, but the follower may be gone by then."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        partition = await led_partition(stage)
        assert partition.leading is not None
        follower = partition.leading.follower(FOLLOWER)
        assert follower is not None
        answers: list[PartitionData] = []

        async def wait_for_much() -> None:
            answers.append(await fetch(stage, 3, last_epoch=3, max_wait_ms=2000, min_bytes=1000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_much)
            await wait_all_tasks_blocked()
            fetched_ms = follower.last_fetch_ms
            for _ in range(3):
                await trio.sleep(0.3)
                append(partition)
                await wait_all_tasks_blocked()
        assert answers[0].records
        progress = (follower.last_fetch_ms, follower.leader_end_offset, follower.log_end_offset)
        assert progress == (fetched_ms, 3, 3)
        assert follower.last_caught_up_ms == fetched_ms


async def test_follower_with_all_records_joins_the_isr(tmp_path: Path) -> None:
    """It joins at the leader's epoch start offset, whether the leader is new or the same."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_update_metadata()
        stage.send_leader_and_isr({0: 1}, 1, isr=(1,))
        for epoch in (1, 2):
            append(stage.partition())
            stage.send_leader_and_isr({0: 1}, epoch, isr=(1,))
            leading = stage.partition().leading
            assert leading is not None
            await fetch(stage, epoch - 1, leader_epoch=epoch)
            assert leading.proposed is None
            await fetch(stage, epoch, leader_epoch=epoch)
            assert leading.proposed == (1, FOLLOWER)


async def test_next_epoch_of_the_same_leader_knows_its_followers_offsets(tmp_path: Path) -> None:
    """Records that all in-sync replicas have are committed at once."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1, isr=(1, FOLLOWER, 3), replicas=(1, FOLLOWER, 3))
        append(stage.partition())
        await fetch(stage, 1, leader_epoch=1)
        assert stage.partition().high_watermark == 0
        stage.send_leader_and_isr({0: 1}, 2, isr=(1, FOLLOWER), replicas=(1, FOLLOWER, 3))
        assert stage.partition().high_watermark == 1


async def test_fetch_that_names_epoch_zero_is_checked_for_divergence(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 0)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, batch(0, 0))))
        stage.send_leader_and_isr({0: 1}, 3)
        append(stage.partition())
        outcome = await fetch(stage, 2, last_epoch=0)
        assert outcome.diverging_epoch is not None
        assert (outcome.diverging_epoch.epoch, outcome.diverging_epoch.end_offset) == (0, 1)


# -- a leader that refuses


@pytest.mark.parametrize(
    ("error", "asks_again"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.FENCED_LEADER_EPOCH, False),
    ],
)
async def test_follower_retries_unless_its_leader_epoch_is_fenced(
    tmp_path: Path, autojump_clock: MockClock, error: ErrorCode, asks_again: bool
) -> None:
    """After FENCED_LEADER_EPOCH it waits for the controller's LeaderAndIsr."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        call = await stage.next_request(FetchRequest)
        await stage.answer(call, fetched(data(0, error_code=error)))
        await trio.sleep(2)
        await wait_all_tasks_blocked()
        assert bool(stage.network.calls) == asks_again
