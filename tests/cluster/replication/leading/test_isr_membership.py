"""Who joins the ISR and who leaves it, as a leader proposes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.replication.leading.stage import LAG_MAX_MS, LeaderStage


def test_follower_joins_once_it_has_what_was_there_when_the_epoch_began(tmp_path: Path) -> None:
    """Its high watermark is older: what lies between may have counted for the leader before."""
    stage = LeaderStage(tmp_path, isr=(1, 2), records=3)
    stage.fetch(3, 2)
    assert stage.asked.proposals == []
    stage.fetch(3, 3)
    assert stage.asked.proposals == [(1, 2, 3)]


def test_follower_joins_once_it_has_all_that_counts(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1,))
    stage.now_ms += LAG_MAX_MS + 1
    stage.append()
    stage.append()
    assert stage.high_watermark == 2
    stage.fetch(3, 1)
    assert stage.asked.proposals == []
    stage.fetch(3, 2)
    assert stage.asked.proposals == [(1, 3)]


def test_follower_that_is_no_live_broker_does_not_join(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.alive.discard(3)
    stage.fetch(3, 0)
    assert stage.asked.proposals == []


def test_one_change_is_asked_for_at_a_time(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path, isr=(1,))
    stage.fetch(2, 0)
    stage.fetch(3, 0)
    stage.now_ms += LAG_MAX_MS + 1
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == [(1, 2)]


def test_follower_leaves_once_it_has_lagged_for_longer_than_is_allowed(tmp_path: Path) -> None:
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.now_ms += LAG_MAX_MS
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == []
    stage.fetch(2, 1)
    stage.now_ms += 1
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == [(1, 2)]


def test_follower_that_has_everything_stays_however_long_it_is_silent(tmp_path: Path) -> None:
    """As Apache Kafka: nothing has been written that it could lack."""
    stage = LeaderStage(tmp_path)
    stage.append()
    stage.fetch(2, 1)
    stage.fetch(3, 1)
    stage.now_ms += 10 * LAG_MAX_MS
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == []


def test_follower_that_is_always_one_fetch_behind_stays(tmp_path: Path) -> None:
    """Under load it never has all, but each time what was there when it fetched before."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    for offset in range(5):
        stage.append()
        stage.now_ms += LAG_MAX_MS // 2
        stage.fetch(2, offset)
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == []


def test_follower_that_reached_an_older_end_was_caught_up_then_not_now(tmp_path: Path) -> None:
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
    assert stage.asked.proposals == [(1,)]


def test_refused_expansion_gives_the_shrinking_its_turn(tmp_path: Path) -> None:
    """Else a follower that fetches and is refused keeps one in the ISR that is gone."""
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.append()
    stage.now_ms += LAG_MAX_MS + 1
    stage.fetch(3, 1)
    stage.leading.maybe_shrink()
    assert stage.asked.proposals == [(1, 2, 3)]
    stage.leading.refused()
    assert stage.asked.proposals == [(1, 2, 3), (1,)]


@pytest.mark.parametrize("epoch", [100, 101])
def test_life_of_a_follower_is_that_of_its_last_fetch(tmp_path: Path, epoch: int) -> None:
    stage = LeaderStage(tmp_path, isr=(1, 2))
    stage.fetch(3, 0, epoch=99)
    stage.fetch(3, 0, epoch=epoch)
    assert stage.follower(3).broker_epoch == epoch
