"""Which followers a leader proposes to add to the ISR and to remove from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.replication.leading.stage import LAG_MAX_MS, LeaderStage


def test_follower_joins_the_isr_at_the_epoch_start_offset(tmp_path: Path) -> None:
    """Records between the two may have been committed by the earlier leader."""
    stage = LeaderStage(tmp_path, isr=(1, 2), records=3)
    stage.fetch(3, 2)
    assert stage.isr_changes.proposals == []
    stage.fetch(3, 3)
    assert stage.isr_changes.proposals == [(1, 2, 3)]


def test_follower_joins_the_isr_at_the_high_watermark(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1,))
    stage.now_ms += LAG_MAX_MS + 1
    stage.append()
    stage.append()
    assert stage.high_watermark == 2
    stage.fetch(3, 1)
    assert stage.isr_changes.proposals == []
    stage.fetch(3, 2)
    assert stage.isr_changes.proposals == [(1, 3)]


def test_follower_that_is_not_alive_does_not_join_the_isr(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.alive.discard(3)
    stage.fetch(3, 0)
    assert stage.isr_changes.proposals == []


def test_leader_proposes_one_isr_change_at_a_time(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1,))
    stage.fetch(2, 0)
    stage.fetch(3, 0)
    stage.now_ms += LAG_MAX_MS + 1
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 2)]


def test_follower_leaves_the_isr_after_replica_lag_time_max_ms(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.now_ms += LAG_MAX_MS
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == []
    stage.fetch(2, 1)
    stage.now_ms += 1
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 2)]


def test_silent_follower_with_all_records_stays_in_the_isr(tmp_path: Path) -> None:
    """As in Apache Kafka: no record was written that it could lack."""
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.fetch(2, 1)
    stage.fetch(3, 1)
    stage.now_ms += 10 * LAG_MAX_MS
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == []


def test_follower_always_one_fetch_behind_stays_in_the_isr(tmp_path: Path) -> None:
    """Under load it never has all records, but always those that existed at its previous fetch."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    for offset in range(5):
        stage.append()
        stage.now_ms += LAG_MAX_MS // 2
        stage.fetch(2, offset)
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == []


def test_follower_at_an_older_end_was_caught_up_at_that_time_only(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.append()
    stage.fetch(2, 0)
    fetched_ms = stage.now_ms
    stage.now_ms += LAG_MAX_MS
    stage.append()
    stage.fetch(2, 1)
    assert stage.follower(2).last_caught_up_ms == fetched_ms
    stage.now_ms += 1
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1,)]


def test_refused_expansion_is_followed_by_a_due_shrink(tmp_path: Path) -> None:
    """Otherwise a follower that is refused again and again keeps a dead one in the ISR."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.append()
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(3, 1)
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 2, 3)]
    stage.leading.refused()
    assert stage.isr_changes.proposals == [(1, 2, 3), (1,)]


def test_refused_shrink_waits_for_the_next_periodic_check(tmp_path: Path) -> None:
    """At once it would be refused again, and again, as fast as the controller answers."""
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(3, 1)
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 3)]
    for ineligible in (False, True):
        stage.leading.refused(ineligible=ineligible)
        assert stage.leading.proposed is None
        stage.leading.maybe_shrink()
        assert stage.leading.proposed == (1, 3)
    assert stage.isr_changes.proposals == [(1, 3)] * 3


@pytest.mark.parametrize(("ineligible", "isr"), [(False, (1, 3)), (True, (1,))])
def test_silent_follower_leaves_the_isr_once_a_replica_is_ineligible(
    tmp_path: Path, ineligible: bool, isr: tuple[int, ...]
) -> None:
    """It has restarted and cannot reach the leader; the controller refuses each ISR with it."""
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.fetch(2, 0)
    stage.fetch(3, 1)
    stage.now_ms += LAG_MAX_MS + 1
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 3)], "it has all records"
    stage.leading.refused(ineligible=ineligible)
    stage.leading.maybe_shrink()
    assert stage.leading.proposed == isr
    stage.leading.settled(isr, 2)
    assert (stage.partition.isr, stage.high_watermark) == (isr, 1)


def test_committed_isr_ends_what_is_known_of_an_ineligible_replica(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(3, 1)
    stage.leading.maybe_shrink()
    stage.leading.refused(ineligible=True)
    stage.fetch(2, 1)
    stage.leading.settled((1, 2, 3), 2)
    stage.append()
    stage.fetch(3, 2)
    stage.now_ms += LAG_MAX_MS + 1
    stage.leading.maybe_shrink()
    assert stage.isr_changes.proposals == [(1, 3), (1, 3)]


@pytest.mark.parametrize("epoch", [100, 101])
def test_proposal_names_the_broker_epoch_of_the_last_fetch(tmp_path: Path, epoch: int) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0, epoch=99)
    stage.fetch(3, 0, epoch=epoch)
    assert stage.follower(3).broker_epoch == epoch
