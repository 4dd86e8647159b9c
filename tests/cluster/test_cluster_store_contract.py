"""Tests of every kind of ClusterStore; the fixture `joined` makes them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
import trio.lowlevel

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
    SetFeatures,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.contract import ControllerGone, Fenced
from kwire.cluster.stores.deciding import commit_decided
from kwire.testing import ZooKeeperProcess
from tests.cluster.observing import broker
from tests.cluster.sharing import Holder, ObservedShared, holding
from tests.cluster.stores.zookeeper.stores import Observed, opened

Store: TypeAlias = Observed | ObservedShared
Join: TypeAlias = Callable[[int], AbstractAsyncContextManager[Store]]

STATE = PartitionImage(1, 0, 0, (1, 2), (1, 2), controller_epoch=1)
TOPIC = TopicImage("t", b"t" * 16, (STATE, STATE))
BROKER_RESOURCE = 4


@pytest.fixture(
    params=[
        "shared",
        "memory",
        pytest.param("zookeeper", marks=[pytest.mark.java, pytest.mark.slow]),
    ]
)
def join(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> Join:
    """Makes a broker a member of the cluster during a block; then closes its store."""
    if request.param == "shared":
        return _Sharing(tmp_path).join
    if request.param == "memory":
        request.getfixturevalue("ensemble")
        return _of_zookeeper("memory:2181")
    zookeeper: ZooKeeperProcess = request.getfixturevalue("zookeeper")
    return _of_zookeeper(zookeeper.connect(f"/{unique}"))


class _Sharing:
    """A holder from the first join to the end of the test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._holder: Holder | None = None
        self._started: trio.Event | None = None

    async def _hold(self) -> None:
        async with holding(self._directory) as self._holder:
            assert self._started is not None
            self._started.set()
            await trio.sleep_forever()

    @asynccontextmanager
    async def join(self, broker_id: int) -> AsyncIterator[ObservedShared]:
        if self._started is None:
            self._started = trio.Event()
            trio.lowlevel.spawn_system_task(self._hold)
        await self._started.wait()
        assert self._holder is not None
        store = await self._holder.broker(broker_id)
        yield store
        store.close()


def _of_zookeeper(connect: str) -> Join:
    @asynccontextmanager
    async def join(broker_id: int) -> AsyncIterator[Observed]:
        async with opened(connect, broker_id, has_acls=True) as store:
            await store.register(broker(broker_id))
            yield store

    return join


async def test_member_gets_a_higher_epoch_and_leaves_with_its_store(join: Join) -> None:
    async with join(2) as second:
        async with join(1) as first:
            image = await second.shows(lambda image: set(image.brokers) == {1, 2})
            assert replace(image.brokers[1], epoch=-1) == broker(1)
            assert 0 <= image.brokers[2].epoch < image.brokers[1].epoch
            await first.shows(lambda known: known.brokers == image.brokers)
        await second.shows(lambda known: set(known.brokers) == {2})
        async with join(1):
            known = await second.shows(lambda known: 1 in known.brokers)
            assert known.brokers[1].epoch > image.brokers[1].epoch


