"""Which brokers a leader takes for replicas of its partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.replication.leading import check_replica
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError
from tests.cluster.replication.leading.stage import LeaderStage


@pytest.mark.parametrize("named_epoch", [False, True])
def test_replica_has_its_progress_at_the_leader(tmp_path: Path, named_epoch: bool) -> None:
    stage = LeaderStage(tmp_path, isr=(1,))
    for broker_id in (2, 3):
        found = check_replica(stage.partition, broker_id, named_epoch=named_epoch)
        assert found is stage.follower(broker_id)


@pytest.mark.parametrize(
    ("named_epoch", "error"),
    [(True, ErrorCode.UNKNOWN_LEADER_EPOCH), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
@pytest.mark.parametrize("has_followers", [False, True])
def test_broker_that_is_no_replica_is_refused(
    tmp_path: Path, named_epoch: bool, error: ErrorCode, has_followers: bool
) -> None:
    """One that names the current leader epoch knows a later assignment, and asks again."""
    stage = LeaderStage(tmp_path)
    if not has_followers:
        stage.partition.leading = None
    for broker_id in (1, 4) if has_followers else (2,):
        with pytest.raises(LogError) as refused:
            check_replica(stage.partition, broker_id, named_epoch=named_epoch)
        assert refused.value.error == error
