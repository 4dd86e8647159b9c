"""A broker without a registration leads and follows nothing until the next LeaderAndIsr."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.cluster.replication.cluster import TOPIC, Controller, Member, cluster
from tests.inside import is_waited_for, until

pytestmark = pytest.mark.slow


def requests_of(member: Member) -> ControllerRequests:
    assert member.broker.membership.controller_requests is not None
    return member.broker.membership.controller_requests


async def test_stepping_down_answers_waiting_requests(tmp_path: Path) -> None:
    """The follower does not fetch, so nothing is committed and all three requests wait."""
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a")
        await controller.stop_replica(2, delete=False)
        leader = controller.members[1]
        partition, broker = leader.partition(), leader.broker
        answers: dict[str, int] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_produce, controller, answers)
            nursery.start_soon(_delete_records, controller, answers)
            nursery.start_soon(_fetch, controller, answers)
            await until(lambda: partition.log_end_offset == 2 and is_waited_for(broker, TOPIC))
            await until(lambda: partition.log_start_offset == 1)
            assert answers == {}
            leader.host.changes.clear()
            requests_of(leader).step_down()
        assert answers == dict.fromkeys(
            ("produce", "fetch", "delete records"), ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert leader.host.changes == [False]
        assert await controller.produce(1, b"b") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_stepped_down_leader_leads_again_in_the_same_epoch(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"a")
        leader = controller.members[1]
        requests_of(leader).step_down()
        controller.state.leader_epoch -= 1
        assert await controller.tell(1) == ErrorCode.STALE_CONTROLLER_EPOCH
        controller.state.leader_epoch += 1
        assert not leader.partition().is_leader
        assert await controller.tell(1) == ErrorCode.NONE
        assert leader.host.changes[-2:] == [False, True]
        assert await controller.produce(1, b"b") == (ErrorCode.NONE, 1)
        await controller.until_equal(1, 2)
        assert controller.epochs_of(2) == [(1, 0), (1, 1)]
        assert await controller.tell(1) == ErrorCode.STALE_CONTROLLER_EPOCH


async def test_stepped_down_follower_follows_again_in_the_same_epoch(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1], [1, 2])
        await controller.produce(1, b"a", acks=1)
        follower = controller.members[2]
        await until(lambda: follower.partition().log_end_offset == 1)
        await until(lambda: set(controller.state.isr) == {1, 2})
        requests_of(follower).step_down()
        assert follower.host.changes == []
        await controller.produce(1, b"b", acks=1)
        assert follower.partition().log_end_offset == 1
        assert await controller.tell(2) == ErrorCode.NONE
        await controller.until_equal(1, 2)


async def test_request_to_the_lost_registration_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        leader = controller.members[1]
        leader.host.broker_epoch = 20
        controller.state.leader_epoch += 1
        assert await controller.tell(1, broker_epoch=20) == ErrorCode.NONE
        requests_of(leader).step_down()
        assert await controller.tell(1, broker_epoch=20) == ErrorCode.STALE_BROKER_EPOCH
        assert not leader.partition().is_leader
        leader.host.broker_epoch = 25
        assert await controller.tell(1, broker_epoch=25) == ErrorCode.NONE
        assert leader.partition().is_leader


async def _produce(controller: Controller, answers: dict[str, int]) -> None:
    answers["produce"], _ = await controller.produce(1, b"b")


async def _delete_records(controller: Controller, answers: dict[str, int]) -> None:
    asked = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])
    request = DeleteRecordsRequest(topics=[asked], timeout_ms=60_000)
    answer = await controller.ask(1, request, 2, DeleteRecordsResponse)
    answers["delete records"] = answer.topics[0].partitions[0].error_code


async def _fetch(controller: Controller, answers: dict[str, int]) -> None:
    asked = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(TOPIC, partitions=[asked])],
    )
    answer = await controller.ask(1, request, 11, FetchResponse)
    answers["fetch"] = answer.responses[0].partitions[0].error_code
