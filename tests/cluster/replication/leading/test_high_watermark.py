"""Which replicas the high watermark waits for, and when it advances."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.errors import ErrorCode
from tests.cluster.replication.leading.stage import LAG_MAX_MS, LeaderStage


def test_high_watermark_waits_for_every_isr_member(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.fetch(2, 1)
    assert stage.high_watermark == 0
    stage.fetch(3, 1)
    assert stage.high_watermark == 1


def test_high_watermark_does_not_wait_for_lagging_followers_outside_the_isr(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2), records=3)
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(3, 1)
    stage.fetch(2, 3)
    assert stage.high_watermark == 3


def test_new_leader_does_not_count_a_follower_outside_the_isr_as_caught_up(
    tmp_path: Path,
) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2), records=3)
    stage.fetch(2, 3)
    assert stage.high_watermark == 3


def test_high_watermark_waits_for_a_joining_follower_while_it_is_alive(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0)
    stage.leading.refused()
    stage.append()
    stage.fetch(2, 1)
    assert stage.high_watermark == 0, "it has to find all that counts when it joins"
    stage.alive.discard(3)
    stage.leading.maybe_shrink()
    assert stage.high_watermark == 1


def test_acks_all_is_answered_after_a_joining_follower_stops_fetching(
    tmp_path: Path,
) -> None:
    """No other follower fetches, so only the periodic check can advance the high watermark."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0)
    stage.leading.refused()
    stage.append()
    outcomes = stage.wait_for(1)
    stage.fetch(2, 1)
    assert outcomes == []
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(2, 1)
    stage.leading.maybe_shrink()
    assert (outcomes, stage.high_watermark) == ([ErrorCode.NONE], 1)


