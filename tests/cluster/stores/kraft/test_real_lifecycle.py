"""The life of a broker beside a real controller of Apache Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cluster.metadata.image import LOST, UNASSIGNED, Endpoint
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.assigning import DirectoryAssignments, request_of
from kwire.cluster.stores.kraft.controllers import ControllerChannel
from kwire.cluster.stores.kraft.lifecycle import (
    FEATURES,
    BrokerIdentity,
    Effect,
    Lifecycle,
    LifecycleLimits,
    Registered,
    Turn,
)
from kwire.cluster.stores.kraft.living import BrokerLife
from kwire.cluster.stores.kraft.producer_id_blocks import ProducerIdBlocks
from kwire.codecs.messages.broker_registration import BrokerRegistrationRequest
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.unregister_broker import UnregisterBrokerRequest
from kwire.conformance.apache_kafka import CLUSTER_ID
from tests.cluster.stores.kraft.real_controller import KafkaController
from tests.cluster.stores.kraft.test_link import Follower, observing

ANSWER_MS = 120_000
SESSION_MS = 3_000
SETTINGS = {"broker.session.timeout.ms": str(SESSION_MS)}
LIMITS = LifecycleLimits(heartbeat_interval_ms=300, session_timeout_ms=SESSION_MS)
IDENTITY = BrokerIdentity(
    CLUSTER_ID,
    1,
    b"1" * 16,
    (Endpoint("PLAINTEXT", "localhost", 9),),
    (b"a" * 16, b"b" * 16),
    "rack",
)


@dataclass
class Channel:
    """A channel to the controller that can be cut, and counts registrations."""

    inner: ControllerChannel
    registrations: int = 0
    is_open: trio.Event = field(default_factory=trio.Event)

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - of each API
        await self.is_open.wait()
        self.registrations += isinstance(request, BrokerRegistrationRequest)
        return await self.inner.call(request, timeout_ms)


@dataclass
class Stage:
    """A running broker, and what its image shows."""

    life: BrokerLife
    channel: Channel
    follower: Follower
    effects: list[Effect]

    async def shown(self, *, unfenced: bool) -> None:
        """Wait until the image has the broker unfenced, or fenced."""
        while (1 in self.follower.image.brokers) != unfenced:
            await self.follower.reached.wait()


@asynccontextmanager
async def living(
    follower: Follower, identity: BrokerIdentity = IDENTITY, previous_epoch: int = -1
) -> AsyncIterator[Stage]:
    channel = Channel(follower.link.channel("1", ANSWER_MS))
    channel.is_open.set()
    effects: list[Effect] = []
    life = BrokerLife(
        Lifecycle(identity, LIMITS, previous_epoch),
        channel,
        lambda: follower.image.version - 1,
        effects.append,
    )
    follower.link.watch(lambda image, delta: life.wake())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run)
        yield Stage(life, channel, follower, effects)
        nursery.cancel_scope.cancel()


async def refusal(follower: Follower, **other: Any) -> str:  # noqa: ANN401 - fields of the identity
    """Why a broker with another identity cannot register within two seconds."""
    lifecycle = Lifecycle(replace(IDENTITY, **other), replace(LIMITS, registration_timeout_ms=2000))
    life = BrokerLife(lifecycle, follower.link.channel("1", ANSWER_MS), lambda: 0)
    with pytest.raises(StoreError) as raised:
        await life.run()
    return str(raised.value)


async def check_life(stage: Stage) -> None:
    """The broker enters, is fenced by its silence, and comes back."""
    life, channel, follower = stage.life, stage.channel, stage.follower
    await life.wait_caught_up()
    fenced = follower.image.fenced[1]
    assert (fenced.epoch, fenced.incarnation, fenced.rack) == (life.epoch, b"1" * 16, "rack")
    assert fenced.directories == IDENTITY.directories
    assert dict(fenced.features) == dict(FEATURES)
    assert fenced.endpoints == IDENTITY.endpoints
    life.ready()
    await life.wait_unfenced()
    await stage.shown(unfenced=True)
    channel.is_open = trio.Event()
    await stage.shown(unfenced=False)
    assert not life.has_session
    channel.is_open.set()
    await stage.shown(unfenced=True)
    assert follower.image.brokers[1].epoch == life.epoch
    life.set_directories((), (b"b" * 16,))
    while follower.image.brokers[1].cordoned_directories != (b"b" * 16,):
        await follower.reached.wait()
    life.set_directories((b"b" * 16,), ())
    while follower.image.brokers[1].directories != (b"a" * 16,):
        await follower.reached.wait()
    assert channel.registrations == 1


async def check_services(stage: Stage) -> None:
    """The broker gets producer ids, and assigns replicas to a directory."""
    supply = ProducerIdBlocks(stage.channel, stage.life)
    assert await supply.allocate() == range(1000)
    assert await supply.allocate() == range(1000, 2000)


async def check_assignments(stage: Stage) -> None:
    """New replicas get the directory that the broker names."""
    follower = stage.follower
    request = CreateTopicsRequest(topics=[CreatableTopic("t", 3, 1)], timeout_ms=ANSWER_MS)
    answer = await stage.channel.call(request, ANSWER_MS)
    assert [topic.error_code for topic in answer.topics] == [0]
    while "t" not in follower.image.topics:
        await follower.reached.wait()
    topic = follower.image.topics["t"]
    assert {each.directories for each in topic.partitions} == {(UNASSIGNED,)}
    assignments = DirectoryAssignments(stage.channel, stage.life, lambda: follower.image)
    for index, directory in enumerate((b"a" * 16, b"b" * 16, b"a" * 16)):
        assignments.assign(topic.id, index, directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(assignments.run)
        while assignments.waiting:
            await follower.reached.wait()
        nursery.cancel_scope.cancel()
    while any(UNASSIGNED in each.directories for each in follower.image.topics["t"].partitions):
        await follower.reached.wait()
    directories = [each.directories for each in follower.image.topics["t"].partitions]
    assert directories == [(b"a" * 16,), (b"b" * 16,), (b"a" * 16,)]


async def check_lost_replica(stage: Stage) -> None:
    """A lost replica does not lead, and leads again by the second report of its directory."""
    follower, index = stage.follower, 1
    topic_id = follower.image.topics["t"].id

    async def report(directory: bytes) -> None:
        assignment = request_of(1, stage.life.epoch, {(topic_id, index): directory})
        answer = await stage.channel.call(assignment, ANSWER_MS)
        assert [each.error_code for each in answer.directories[0].topics[0].partitions] == [0]

    await report(LOST)
    while follower.image.leader_of("t", index) is not None:
        await follower.reached.wait()
    await report(b"b" * 16)
    while follower.image.topics["t"].partitions[index].directories != (b"b" * 16,):
        await follower.reached.wait()
    assert follower.image.leader_of("t", index) is None
    await report(b"b" * 16)
    while follower.image.leader_of("t", index) != 1:
        await follower.reached.wait()


async def check_refusals(follower: Follower) -> None:
    """Brokers that cannot enter while broker 1 lives say why."""
    said = await refusal(follower, incarnation=b"x" * 16, directories=(b"x" * 16,))
    assert "node.id 1 is registered by another process" in said
    said = await refusal(follower, cluster_id="other")
    assert "belong to another cluster than other" in said
    said = await refusal(follower, broker_id=2, incarnation=b"2" * 16)
    assert "another broker has registered a directory.id" in said
    features = {**FEATURES, "share.version": (0, 1)}
    said = await refusal(
        follower, broker_id=2, incarnation=b"2" * 16, directories=(b"x" * 16,), features=features
    )
    assert "does not support" in said
    assert "share.version 0-1" in said


@pytest.mark.java
@pytest.mark.slow
async def test_broker_lives_beside_a_real_controller(tmp_path: Path) -> None:
    kafka = KafkaController(tmp_path / "controller", settings=SETTINGS)
    folder = tmp_path / "observer"
    folder.mkdir()
    await trio.to_thread.run_sync(kafka.start)
    try:
        async with observing(folder, kafka.port, cluster_id=CLUSTER_ID) as follower:
            await follower.link.load()
            async with living(follower) as stage:
                await check_life(stage)
                await check_services(stage)
                await check_refusals(follower)
                first = stage.life.epoch
                assert await stage.life.leave()
                await stage.shown(unfenced=False)
            assert stage.effects[:3] == [Registered(first), Turn.CAUGHT_UP, Turn.UNFENCED]
            again = replace(IDENTITY, incarnation=b"2" * 16)
            async with living(follower, again, previous_epoch=first) as stage:
                second = await stage.life.wait_registered()
                assert second > first
                assert stage.channel.registrations > 1, "the session of the first process"
                stage.life.ready()
                await stage.life.wait_unfenced()
                await stage.shown(unfenced=True)
                await check_assignments(stage)
                await check_lost_replica(stage)
                partitions = follower.image.topics["t"].partitions
                assert {each.leader for each in partitions} == {1}
                answer = await stage.channel.call(UnregisterBrokerRequest(1), ANSWER_MS)
                assert answer.error_code == 0
                while 1 not in follower.image.brokers or stage.life.epoch == second:
                    await follower.reached.wait()
                assert follower.image.brokers[1].epoch == stage.life.epoch > second
                while follower.image.leader_of("t", 0) != 1:
                    await follower.reached.wait()
                assert await stage.life.leave(), "with leaders that have no successor"
                await stage.shown(unfenced=False)
                assert follower.image.leader_of("t", 0) is None
    finally:
        kafka.stop()
