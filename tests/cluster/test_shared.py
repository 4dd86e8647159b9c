"""Shared store: members, the controller, and changes that reach all brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.changes import (
    AlterPartition,
    Conflict,
    CreateTopic,
    MarkForDeletion,
    SetConfigs,
)
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.contract import (
    BrokerEnded,
    ControllerGone,
    Fenced,
    SessionLost,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.shared.store import SharedStore
from tests.cluster.observing import broker
from tests.cluster.sharing import holding

STATE = PartitionImage(1, 0, 0, (1, 2), (1, 2))
TOPIC = TopicImage("t", b"t" * 16, (STATE,))
GROUP_RESOURCE = 32


async def image_where(store: SharedStore, wanted: object) -> ClusterImage:
    """Wait for an image of a store for which `wanted` holds."""
    assert callable(wanted)
    changed = trio.Event()
    store.watch(lambda image, delta: changed.set())
    while not wanted(image := await store.load()):
        await changed.wait()
        changed = trio.Event()
    return image


async def test_change_of_one_broker_reaches_all_brokers(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        deltas: list[ClusterDelta] = []
        second.watch(lambda image, delta: deltas.append(delta))
        assert await first.campaign()
        made = await first.commit([CreateTopic(TOPIC, {"x": "1"})])
        changed = replace(STATE, leader=2, leader_epoch=1, partition_epoch=1)
        last = await first.commit([AlterPartition("t", TOPIC.id, 0, 0, changed)])
        image = await image_where(second, lambda image: image.version == last.version)
        assert image == last
        assert made.topics["t"] == TOPIC
        assert image.topics["t"].partitions == (changed,)
        assert [delta.version for delta in deltas] == [last.version - 2, made.version, last.version]
        assert deltas[-1].partitions == {"t": (0,)}
        assert (await (await holder.connect()).load()) == image


async def test_member_gets_a_higher_epoch_and_leaves_with_its_connection(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        brokers = (await second.load()).brokers
        assert brokers[1] == replace(broker(1), epoch=brokers[1].epoch)
        assert 0 <= brokers[1].epoch < brokers[2].epoch
        first.close()
        await image_where(second, lambda image: set(image.brokers) == {2})
        again = await holder.broker(1)
        image = await image_where(again, lambda image: set(image.brokers) == {1, 2})
        assert image.brokers[1].epoch > brokers[2].epoch
        with pytest.raises(StoreError, match=r"node\.id 1 is already registered"):
            await holder.broker(1)


async def test_next_broker_is_elected_when_the_controller_disconnects(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        sender, events = trio.open_memory_channel[StoreEvent](2)
        second.on_event = sender.send_nowait
        assert await first.campaign()
        assert not await second.campaign()
        with pytest.raises(Fenced):
            await second.commit([CreateTopic(TOPIC)])
        configs = SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "b"})
        assert (await second.commit([configs])).configs_of(GROUP_RESOURCE, "g") == {"a": "b"}
        epoch = (await second.load()).controller_epoch
        first.close()
        await image_where(second, lambda image: image.controller_id == NO_CONTROLLER)
        assert [await events.receive(), await events.receive()] == [
            BrokerEnded(1),
            ControllerGone(),
        ]
        assert await second.campaign()
        image = await second.load()
        assert (image.controller_id, image.controller_epoch) == (2, epoch + 1)


async def test_end_of_a_broker_is_reported_before_the_image_without_it(tmp_path: Path) -> None:
    """So a member knows that an election comes, while the commits wait for the disk."""
    async with holding(tmp_path) as holder:
        first, second, unregistered = (
            await holder.broker(1),
            await holder.broker(2),
            await holder.connect(),
        )
        images: list[tuple[StoreEvent, ClusterImage]] = []
        second.on_event = lambda event: images.append((event, second.image))
        unregistered.close()
        first.close()
        await second.shows(lambda image: set(image.brokers) == {2})
        assert [event for event, _ in images] == [BrokerEnded(1)]
        assert set(images[0][1].brokers) == {1, 2}


async def test_commit_after_resigning_is_fenced(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        assert await first.campaign()
        await first.resign()
        assert await second.campaign()
        with pytest.raises(Fenced):
            await first.commit([CreateTopic(TOPIC)])
        await second.commit([CreateTopic(TOPIC)])
        assert not await first.campaign()


async def test_conflict_is_raised_after_the_conflicting_image_is_published(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        await store.campaign()
        await store.commit([CreateTopic(TOPIC)])
        with pytest.raises(Conflict, match="topic t exists") as conflict:
            await store.commit([CreateTopic(TOPIC)])
        assert conflict.value.made == 0
        assert "t" in (await store.load()).topics


async def test_brokers_lose_their_session_when_the_holder_ends(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        sender, events = trio.open_memory_channel[StoreEvent](1)
        store.on_event = sender.send_nowait
        await holder.end()
        assert await events.receive() == SessionLost()
        with pytest.raises(StoreError, match="has ended"):
            await store.commit([SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "b"})])
        with pytest.raises(
            StoreError, match="cannot connect to the process that holds the metadata"
        ):
            await holder.connect()


async def test_restarted_holder_keeps_topics_and_raises_the_controller_epoch(
    tmp_path: Path,
) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        for _ in range(3):
            await store.campaign()
            await store.resign()
        await store.campaign()
        epoch = (await store.load()).controller_epoch
        state = replace(STATE, controller_epoch=epoch)
        await store.commit([CreateTopic(replace(TOPIC, partitions=(state, state)))])
        await store.commit([MarkForDeletion("t", TOPIC.id)])
        ids = await store.allocate_producer_ids(10)
    (tmp_path / "s").unlink()
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        image = await store.load()
        assert image.topics["t"].partitions == (state, state)
        assert image.deleting == {"t"}
        await store.campaign()
        assert (await store.load()).controller_epoch == epoch + 1
        assert (await store.allocate_producer_ids(1)).start == ids.stop


async def test_large_image_is_sent_whole(tmp_path: Path) -> None:
    topics = [
        CreateTopic(TopicImage(f"t{number}", number.to_bytes(16), (STATE,) * 20), {"a": "b"})
        for number in range(1, 1_001)
    ]
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        await first.campaign()
        committed = await first.commit(topics)
        assert (
            await image_where(second, lambda image: image.version == committed.version) == committed
        )
        assert await (await holder.connect()).load() == committed
