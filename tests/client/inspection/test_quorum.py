"""The quorum of a cluster's metadata, from responses of all kinds and of brokers of both kinds."""

from __future__ import annotations

from typing import cast

import pytest

from kwire.client.cluster import Cluster
from kwire.client.connection import BrokerConnection
from kwire.client.errors import BrokerRefused, UnsupportedRequest
from kwire.client.inspection.quorum import SILENT_S_MAX, ControllerQuorum, QuorumMember, quorum_of
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.primitives import ZERO_UUID

NOW_MS = 1_700_000_000_000


class Answering:
    """A connection that answers everything with one response, or raises an error."""

    def __init__(self, answer: DescribeQuorumResponse | Exception) -> None:
        self.answer = answer

    def call(self, request: object) -> DescribeQuorumResponse:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asked(answer: DescribeQuorumResponse | Exception) -> ControllerQuorum | None:
    return quorum_of(cast("BrokerConnection", Answering(answer)))


def described(partition: ResponsePartitionData, *nodes: Node) -> DescribeQuorumResponse:
    topics = [ResponseTopicData("__cluster_metadata", [partition])]
    return DescribeQuorumResponse(topics=topics, nodes=list(nodes))


def state(member: int, end_offset: int, caught_up_ms: int) -> ReplicaState:
    return ReplicaState(member, ZERO_UUID, end_offset, caught_up_ms, caught_up_ms)


def test_quorum_tells_how_far_each_member_is_behind_the_leader() -> None:
    partition = ResponsePartitionData(
        leader_id=102,
        leader_epoch=7,
        high_watermark=90,
        current_voters=[state(102, 100, NOW_MS), state(101, 98, NOW_MS - 1500)],
        observers=[state(2, 90, NOW_MS - 400), state(1, 100, NOW_MS), state(3, 5, -1)],
    )
    quorum = asked(described(partition, Node(101, [Listener("CONTROLLER", "h", 9093)])))
    assert quorum is not None
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (102, 7, 90)
    assert quorum.voters == [
        QuorumMember(101, True, 98, 2, 1.5, "h:9093"),
        QuorumMember(102, True, 100, 0, 0.0, None),
    ]
    assert quorum.observers == [
        QuorumMember(1, False, 100, 0, 0.0),
        QuorumMember(2, False, 90, 10, 0.4),
        QuorumMember(3, False, 5, 95, None),
    ]
    assert [each.member_id for each in quorum.members] == [101, 102, 1, 2, 3]


def test_voters_that_have_not_caught_up_for_long_are_silent() -> None:
    late_ms = NOW_MS - int(SILENT_S_MAX * 1000)
    partition = ResponsePartitionData(
        leader_id=101,
        current_voters=[
            state(101, 100, NOW_MS),
            state(102, 90, late_ms),
            state(103, 90, late_ms - 1),
            state(104, 0, -1),
        ],
        observers=[state(1, 0, -1)],
    )
    quorum = asked(described(partition))
    assert quorum is not None
    assert [each.member_id for each in quorum.silent_voters] == [103, 104]


def test_no_voter_is_silent_if_the_leader_reports_no_times() -> None:
    partition = ResponsePartitionData(
        leader_id=101, current_voters=[state(101, 9, -1), state(102, 8, -1)]
    )
    quorum = asked(described(partition))
    assert quorum is not None
    assert quorum.silent_voters == []


def test_leader_that_is_no_voter_any_longer_is_taken_at_the_high_watermark() -> None:
    partition = ResponsePartitionData(
        leader_id=101, high_watermark=50, current_voters=[state(102, 45, NOW_MS)]
    )
    quorum = asked(described(partition))
    assert quorum is not None
    assert [(each.member_id, each.records_behind) for each in quorum.voters] == [(102, 5)]


def test_cluster_without_the_request_has_no_quorum() -> None:
    assert asked(UnsupportedRequest("no version")) is None


@pytest.mark.parametrize(
    "answer",
    [
        DescribeQuorumResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        described(ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    ],
)
def test_quorum_that_cannot_be_described_is_an_error(answer: DescribeQuorumResponse) -> None:
    with pytest.raises(BrokerRefused, match="the quorum"):
        asked(answer)


def test_quorum_of_a_single_node_is_led_by_its_only_voter(cluster: Cluster) -> None:
    quorum = quorum_of(cluster.any())
    assert quorum is not None
    [voter] = quorum.voters
    assert (voter.member_id, voter.records_behind, voter.seconds_behind) == (
        quorum.leader_id,
        0,
        0.0,
    )
    assert voter.end_offset >= quorum.high_watermark
    assert quorum.silent_voters == []
