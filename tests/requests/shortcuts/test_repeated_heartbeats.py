"""Repeated heartbeats get the response of the handler, and keep the session of their member."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.cluster.membership.committing import create_internal_topic
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.groups.timers import SessionTimer
from kwire.requests.shortcuts.heartbeat import RepeatedConsumerGroupHeartbeat, RepeatedHeartbeat
from kwire.settings.resources import ConfigResourceType
from tests.inside import RawClient, running_broker

GROUP = "g"
SETTINGS = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.fixture(params=[RepeatedHeartbeat, RepeatedConsumerGroupHeartbeat])
def shortcut(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - one of the two
    return request.param


def wrap_answers(
    monkeypatch: pytest.MonkeyPatch, wrapper: Callable[[Callable[[], object], Broker], object]
) -> None:
    """Let `wrapper` decide about the answers of both shortcuts; it gets a call of the real one."""
    for shortcut in (RepeatedHeartbeat, RepeatedConsumerGroupHeartbeat):
        real: Callable[..., object] = shortcut.answer

        def answer(
            self: object,
            frame: memoryview,
            broker: Broker,
            real: Callable[..., object] = real,
        ) -> object:
            return wrapper(lambda: real(self, frame, broker), broker)

        monkeypatch.setattr(shortcut, "answer", answer)


@pytest.fixture
def thorough(monkeypatch: pytest.MonkeyPatch) -> set[Broker]:
    """The brokers whose heartbeats all go to the handler."""
    brokers: set[Broker] = set()
    wrap_answers(monkeypatch, lambda answer, broker: None if broker in brokers else answer())
    return brokers


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a shortcut answered, for each heartbeat that reached one."""
    went: list[bool] = []

    def counted(answer: Callable[[], object], _: Broker) -> object:
        reply = answer()
        went.append(reply is not None)
        return reply

    wrap_answers(monkeypatch, counted)
    return went