def test_high_watermark_waits_for_proposed_members_and_proposed_leavers(tmp_path: Path) -> None:
    """Until the controller answers, either ISR may be the committed one."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0)
    assert stage.isr_changes.proposals == [(1, 2, 3)]
    stage.alive.discard(3)  # not for it being about to join
    stage.append()
    stage.fetch(2, 1)
    assert stage.high_watermark == 0
    stage.leading.settled((1, 2, 3), 2)
    stage.fetch(3, 1)
    assert stage.high_watermark == 1
    stage.now_ms += LAG_MAX_MS + 1
    stage.append()
    stage.fetch(2, 2)
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals[1:] == [(1, 2)]
    assert stage.high_watermark == 1


def test_high_watermark_moves_when_the_shrunk_isr_is_confirmed(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    stage.append()
    outcomes = stage.wait_for(1)
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(2, 1)
    stage.leading.maybe_shrink()
    assert (stage.isr_changes.proposals, outcomes) == ([(1, 2)], [])
    stage.leading.settled((1, 2), 2)
    assert (outcomes, stage.high_watermark) == ([ErrorCode.NONE], 1)
    assert (stage.partition.isr, stage.partition.partition_epoch) == ((1, 2), 2)
    assert stage.leading.proposed is None


def test_high_watermark_moves_when_an_expansion_is_refused(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0)
    stage.append()
    stage.fetch(2, 1)
    stage.alive.discard(3)
    outcomes = stage.wait_for(1)
    stage.leading.refused()
    assert (outcomes, stage.leading.proposed) == ([ErrorCode.NONE], None)


def test_high_watermark_stands_still_below_min_insync_replicas(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2), min_isr=2)
    stage.append()
    stage.now_ms += LAG_MAX_MS + 1
    stage.leading.settled((1,), 2)
    assert stage.high_watermark == 0
    stage.leading.settled((1, 2), 3)
    stage.fetch(2, 1)
    assert stage.high_watermark == 1


def test_high_watermark_stops_at_the_leaders_flushed_offset(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1,), flush_messages=1)
    stage.now_ms += LAG_MAX_MS + 1
    stage.append()
    assert stage.high_watermark == 0


def test_follower_that_fetches_from_an_earlier_offset_is_behind_again(tmp_path: Path) -> None:
    """A follower that lost unflushed records fetches from an earlier offset than before."""
    stage = LeaderStage(tmp_path)
    for _ in range(3):
        stage.append()
    stage.fetch(2, 3)
    stage.fetch(3, 2)
    assert stage.high_watermark == 2
    stage.fetch(2, 1)
    stage.fetch(3, 3)
    assert stage.high_watermark == 2
    assert stage.follower(2).log_end_offset == 1


def test_leader_is_lagging_until_the_isr_has_its_epoch_start_offset(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2), records=2)
    lagging = [stage.leading.is_lagging]
    for offset in (1, 2):
        stage.fetch(2, offset)
        lagging.append(stage.leading.is_lagging)
    assert lagging == [True, True, False]


def test_append_wakes_the_waiting_fetch_of_a_follower(tmp_path: Path) -> None:
    class Waiter:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def data_arrived(self, size_bytes: int) -> None:
            self.sizes.append(size_bytes)

        def partition_changed(self) -> None:
            raise AssertionError("nobody changed it")

    stage, waiter = LeaderStage(tmp_path), Waiter()
    stage.partition.replica_waiters.add(waiter)
    stage.append()
    assert len(waiter.sizes) == 1


@pytest.mark.parametrize("stays", [True, False])
def test_new_epoch_of_the_same_leader_keeps_the_followers_progress(
    tmp_path: Path, stays: bool
) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.append()
    stage.fetch(3, 0)
    stage.fetch(2, 1)
    replicas = (1, 2, 3) if stays else (1, 3)
    stage.leading.follow(PartitionImage(1, 2, 2, replicas, (1,)), new_leader=False, new_epoch=True)
    assert stage.leading.proposed is None, "what was asked for in the epoch before is void"
    assert [(each.broker_id, each.log_end_offset) for each in stage.leading.followers] == (
        [(2, 1), (3, 0)] if stays else [(3, 0)]
    )


def test_waiting_delete_records_is_answered_when_the_leader_stops(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    outcomes: list[tuple[ErrorCode, int]] = []
    stage.leading.when_deleted(5, lambda error, offset: outcomes.append((error, offset)))
    stage.partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcomes == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert stage.partition.leading is None


def test_delete_records_does_not_wait_for_dead_replicas(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    outcomes: list[tuple[ErrorCode, int]] = []
    stage.leading.fetched(stage.follower(2), 0, 0, 100)
    stage.leading.fetched(stage.follower(3), 0, 0, 100)
    stage.alive.discard(3)
    stage.partition.log.log_start_offset = 0
    stage.leading.when_deleted(1, lambda error, offset: outcomes.append((error, offset)))
    assert outcomes == []
    stage.append()
    stage.partition.log.log_start_offset = 1
    stage.leading.fetched(stage.follower(2), 1, 1, 100)
    assert outcomes == [(ErrorCode.NONE, 1)]


class WaitingConsumer:
    """A waiting Fetch of a consumer, which records the bytes of each notice."""

    def __init__(self) -> None:
        self.arrived_bytes: list[int] = []

    def data_arrived(self, size_bytes: int) -> None:
        self.arrived_bytes.append(size_bytes)

    def partition_changed(self) -> None:
        raise AssertionError("nothing else changes")


def test_waiting_consumer_gets_the_number_of_committed_bytes(tmp_path: Path) -> None:
    """Progress of a follower that commits nothing gives no notice."""
    stage = LeaderStage(tmp_path)
    consumer = WaitingConsumer()
    stage.partition.fetch_waiters.add(consumer)
    for _ in range(3):
        stage.append()
    size_bytes = stage.partition.log.segments.active.size_bytes // 3
    stage.fetch(2, 3)
    stage.fetch(3, 0)
    assert consumer.arrived_bytes == []
    stage.fetch(3, 1)
    stage.fetch(3, 3)
    assert consumer.arrived_bytes == [size_bytes, 2 * size_bytes]
    stage.append()
    stage.fetch(2, 4)
    assert consumer.arrived_bytes == [size_bytes, 2 * size_bytes]
    stage.fetch(3, 4)
    assert consumer.arrived_bytes == [size_bytes, 2 * size_bytes, size_bytes]
