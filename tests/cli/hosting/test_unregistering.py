"""The quorum of `kwire serve --brokers 3`, and brokers that leave it for good."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kwire.codecs.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.cli.hosting.test_several import WAIT_S, Several
from tests.polling import until

pytestmark = pytest.mark.slow
METADATA = DescribeQuorumRequest(
    [RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])]
)
IDS = (1, 2, 3)


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Several]:
    cluster = Several(tmp_path / "data")
    yield cluster
    cluster.close()


def quorum_by(cluster: Cluster, broker_id: int) -> ResponsePartitionData:
    response = cluster.node(broker_id).call(METADATA)
    assert response.error_code == ErrorCode.NONE
    partition: ResponsePartitionData = response.topics[0].partitions[0]
    return partition


def brokers_seen_by(cluster: Cluster, broker_id: int) -> dict[int, bool]:
    """The brokers with whether each is fenced, as one broker describes the cluster."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response = cluster.node(broker_id).call(request)
    return {each.broker_id: each.is_fenced for each in response.brokers}


def unregister(cluster: Cluster, victim: int, through: int) -> UnregisterBrokerResponse:
    response: UnregisterBrokerResponse = cluster.node(through).call(UnregisterBrokerRequest(victim))
    return response


def test_every_broker_describes_the_quorum_and_checks_its_own_id(several: Several) -> None:
    with closing(Cluster(several.bootstrap, timeout_s=WAIT_S)) as cluster:
        cluster.refresh([])
        until(lambda: all(len(quorum_by(cluster, each).observers) == 2 for each in IDS))
        shown = [quorum_by(cluster, each) for each in IDS]
        leader = shown[0].leader_id
        for quorum in shown:
            assert (quorum.leader_id, quorum.leader_epoch) == (leader, shown[0].leader_epoch)
            assert [each.replica_id for each in quorum.current_voters] == [leader]
            assert sorted(each.replica_id for each in quorum.observers) == sorted({*IDS} - {leader})
            for observer in quorum.observers:
                assert observer.log_end_offset <= quorum.high_watermark
                assert observer.last_fetch_timestamp > 0
        for each in IDS:
            connection = cluster.node(each)
            errors = [
                connection.call(
                    ApiVersionsRequest("test", "1", cluster.cluster_id, node)
                ).error_code
                for node in IDS
            ]
            elsewhere = ErrorCode.REBOOTSTRAP_REQUIRED
            assert errors == [ErrorCode.NONE if node == each else elsewhere for node in IDS]


def test_broker_that_is_gone_is_fenced_until_it_is_unregistered(several: Several) -> None:
    with closing(Cluster(several.bootstrap, timeout_s=WAIT_S)) as cluster:
        cluster.refresh([])
        leader = quorum_by(cluster, 1).leader_id
        victim, other = sorted({*IDS} - {leader})
        until(lambda: brokers_seen_by(cluster, other) == dict.fromkeys(IDS, False))
        os.kill(several.pids[victim], signal.SIGKILL)
        gone = dict.fromkeys(IDS, False) | {victim: True}
        until(lambda: brokers_seen_by(cluster, other) == gone)

        assert unregister(cluster, victim, through=other).error_code == ErrorCode.NONE
        left = dict.fromkeys({*IDS} - {victim}, False)
        until(lambda: all(brokers_seen_by(cluster, each) == left for each in left))
        again = unregister(cluster, victim, through=other)
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert again.error_message == f"Broker ID {victim} is not currently registered"

        said = len(several.said)
        several.wait_for(f"broker {victim} was ended by SIGKILL")
        several.process.send_signal(signal.SIGHUP)
        several.wait_for(f"broker {victim} is ready", after=said)
        until(lambda: brokers_seen_by(cluster, other) == dict.fromkeys(IDS, False))
    assert several.end() == 0


def test_live_broker_that_is_unregistered_stops_and_another_is_the_controller(
    several: Several,
) -> None:
    with closing(Cluster(several.bootstrap, timeout_s=WAIT_S)) as cluster:
        cluster.refresh([])
        before = quorum_by(cluster, 1)
        victim = before.leader_id
        other = min({*IDS} - {victim})
        assert unregister(cluster, victim, through=other).error_code == ErrorCode.NONE
        several.wait_for(f"broker {victim} ended")
        assert "an administrator unregistered this broker" in several.said
        until(lambda: quorum_by(cluster, other).leader_id not in (victim, -1, 0))
        after = quorum_by(cluster, other)
        assert after.leader_epoch > before.leader_epoch
        assert after.high_watermark > before.high_watermark
        assert victim not in brokers_seen_by(cluster, other)