async def test_broker_that_registers_again_changes_its_addresses(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        moved = replace(broker(1), rack="elsewhere", endpoints=broker(7).endpoints)
        known = (await first.register(moved)).brokers[1]
        assert replace(known, epoch=-1) == moved
        await second.shows(lambda image: image.brokers.get(1) == known)


async def test_has_topics_is_true_at_every_broker(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        assert await first.campaign()
        assert not await second.has_topics()
        await first.commit([CreateTopic(TOPIC)])
        await second.shows(lambda image: image.controller_id == 1)
        assert await second.has_topics()


async def test_next_broker_is_elected_when_the_controller_leaves(join: Join) -> None:
    async with join(2) as second:
        async with join(1) as first:
            assert await first.campaign()
            assert await first.campaign() is not await second.campaign()
            epoch = first.image.controller_epoch
            assert first.image.controller_id == 1
            known = await second.shows(lambda image: image.controller_id == 1)
            assert known.controller_epoch == epoch
        await second.next_event(ControllerGone)
        assert await second.campaign()
        image = await second.load()
        assert (image.controller_id, image.controller_epoch) == (2, epoch + 1)


async def test_concurrent_campaigns_elect_one_controller(join: Join) -> None:
    won: list[bool] = []
    over = trio.Event()

    async def run(number: int) -> None:
        async with join(number) as store:
            won.append(await store.campaign())
            if len(won) == 5:
                over.set()
            await over.wait()

    async with trio.open_nursery() as nursery:
        for number in range(1, 6):
            nursery.start_soon(run, number)
    assert sorted(won) == [False, False, False, False, True]


async def test_topic_change_of_another_broker_is_fenced(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        with pytest.raises(Fenced):
            await second.commit([CreateTopic(TOPIC)])
        assert await first.campaign()
        with pytest.raises(Fenced):
            await second.commit([CreateTopic(TOPIC)])
        await first.commit([CreateTopic(TOPIC)])
        for change in (
            AlterPartition("t", TOPIC.id, 0, 0, replace(STATE, partition_epoch=1)),
            AddPartitions("t", TOPIC.id, 2, (STATE,)),
            MarkForDeletion("t", TOPIC.id),
            DeleteTopic("t", TOPIC.id),
        ):
            with pytest.raises((Fenced, Conflict)):
                await second.commit([change])
        assert (await first.load()).topics["t"] == TOPIC


async def test_next_controller_reads_the_topics_of_the_last_one(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        await first.campaign()
        await first.commit([CreateTopic(TOPIC, {"retention.ms": "7"})])
        moving = replace(STATE, partition_epoch=1, replicas=(3, 1, 2), adding=(3,), leader_epoch=1)
        alone = replace(moving, leader=2, isr=(2,), partition_epoch=2, leader_epoch=2)
        changes: list[Change] = [
            AddPartitions("t", TOPIC.id, 2, (replace(STATE, recovering=True),)),
            AlterPartition("t", TOPIC.id, 1, 0, moving),
            AlterPartition("t", TOPIC.id, 1, 1, alone),
            CreateTopic(replace(TOPIC, name="u", id=b"u" * 16)),
            MarkForDeletion("u", b"u" * 16),
            CreateTopic(replace(TOPIC, name="v", id=b"v" * 16), {"a": "b"}),
            DeleteTopic("v", b"v" * 16),
        ]
        made = await first.commit(changes)
        assert made.topics["t"].partitions == (STATE, alone, replace(STATE, recovering=True))
        assert made.deleting == {"u"}
        await first.resign()
        await second.next_event(ControllerGone)
        assert await second.campaign()
        image = await second.load()
        assert _topics(image) == _topics(made)
        assert image.configs == made.configs
        assert image.deleting == made.deleting


async def test_commit_of_an_earlier_controller_is_fenced(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        await first.campaign()
        await first.commit([CreateTopic(TOPIC)])
        await first.resign()
        with pytest.raises(Fenced):
            await first.commit([DeleteTopic("t", TOPIC.id)])
        await second.next_event(ControllerGone)
        assert await second.campaign()
        with pytest.raises(Fenced):
            await first.commit([DeleteTopic("t", TOPIC.id)])
        image = await second.load()
        assert image.topics["t"] == TOPIC
        assert not await first.campaign()
        await second.resign()
        assert await first.campaign()
        assert (await first.load()).controller_epoch == image.controller_epoch + 1


async def test_config_change_of_any_broker_reaches_all_brokers(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        await first.campaign()
        await first.commit([CreateTopic(TOPIC, {"retention.ms": "1"})])
        await second.read_configs([(TOPIC_RESOURCE, "t")])
        assert second.image.configs_of(TOPIC_RESOURCE, "t") == {"retention.ms": "1"}
        longer = SetConfigs(TOPIC_RESOURCE, "t", {"retention.ms": "1"}, {"retention.ms": "2"})
        default = SetConfigs(BROKER_RESOURCE, "", {}, {"log.cleaner.threads": "2"})
        await second.commit([longer, default])
        image = await first.shows(lambda image: bool(image.configs_of(BROKER_RESOURCE, "")))
        assert image.configs_of(TOPIC_RESOURCE, "t") == {"retention.ms": "2"}
        none = SetConfigs(BROKER_RESOURCE, "", {"log.cleaner.threads": "2"}, {})
        await first.commit([none])
        await second.shows(lambda image: not image.configs_of(BROKER_RESOURCE, ""))
        with pytest.raises(Conflict):
            await second.commit([SetConfigs(TOPIC_RESOURCE, "none", {}, {"retention.ms": "1"})])


async def test_concurrent_config_change_is_a_conflict_and_decided_again(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        conflicts: list[str] = []

        async def count(store: Store) -> None:
            """Raise a number ten times, each time from its present value."""
            for _ in range(10):
                while True:
                    before = (await store.load()).configs_of(BROKER_RESOURCE, "1")
                    after = {"n": str(int(before.get("n", "0")) + 1)}
                    try:
                        await store.commit([SetConfigs(BROKER_RESOURCE, "1", before, after)])
                    except Conflict:
                        conflicts.append(after["n"])
                        await trio.lowlevel.checkpoint()
                        continue
                    break

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, first)
            nursery.start_soon(count, second)
        for store in (first, second):
            await store.shows(lambda image: image.configs_of(BROKER_RESOURCE, "1") == {"n": "20"})


async def test_access_control_entries_of_several_brokers_are_all_kept(join: Join) -> None:
    """Brokers add entries to one list at the same time, and get those of the others."""
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
    async with join(1) as first, join(2) as second:

        async def add(store: Store) -> None:
            for number in range(10):
                name = f"User:{store is first}-{number}"
                entry = AccessControlEntry(name, "*", AclOperation.READ, AclPermissionType.ALLOW)

                def decide(
                    image: ClusterImage, entry: AccessControlEntry = entry
                ) -> ChangeAcls | None:
                    there = entry in image.acls_on(pattern)
                    return None if there else ChangeAcls(pattern, (entry,))

                await commit_decided(store, lambda: store.image, [decide])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(add, first)
            nursery.start_soon(add, second)
        for store in (first, second):
            await store.shows(lambda image: len(image.acls_on(pattern)) == 20)
        gone = ChangeAcls(pattern, (), (*first.image.acls_on(pattern),))
        await first.commit([gone])
        await second.shows(lambda image: not image.acls)
        async with join(3) as third:
            assert not third.image.acls


async def test_partition_change_with_another_epoch_is_a_conflict(join: Join) -> None:
    async with join(1) as store:
        await store.campaign()
        await store.commit([CreateTopic(TOPIC)])
        first = replace(STATE, partition_epoch=1, isr=(1,))
        image = await store.commit([AlterPartition("t", TOPIC.id, 0, 0, first)])
        assert image.topics["t"].partitions == (first, STATE)
        with pytest.raises(Conflict) as conflict:
            await store.commit(
                [
                    AlterPartition("t", TOPIC.id, 1, 0, first),
                    AlterPartition("t", TOPIC.id, 0, 0, first),
                ]
            )
        states = (await store.load()).topics["t"].partitions
        assert states == (first, first if conflict.value.made else STATE)


async def test_recreated_topic_is_a_different_topic(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        await first.campaign()
        await first.commit([CreateTopic(TOPIC, {"a": "b"})])
        await first.commit([MarkForDeletion("t", TOPIC.id), DeleteTopic("t", TOPIC.id)])
        again = TopicImage("t", b"2" * 16, (STATE,))
        image = await first.commit([CreateTopic(again)])
        assert image.topics["t"] == again
        assert not image.configs_of(TOPIC_RESOURCE, "t")
        assert not image.deleting
        with pytest.raises(Conflict):
            await first.commit([DeleteTopic("t", TOPIC.id)])
        await first.resign()
        await second.next_event(ControllerGone)
        assert await second.campaign()
        assert _topics(await second.load()) == {"t": again}


async def test_producer_ids_of_several_brokers_never_overlap(join: Join) -> None:
    given: list[int] = []

    async def take(store: Store) -> None:
        for count in (1, 1000, 10):
            given.extend(await store.allocate_producer_ids(count))

    async with join(1) as first, join(2) as second, trio.open_nursery() as nursery:
        for store in (first, second, first, second):
            nursery.start_soon(take, store)
    assert len(given) == len(set(given)) == 4 * 1011


async def test_changes_of_successive_controllers_reach_all_watchers_in_order(
    join: Join, rng: random.Random
) -> None:
    """Random changes by two controllers in turn: each reads what the other one wrote."""
    async with join(1) as first, join(2) as second:
        stores: list[Store] = [first, second]
        expected: ClusterImage | None = None
        for _ in range(8):
            leader, other = stores
            await leader.shows(lambda image: image.controller_id == NO_CONTROLLER)
            assert await leader.campaign()
            if expected is not None:
                assert _topics(leader.image) == _topics(expected)
                assert leader.image.configs == expected.configs
                assert leader.image.deleting == expected.deleting
            for _ in range(6):
                change = _random_change(rng, leader.image)
                store = other if isinstance(change, SetConfigs) else leader
                await store.read_configs([(TOPIC_RESOURCE, name) for name in "abc"])
                try:
                    await store.commit([change])
                except Conflict:
                    assert isinstance(change, SetConfigs)
            await leader.read_configs([(TOPIC_RESOURCE, name) for name in "abc"])
            expected = await leader.load()
            await leader.resign()
            stores.reverse()


def _random_change(rng: random.Random, image: ClusterImage) -> Change:
    name = rng.choice("abc")
    topic = image.topics.get(name)
    if topic is None:
        states = (STATE,) * rng.randint(1, 3)
        return CreateTopic(TopicImage(name, rng.randbytes(16), states), {"n": str(rng.random())})
    index = rng.randrange(len(topic.partitions))
    before = topic.partitions[index]
    epoch = before.partition_epoch
    state = replace(before, leader=rng.choice((-1, 1, 2)), partition_epoch=epoch + 1)
    moving = replace(state, replicas=(3, 1, 2), adding=(3,))
    configs = image.configs_of(TOPIC_RESOURCE, name)
    return rng.choice(
        (
            AlterPartition(name, topic.id, index, epoch, state),
            AlterPartition(name, topic.id, index, epoch, moving),
            AddPartitions(name, topic.id, len(topic.partitions), (STATE,)),
            SetConfigs(TOPIC_RESOURCE, name, configs, {"n": str(rng.random())}),
            SetConfigs(TOPIC_RESOURCE, name, configs, {}),
            MarkForDeletion(name, topic.id),
            DeleteTopic(name, topic.id),
        )
    )


def _topics(image: ClusterImage) -> dict[str, TopicImage]:
    return dict(image.topics.items())


async def test_feature_change_of_any_broker_reaches_all_brokers(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        assert await first.campaign()
        before = (await second.shows(lambda image: image.features.epoch >= 0)).features
        after = FinalizedFeatures({"a": 1, "b": 0}, before.agreed, before.epoch + 1)
        await second.commit([SetFeatures(before.epoch, after)])
        for store in (first, second):
            await store.shows(lambda image: image.features == after)
        with pytest.raises(Conflict):
            await first.commit([SetFeatures(before.epoch, replace(after, asked={}))])
        assert (await first.load()).features == after
    async with join(3) as third:
        await third.shows(lambda image: image.features == after)


async def test_concurrent_feature_change_is_a_conflict(join: Join) -> None:
    async with join(1) as first, join(2) as second:
        assert await first.campaign()
        before = (await second.shows(lambda image: image.features.epoch >= 0)).features
        conflicts: list[Conflict] = []

        async def commit(store: Store, level: int) -> None:
            after = FinalizedFeatures({"a": level}, before.agreed, before.epoch + 1)
            try:
                await store.commit([SetFeatures(before.epoch, after)])
            except Conflict as conflict:
                conflicts.append(conflict)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit, first, 1)
            nursery.start_soon(commit, second, 2)
        assert len(conflicts) == 1
        now = (await first.load()).features
        assert now.epoch == before.epoch + 1
        await second.shows(lambda image: image.features == now)
