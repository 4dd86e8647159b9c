"""What every MetadataStore does.  A new kind of store is one more entry in `STORES`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from kwire.cluster.image import BrokerImage, ClusterImage, Endpoint, PartitionImage, TopicImage
from kwire.cluster.local import LocalStore
from kwire.cluster.store import MetadataStore, VersionConflict

TOPIC = 2
OpenStore = Callable[[], MetadataStore]


def local_stores(directory: Path) -> OpenStore:
    return lambda: LocalStore(directory / "metadata.json")


STORES = {"local": local_stores}


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same store again at each call, as another start of the broker would."""
    return STORES[request.param](tmp_path)


def with_topic(image: ClusterImage, name: str) -> ClusterImage:
    state = PartitionImage(1, 3, 4, (1, 2), (1,))
    return image.with_topics([TopicImage(name, name.encode().ljust(16, b"-"), (state, state))])


async def test_a_new_store_has_a_cluster_id_that_stays(open_store: OpenStore) -> None:
    first = await open_store().load()
    again = await open_store().load()
    assert len(first.cluster_id) == 22
    assert again.cluster_id == first.cluster_id
    assert not first.topics
    assert not first.configs
    assert not first.brokers


async def test_what_is_committed_is_there_after_a_restart(open_store: OpenStore) -> None:
    store = open_store()
    image = with_topic(await store.load(), "a").with_configs(TOPIC, "a", {"retention.ms": "1"})
    committed = await store.commit((await store.load()).version, image)
    assert committed.version > 0
    assert await store.load() == committed
    reloaded = await open_store().load()
    assert reloaded.topics == committed.topics
    assert reloaded.names_by_id == committed.names_by_id
    assert reloaded.configs == committed.configs


async def test_names_and_values_of_any_characters_are_kept(open_store: OpenStore) -> None:
    store = open_store()
    odd = {"match": 'client_id="\u00e9\n\\"', "\u2603": "\x00"}
    image = (await store.load()).with_configs(16, "sub \u2603", odd)
    await store.commit(image.version, image)
    assert (await open_store().load()).configs_of(16, "sub \u2603") == odd


async def test_a_commit_on_an_old_image_is_refused_and_changes_nothing(
    open_store: OpenStore,
) -> None:
    store = open_store()
    old = await store.load()
    newer = await store.commit(old.version, with_topic(old, "a"))
    with pytest.raises(VersionConflict):
        await store.commit(old.version, with_topic(old, "b"))
    assert await store.load() == newer
    assert set((await open_store().load()).topics) == {"a"}


async def test_of_two_commits_at_once_one_wins(open_store: OpenStore) -> None:
    store = open_store()
    image = await store.load()
    outcomes: list[str] = []

    async def commit(name: str) -> None:
        try:
            await store.commit(image.version, with_topic(image, name))
        except VersionConflict:
            outcomes.append("refused")
        else:
            outcomes.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit, "a")
        nursery.start_soon(commit, "b")
    assert sorted(outcomes)[-1] == "refused"
    assert set((await store.load()).topics) == set(outcomes) - {"refused"}


async def test_watchers_see_every_commit_in_order_before_it_returns(
    open_store: OpenStore,
) -> None:
    store = open_store()
    seen: list[int] = []
    store.watch(lambda image: seen.append(image.version))
    image = await store.load()
    for name in ("a", "b", "c"):
        image = await store.commit(image.version, with_topic(image, name))
        assert seen[-1] == image.version
    assert seen == sorted(seen)
    assert len(seen) == 3


async def test_a_registered_broker_is_listed_until_the_store_is_closed(
    open_store: OpenStore,
) -> None:
    store = open_store()
    seen: list[ClusterImage] = []
    store.watch(seen.append)
    broker = BrokerImage(1, (Endpoint("PLAINTEXT", "localhost", 9092),), "rack-a")
    image = await store.register(broker)
    assert image.brokers == {1: broker}
    assert image.controller_id == 1
    assert seen == [image]
    await store.commit(image.version, with_topic(image, "a"))
    assert (await store.load()).brokers == {1: broker}
    store.close()
    assert (await open_store().load()).brokers == {}


async def test_producer_ids_are_given_once(open_store: OpenStore) -> None:
    given: list[int] = []
    for _ in range(3):
        store = open_store()
        given += await store.allocate_producer_ids(10)
        given += await store.allocate_producer_ids(1)
    assert len(given) == 33
    assert len(set(given)) == 33
    assert min(given) >= 0


async def test_producer_ids_leave_the_image_alone(open_store: OpenStore) -> None:
    store = open_store()
    image = await store.load()
    await store.allocate_producer_ids(5)
    committed = await store.commit(image.version, with_topic(image, "a"))
    assert (await open_store().load()).topics == committed.topics
