"""Tests of every kind of MetadataStore; the fixture `open_store` makes them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import (
    AlterPartition,
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
    apply_all,
)
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import is_new, unassigned_partition
from kwire.cluster.metadata.image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.contract import MetadataStore
from kwire.cluster.stores.local import LocalStore
from kwire.testing import ZooKeeperProcess
from tests.cluster.metadata.histories import change_of
from tests.cluster.sharing import shared_stores
from tests.cluster.stores.zookeeper.stores import leading_stores

OpenStore = Callable[[], MetadataStore]


def local_stores(directory: Path) -> OpenStore:
    return lambda: LocalStore(directory / "metadata.log")


@pytest.fixture(
    params=[
        "local",
        "shared",
        pytest.param("zookeeper", marks=[pytest.mark.java, pytest.mark.slow]),
    ]
)
def open_store(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> OpenStore:
    """Each call opens the same store again, as a restart of the broker does.

    One that several brokers share is the controller's.
    """
    if request.param == "local":
        return local_stores(tmp_path)
    if request.param == "shared":
        return shared_stores(tmp_path)
    zookeeper: ZooKeeperProcess = request.getfixturevalue("zookeeper")
    return leading_stores(zookeeper.connect(f"/{unique}"))


def creation(name: str, **configs: str) -> CreateTopic:
    state = PartitionImage(1, 3, 0, (1, 2), (1,), controller_epoch=7)
    return CreateTopic(TopicImage(name, name.encode().ljust(16, b"-"), (state, state)), configs)


def lasting(image: ClusterImage) -> object:
    """The part of an image that survives a restart."""
    return (
        image.cluster_id,
        image.topics,
        image.names_by_id,
        image.names_by_metric,
        image.configs,
        image.deleting,
        image.next_producer_id,
        image.features,
        image.acls,
    )


async def test_new_store_keeps_its_cluster_id(open_store: OpenStore) -> None:
    first = await open_store().load()
    again = await open_store().load()
    assert len(first.cluster_id) == 22
    assert again.cluster_id == first.cluster_id
    assert not first.topics
    assert not first.configs
    assert not first.brokers


async def test_committed_changes_survive_a_restart(open_store: OpenStore) -> None:
    store = open_store()
    committed = await store.commit([creation("a", retention="1"), creation("b.c")])
    assert committed.version > 0
    assert await store.load() == committed
    assert set(committed.topics) == {"a", "b.c"}
    reloaded = await open_store().load()
    assert lasting(reloaded) == lasting(committed)


async def test_names_and_values_with_any_characters_are_kept(open_store: OpenStore) -> None:
    odd = {"match": 'client_id="\u00e9\n\\"', "\u2603": "\x00\u2028"}
    await open_store().commit([SetConfigs(16, "sub \u2603", {}, odd)])
    assert (await open_store().load()).configs_of(16, "sub \u2603") == odd


async def test_access_control_entries_are_added_and_removed_one_by_one(
    open_store: OpenStore,
) -> None:
    store = open_store()
    await store.load()
    one, other = (
        AccessControlEntry(f"User:{name}", "*", AclOperation.READ, AclPermissionType.ALLOW)
        for name in ("a", "b \u00e9")
    )
    literal = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.LITERAL, "t")
    prefixed = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, "t")
    await store.commit([ChangeAcls(literal, (one,)), ChangeAcls(prefixed, (one, other))])
    with pytest.raises(Conflict):
        await store.commit([ChangeAcls(literal, (one,))])
    with pytest.raises(Conflict):
        await store.commit([ChangeAcls(literal, (), (other,))])
    await store.commit(
        [
            ChangeAcls(literal, (), (one,)),
            ChangeAcls(literal, (other,)),
            ChangeAcls(prefixed, (), (other,)),
        ]
    )
    kept = await open_store().load()
    assert dict(kept.acls) == {literal: {other}, prefixed: {one}}
    again = open_store()
    await again.load()
    await again.commit([ChangeAcls(literal, (), (other,)), ChangeAcls(prefixed, (), (one,))])
    assert not (await open_store().load()).acls


async def test_change_based_on_another_state_is_a_conflict(
    open_store: OpenStore,
) -> None:
    store = open_store()
    before = await store.commit([creation("a")])
    seen: list[ClusterDelta] = []
    store.watch(lambda image, delta: seen.append(delta))
    with pytest.raises(Conflict) as conflict:
        await store.commit([creation("b"), creation("a"), creation("c")])
    made = ["b"][: conflict.value.made]  # each change is made or not; a store may make those before
    assert set((await store.load()).topics) == {"a", *made}
    assert set((await open_store().load()).topics) == {"a", *made}
    assert len(seen) == len(made)
    assert (await store.load()).version == before.version + len(made)


async def test_concurrent_creation_of_a_topic_succeeds_once(open_store: OpenStore) -> None:
    store = open_store()
    outcomes: list[str] = []

    async def commit(number: int) -> None:
        topic = TopicImage("a", bytes([number]) * 16, (PartitionImage(1, 0, 0, (1,), (1,)),))
        try:
            await store.commit([CreateTopic(topic)])
        except Conflict:
            outcomes.append("refused")
            assert "a" in (await store.load()).topics, "what is in the way can be seen"
        else:
            outcomes.append("made")

    async with trio.open_nursery() as nursery:
        for number in range(1, 6):
            nursery.start_soon(commit, number)
    assert sorted(outcomes) == ["made", *["refused"] * 4]


async def test_changes_of_different_resources_do_not_conflict(
    open_store: OpenStore,
) -> None:
    store = open_store()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(store.commit, [creation(f"t{number}")])
    names = {f"t{number}" for number in range(20)}
    assert set((await store.load()).topics) == names
    assert set((await open_store().load()).topics) == names


async def test_watchers_see_every_commit_in_order_before_it_returns(
    open_store: OpenStore,
) -> None:
    store = open_store()
    seen: list[ClusterImage] = []

    def watch(image: ClusterImage, delta: ClusterDelta) -> None:
        before = seen[-1] if seen else first
        assert delta.applied_to(before) == image
        seen.append(image)

    first = await store.load()
    store.watch(watch)
    for name in ("a", "b", "c"):
        image = await store.commit([creation(name)])
        assert seen[-1] is image
    await store.commit([DeleteTopic("a", creation("a").topic.id)])
    versions = [image.version for image in seen]
    assert versions == sorted(set(versions))
    topics = [sorted(image.topics) for image in seen if image.topics]
    assert topics == [["a"], ["a", "b"], ["a", "b", "c"], ["b", "c"]]


async def test_topic_without_leaders_is_new_until_one_is_elected(
    open_store: OpenStore,
) -> None:
    """The controller elects leaders of new partitions; in ZooKeeper they have no state znode."""
    store = open_store()
    await store.load()
    made = creation("t")
    partitions = (unassigned_partition((1, 2)), unassigned_partition((2, 1)))
    image = await store.commit([replace(made, topic=replace(made.topic, partitions=partitions))])
    assert [is_new(state) for state in image.topics["t"].partitions] == [True, True]
    elected = PartitionImage(2, 0, 0, (2, 1), (2,), controller_epoch=1)
    image = await store.commit([AlterPartition("t", made.topic.id, 1, -1, elected)])
    assert [is_new(state) for state in image.topics["t"].partitions] == [True, False]
    elected = replace(elected, leader=1, replicas=(1, 2), isr=(1,))
    image = await store.commit([AlterPartition("t", made.topic.id, 0, -1, elected)])
    assert [state.leader for state in image.topics["t"].partitions] == [1, 2]
    store.close()

    again = open_store()
    assert (await again.load()).topics == image.topics
    again.close()


async def test_registered_broker_is_listed_until_the_store_is_closed(
    open_store: OpenStore,
) -> None:
    store = open_store()
    seen: list[tuple[ClusterImage, ClusterDelta]] = []
    store.watch(lambda image, delta: seen.append((image, delta)))
    plain = Endpoint("PLAINTEXT", "localhost", 9092)
    broker = BrokerImage(1, (plain,), "rack-a", log_dirs=("/a", "/b"), cordoned=("/b",))
    image = await store.register(broker)
    listed = image.brokers[1]
    assert replace(listed, epoch=broker.epoch) == broker
    assert image.brokers == {1: listed}
    assert image.controller_id == 1
    assert seen[-1][0] is image
    assert [delta.brokers for _, delta in seen if delta.brokers] == [{1: listed}]
    await store.commit([creation("a")])
    assert (await store.load()).brokers == {1: listed}
    store.close()
    assert (await open_store().load()).brokers == {}


async def test_producer_ids_are_never_allocated_twice(open_store: OpenStore) -> None:
    given: list[int] = []

    async def allocate(store: MetadataStore, count: int) -> None:
        given.extend(await store.allocate_producer_ids(count))

    for _ in range(3):
        store = open_store()
        async with trio.open_nursery() as nursery:
            for count in (10, 1, 5):
                nursery.start_soon(allocate, store, count)
    assert len(given) == 48
    assert len(set(given)) == 48
    assert min(given) >= 0


@pytest.mark.slow
def test_reopened_store_equals_the_image_of_its_changes() -> None:
    """Random changes in batches, some of them in conflict, with restarts in between."""

    @settings(max_examples=30)
    @given(st.data())
    def history(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as directory:
            trio.run(_random_history, local_stores(Path(directory)), data)

    history()


async def _random_history(open_store: OpenStore, data: st.DataObject) -> None:
    store = open_store()
    image = await store.load()
    for _ in range(data.draw(st.integers(1, 6))):
        changes: list[Change] = []
        for _ in range(data.draw(st.integers(1, 4))):
            try:
                change = data.draw(change_of(apply_all(image, changes)))
            except Conflict:
                break
            changes.append(change)
        try:
            expected = apply_all(image, changes)
        except Conflict:
            with pytest.raises(Conflict) as conflict:
                await store.commit(changes)
            changes = changes[: conflict.value.made]
            expected = apply_all(image, changes)
        else:
            await store.commit(changes)
        image = await store.load()
        assert image == expected.with_version(image.version)
        if data.draw(st.booleans()):
            store.close()
            store = open_store()
            assert lasting(await store.load()) == lasting(image)
            image = await store.load()
    store.close()