@asynccontextmanager
async def broker_with_topic(directory: Path) -> AsyncIterator[Broker]:
    async with running_broker(directory, SETTINGS) as broker:
        client = await RawClient.connect(broker)
        topic = CreatableTopic(name="t", num_partitions=4, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        await client.ask(request, 7, CreateTopicsResponse)
        await create_internal_topic(broker.membership, "__consumer_offsets")
        yield broker


def session_ends_at_ms(broker: Broker, member_id: str) -> float:
    (shard,) = broker.coordinators.groups.runtime.shards.values()
    return shard._timers[SessionTimer(GROUP, member_id).key].when_ms


class ConsumerMember:
    """A member of the consumer protocol on a connection of its own."""

    VERSION = 1

    def __init__(self, client: RawClient, member_id: str) -> None:
        self.client = client
        self.member_id = member_id
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.reports = False

    async def ask(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:  # noqa: ANN401 - of many types
        request = ConsumerGroupHeartbeatRequest(GROUP, self.member_id, **fields)
        reply = await self.client.ask(request, self.VERSION, ConsumerGroupHeartbeatResponse)
        if reply.error_code == ErrorCode.NONE:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned, self.reports = reply.assignment.topic_partitions, True
        return reply

    async def join(self) -> ConsumerGroupHeartbeatResponse:
        return await self.ask(
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )

    async def leave(self) -> ConsumerGroupHeartbeatResponse:
        return await self.ask(member_epoch=-1)

    async def beat(self) -> ConsumerGroupHeartbeatResponse:
        """As stock clients: the partitions are reported once after each new assignment."""
        owned = self.owned if self.reports else None
        self.reports = False
        return await self.ask(member_epoch=self.epoch, topic_partitions=owned)


def told(reply: ConsumerGroupHeartbeatResponse) -> tuple[object, ...]:
    """What a response says, without the topic's id, which is random."""
    assignment = None
    if reply.assignment is not None:
        assignment = [each.partitions for each in reply.assignment.topic_partitions]
    return reply.error_code, reply.member_epoch, reply.heartbeat_interval_ms, assignment


async def add_partition(client: RawClient, count: int) -> None:
    topic = CreatePartitionsTopic(name="t", count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000)
    reply = await client.ask(request, 3, CreatePartitionsResponse)
    assert reply.results[0].error_code == ErrorCode.NONE


async def set_of_group(client: RawClient, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(int(ConfigResourceType.GROUP), GROUP, [config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    reply = await client.ask(request, 1, IncrementalAlterConfigsResponse)
    assert reply.responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("seed", range(3))
async def test_shortcut_and_handler_answer_a_random_consumer_group_alike(
    tmp_path: Path, thorough: set[Broker], quick: list[bool], seed: int
) -> None:
    draw = random.Random(seed)
    async with (
        broker_with_topic(tmp_path / "quick") as first,
        broker_with_topic(tmp_path / "thorough") as second,
    ):
        thorough.add(second)
        admins = [await RawClient.connect(broker) for broker in (first, second)]
        twins = [
            [ConsumerMember(await RawClient.connect(broker), f"m{n}") for broker in (first, second)]
            for n in range(3)
        ]
        partitions, intervals = 4, 0
        for step in range(120):
            twin = draw.choice(twins)
            match draw.choices(["beat", "join", "leave", "topic", "interval"], [90, 6, 2, 2, 2])[0]:
                case "beat":
                    replies = [await member.beat() for member in twin]
                case "join":
                    replies = [await member.join() for member in twin]
                case "leave":
                    replies = [await member.leave() for member in twin]
                case "topic":
                    partitions += 1
                    for admin in admins:
                        await add_partition(admin, partitions)
                    continue
                case _:
                    intervals += 1
                    value = str(5_000 + intervals)
                    for admin in admins:
                        await set_of_group(admin, "consumer.heartbeat.interval.ms", value)
                    continue
            assert told(replies[0]) == told(replies[1]), (seed, step)
    assert quick.count(True) > 20


class ClassicMember:
    """A member of the classic protocol on a connection of its own."""

    def __init__(self, client: RawClient, instance_id: str | None) -> None:
        self.client = client
        self.instance_id = instance_id
        self.member_id = ""
        self.generation_id = -1
        self.leads = False

    async def join(self) -> ErrorCode:
        """Join, and return when the next generation begins."""
        while True:
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", b"")],
            )
            joined = await self.client.ask(request, 7, JoinGroupResponse)
            self.member_id = joined.member_id
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        self.generation_id = joined.generation_id
        self.leads = joined.leader == joined.member_id
        return ErrorCode(joined.error_code)

    async def sync(self) -> ErrorCode:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(self.member_id, b"a")] if self.leads else [],
        )
        return ErrorCode((await self.client.ask(request, 5, SyncGroupResponse)).error_code)

    async def beat(self) -> ErrorCode:
        request = HeartbeatRequest(GROUP, self.generation_id, self.member_id, self.instance_id)
        return ErrorCode((await self.client.ask(request, 4, HeartbeatResponse)).error_code)

    async def leave(self) -> ErrorCode:
        identity = MemberIdentity(self.member_id, self.instance_id)
        request = LeaveGroupRequest(GROUP, members=[identity])
        return ErrorCode((await self.client.ask(request, 4, LeaveGroupResponse)).error_code)


async def rejoin(members: list[ClassicMember]) -> None:
    """Let all join, then all sync."""
    for step in (ClassicMember.join, ClassicMember.sync):
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(step, member)


@pytest.mark.parametrize("instance_id", [None, "i"], ids=["dynamic", "static"])
async def test_shortcut_and_handler_answer_a_classic_group_alike(
    tmp_path: Path, thorough: set[Broker], quick: list[bool], instance_id: str | None
) -> None:
    async with broker_with_topic(tmp_path) as broker:
        waiting = ClassicMember(await RawClient.connect(broker), None)
        member = ClassicMember(await RawClient.connect(broker), instance_id)
        await rejoin([member])

        async def beats() -> list[ErrorCode]:
            """Two that may repeat the last one, then one that the handler answers."""
            errors = [await member.beat() for _ in range(2)]
            thorough.add(broker)
            errors.append(await member.beat())
            thorough.clear()
            return errors

        assert await beats() == [ErrorCode.NONE] * 3
        assert quick.count(True) == 1  # the first is learnt, the second repeats it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.join)
            while await member.beat() == ErrorCode.NONE:  # noqa: ASYNC110 - the join is on its way
                await trio.sleep(0.001)
            assert await beats() == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
            await member.join()
        assert await beats() == [ErrorCode.NONE] * 3
        await member.sync()
        before = quick.count(True)
        assert await beats() == [ErrorCode.NONE] * 3
        assert quick.count(True) == before + 2
        member.generation_id -= 1
        assert await beats() == [ErrorCode.ILLEGAL_GENERATION] * 3
        member.generation_id += 1
        assert await beats() == [ErrorCode.NONE] * 3
        await member.leave()
        assert await beats() == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


async def member_of(broker: Broker, shortcut: object) -> ConsumerMember | ClassicMember:
    """A member whose next heartbeat the shortcut answers."""
    client = await RawClient.connect(broker)
    member: ConsumerMember | ClassicMember
    if shortcut is RepeatedHeartbeat:
        member = ClassicMember(client, None)
        await rejoin([member])
    else:
        member = ConsumerMember(client, "m")
        await member.join()
    for _ in range(3):
        await member.beat()
    return member


async def test_repeated_heartbeat_puts_off_the_end_of_the_session(
    tmp_path: Path, quick: list[bool], shortcut: object
) -> None:
    async with broker_with_topic(tmp_path) as broker:
        member = await member_of(broker, shortcut)
        for _ in range(2):
            quick.clear()
            before_ms = session_ends_at_ms(broker, member.member_id)
            await trio.sleep(0.01)
            await member.beat()
            assert quick == [True]
            assert session_ends_at_ms(broker, member.member_id) >= before_ms + 10


async def test_heartbeat_goes_to_the_handler_if_the_broker_no_longer_leads_its_group(
    tmp_path: Path, quick: list[bool], shortcut: object
) -> None:
    async with broker_with_topic(tmp_path) as broker:
        member = await member_of(broker, shortcut)
        quick.clear()
        broker.coordinators.groups.resign(0)
        reply = await member.beat()
        error = reply if isinstance(reply, ErrorCode) else reply.error_code
        assert (error, quick) == (ErrorCode.NOT_COORDINATOR, [False])


async def test_heartbeat_goes_to_the_handler_while_records_of_its_partition_are_not_committed(
    tmp_path: Path, quick: list[bool], shortcut: object
) -> None:
    async with broker_with_topic(tmp_path) as broker:
        member = await member_of(broker, shortcut)
        quick.clear()
        (shard,) = broker.coordinators.groups.runtime.shards.values()
        written = shard._written_offset
        shard._written_offset += 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.beat)
            while not quick:  # noqa: ASYNC110 - the request is on its way
                await trio.sleep(0.001)
            assert quick == [False]
            shard._written_offset = written
            nursery.cancel_scope.cancel()


async def test_changed_client_of_a_consumer_member_reaches_the_handler(
    tmp_path: Path, quick: list[bool]
) -> None:
    """A member that heartbeats on two connections in turn: each changes its client id."""
    async with broker_with_topic(tmp_path) as broker:
        member = ConsumerMember(await RawClient.connect(broker, "a"), "m")
        await member.join()
        clients = [member.client, await RawClient.connect(broker, "b")]
        group: Any = None
        for turn in range(6):
            member.client = clients[turn % 2]
            await member.beat()
            (shard,) = broker.coordinators.groups.runtime.shards.values()
            group = shard.machine.groups[GROUP]
            assert group.members["m"].client_id == "ab"[turn % 2]
        assert not any(quick)
