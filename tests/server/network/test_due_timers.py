"""Timers that are due come before requests, and before them what puts them off.

Apache Kafka's threads race here: of ten stalls, eight heartbeats that lay in a socket kept their
member, and seven groups whose members' sessions had ended could be deleted.
"""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kwire.codecs.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kwire.codecs.primitives import Message
from kwire.server.network.readiness import ReadySockets, WaitingSockets
from tests.inside import RawClient, running_broker

SESSION_MS = 60_000
START_S = 1_800_000_000

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll here")
both_kinds = pytest.mark.parametrize(
    "kind", [pytest.param(ReadySockets, marks=needs_epoll), WaitingSockets]
)


class Member(NamedTuple):
    group: str
    client: RawClient
    heartbeat: HeartbeatRequest


async def a_member(broker: Broker, group: str) -> Member:
    """The only member of its group, whose session lasts SESSION_MS from now."""
    client = await RawClient.connect(broker)
    await client.ask(MetadataRequest(topics=[]), 1, MetadataResponse)  # as stock clients do first
    find = FindCoordinatorRequest(key=group)
    found = await client.ask(find, 1, FindCoordinatorResponse)
    assert found.error_code == ErrorCode.NONE
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    joined = await client.ask(join, 3, JoinGroupResponse)
    assert joined.error_code == ErrorCode.NONE
    ids = (group, joined.generation_id, joined.member_id)
    synced = await client.ask(SyncGroupRequest(*ids), 3, SyncGroupResponse)
    assert synced.error_code == ErrorCode.NONE
    return Member(group, client, HeartbeatRequest(*ids))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> trio.testing.MockClock:
    """The broker's time: it goes on as it does, and can be made to jump."""
    clock = trio.testing.MockClock(rate=1.0)
    wall = SimpleNamespace(time_ns=lambda: int((START_S + clock.current_time()) * 1e9))
    monkeypatch.setattr("kwire.broker.broker.time", wall)
    return clock


def stall(clock: trio.testing.MockClock, *requests: tuple[RawClient, Message, int]) -> None:
    """As if the process had been held until the sessions are over, and `requests` had come."""
    for client, request, version in requests:
        os.write(client.stream.socket.fileno(), client.frame(request, version))
    clock.jump(SESSION_MS / 1000)


@both_kinds
async def test_request_after_a_session_timeout_gets_its_result(
    tmp_path: Path, kind: type, clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.server.network.listener.ready_sockets", kind)
    async with running_broker(tmp_path) as broker:
        groups = [(await a_member(broker, f"group-{number}")).group for number in range(8)]
        admin = await RawClient.connect(broker)
        stall(clock, (admin, DeleteGroupsRequest(groups), 1))
        _, reply = await admin.receive(DeleteGroupsResponse, 1)
        assert {each.error_code for each in reply.results} == {ErrorCode.NONE}


@needs_epoll
async def test_unread_heartbeat_keeps_its_member_after_a_stall(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        members = [await a_member(broker, f"group-{number}") for number in range(8)]
        admin = await RawClient.connect(broker)
        requests: list[tuple[RawClient, Message, int]] = []
        requests.append((admin, DeleteGroupsRequest([member.group for member in members]), 1))
        for number, member in enumerate(members):
            if number % 2:  # behind another request of its connection, too
                requests.append((member.client, MetadataRequest(topics=[]), 1))
            requests.append((member.client, member.heartbeat, 3))
        stall(clock, *requests)
        for number, member in enumerate(members):
            if number % 2:
                await member.client.receive(MetadataResponse, 1)
            _, kept = await member.client.receive(HeartbeatResponse, 3)
            assert kept.error_code == ErrorCode.NONE, member.group
        _, reply = await admin.receive(DeleteGroupsResponse, 1)
        assert {each.error_code for each in reply.results} == {ErrorCode.NON_EMPTY_GROUP}


async def test_unread_end_txn_commits_after_the_transaction_timeout(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    """And not aborted, though its time is over and the look for such ones is due."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "30000"}
    async with running_broker(tmp_path, settings) as broker:
        client = await RawClient.connect(broker)
        await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 4, MetadataResponse)
        find = FindCoordinatorRequest(key="tid", key_type=1)
        found = await client.ask(find, 1, FindCoordinatorResponse)
        assert found.error_code == ErrorCode.NONE
        init = InitProducerIdRequest("tid", SESSION_MS)
        started = await client.ask(init, 1, InitProducerIdResponse)
        assert started.error_code == ErrorCode.NONE
        ids = ("tid", started.producer_id, started.producer_epoch)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tid",
            v3_and_below_producer_id=started.producer_id,
            v3_and_below_producer_epoch=started.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic("t", [0])],
        )
        added = await client.ask(add, 1, AddPartitionsToTxnResponse)
        [topic] = added.results_by_topic_v3_and_below
        assert {p.partition_error_code for p in topic.results_by_partition} == {ErrorCode.NONE}
        stall(clock, (client, EndTxnRequest(*ids, committed=True), 1))
        _, ended = await client.receive(EndTxnResponse, 1)
        assert ended.error_code == ErrorCode.NONE
