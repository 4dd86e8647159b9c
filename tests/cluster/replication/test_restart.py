"""State of a partition after a restart, before it has a leader."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.cluster.replication.manager import ReplicaManager
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.log import LogManager
from kwire.settings import load, topic_log_config
from tests.cluster.replication.cluster import cluster

pytestmark = pytest.mark.slow


async def test_restarted_broker_has_the_high_watermark_of_its_checkpoint(tmp_path: Path) -> None:
    """The log end would be wrong: the next leader may truncate records above the checkpoint."""
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        assert await controller.produce(1, b"a", b"b") == (ErrorCode.NONE, 0)
        await controller.until_equal(1, 2)
        await controller.stop_replica(2, delete=False)
        assert await controller.produce(1, b"c", acks=1) == (ErrorCode.NONE, 2)
        await controller.end(1)
    config = load(None, {"node.id": "1", "log.dirs": str(tmp_path / "broker-1")})
    logs = LogManager(config.log_dirs, defaults=topic_log_config(config, {}))
    logs.load()
    broker = Broker(config, None, logs, "cluster")  # type: ignore[arg-type]  # never asked
    nobody_leads = LeaderAndIsrPartitionState(
        partition_index=0, leader=-1, leader_epoch=9, isr=[1], replicas=[1, 2]
    )
    topic = LeaderAndIsrTopicState("t", controller.topic_id, [nobody_leads])
    async with trio.open_nursery() as nursery:
        host = ReplicationContext(broker.node)
        requests = ControllerRequests(ReplicaManager(host, nursery), host, nursery)
        requests.leader_and_isr(LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic]), 7)
        nursery.cancel_scope.cancel()
    partition = broker.hosted.get("t", 0)
    assert partition is not None
    assert (partition.high_watermark, partition.log_end_offset) == (2, 3)
    logs.close(broker.hosted.high_watermark_of)
