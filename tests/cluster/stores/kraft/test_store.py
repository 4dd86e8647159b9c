"""The store of a broker beside KRaft controllers: what MetadataStore says, without commits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.stores.contract import NotController, StoreError
from kwire.cluster.stores.kraft.opening import open_store
from kwire.cluster.stores.kraft.store import KraftStore
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.conformance.apache_kafka import CLUSTER_ID
from kwire.log import LogManager
from kwire.settings import load, topic_log_config
from tests.cluster.stores.kraft.real_controller import KafkaController

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEADLINE_S = 120
ENDPOINT = Endpoint("PLAINTEXT", "localhost", 9)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaController]:
    """The controller of all tests of this module; each test has a broker id of its own."""
    kafka = KafkaController(
        tmp_path_factory.mktemp("controller"), settings={"broker.session.timeout.ms": "1000"}
    )
    kafka.start()
    yield kafka
    kafka.stop()


@asynccontextmanager
async def opened(
    kafka: KafkaController, directory: Path, node_id: int, **settings: str
) -> AsyncIterator[tuple[KraftStore, BrokerImage]]:
    """The store of a broker, and what the broker registers."""
    config = load(
        None,
        {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "broker.heartbeat.interval.ms": "100",
            "log.dirs": str(directory / "data"),
            **kafka.quorum,
            **{name.replace("_", "."): value for name, value in settings.items()},
        },
    )
    logs = LogManager(config.log_dirs, defaults=topic_log_config(config, {}))
    logs.load()
    with trio.fail_after(DEADLINE_S), closing(logs):
        async with open_store(config, logs) as store:
            broker = BrokerImage(
                node_id, (ENDPOINT,), "rack", directories=(*logs.directory_ids().values(),)
            )
            yield store, broker
            logs.broker_epoch = store.broker_epoch


async def test_new_broker_takes_the_cluster_id_from_the_controllers_and_keeps_it(
    kafka: KafkaController, tmp_path: Path
) -> None:
    for _ in range(2):
        async with opened(kafka, tmp_path, 1) as (store, _broker):
            image = await store.load()
            assert image.cluster_id == CLUSTER_ID
            assert not image.brokers
    written = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert [line.partition("=")[0] for line in written] == [
        "version",
        "node.id",
        "cluster.id",
        "directory.id",
    ]
    assert written[:3] == ["version=1", "node.id=1", f"cluster.id={CLUSTER_ID}"]
    assert (tmp_path / "data" / "__cluster_metadata-0" / "quorum-state").exists()


async def test_directory_of_another_cluster_is_refused_and_nothing_is_changed(
    kafka: KafkaController, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    identity = tmp_path / "data" / "meta.properties"
    text = "version=1\nnode.id=2\ncluster.id=another\ndirectory.id=ZFL20n1uLxPHnVaA9v9t3w\n"
    identity.write_text(text)
    async with opened(kafka, tmp_path, 2) as (store, _broker):
        with pytest.raises(StoreError, match="another"):
            await store.load()
    assert identity.read_text() == text


async def test_metadata_log_has_a_directory_of_its_own_if_the_settings_say_so(
    kafka: KafkaController, tmp_path: Path
) -> None:
    own = tmp_path / "metadata"
    async with opened(kafka, tmp_path, 3, metadata_log_dir=str(own)) as (store, _broker):
        await store.load()
    assert sorted(each.name for each in own.iterdir()) == [
        ".lock",
        "__cluster_metadata-0",
        "meta.properties",
    ]
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


async def test_watchers_get_every_image_once_in_its_order(
    kafka: KafkaController, tmp_path: Path
) -> None:
    async with opened(kafka, tmp_path, 4) as (store, broker):
        seen = [await store.load()]
        new_image = trio.Event()

        def watch(image: ClusterImage, delta: ClusterDelta) -> None:
            nonlocal new_image
            assert delta.applied_to(seen[-1]) == image
            seen.append(image)
            new_image.set()
            new_image = trio.Event()

        store.watch(watch)
        await store.register(broker)
        store.life.ready()
        await store.life.wait_unfenced()
        for name in ("a", "b", "c"):
            request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=60_000)
            answer = await store.channel("topics").call(request, 60_000)
            assert [each.error_code for each in answer.topics] == [0]
            while name not in seen[-1].topics:
                await new_image.wait()
        assert seen[-1] is store.image
        versions = [image.version for image in seen]
        assert versions == sorted(set(versions))


async def test_registered_broker_is_fenced_until_it_is_ready_and_after_its_session(
    kafka: KafkaController, tmp_path: Path
) -> None:
    async with opened(kafka, tmp_path, 5) as (store, broker):
        await store.load()
        assert store.broker_epoch == -1
        image = await store.register(broker)
        listed = image.fenced[5]
        assert listed.epoch == store.broker_epoch > 0
        assert (listed.endpoints, listed.rack) == ((ENDPOINT,), "rack")
        assert listed.directories == broker.directories
        store.life.ready()
        await store.life.wait_unfenced()
        first_epoch = store.broker_epoch
    async with opened(kafka, tmp_path, 5) as (store, broker):
        await store.load()
        image = await store.register(broker)
        assert 5 in image.fenced, "the session of the first process ended, this one is not ready"
        assert store.broker_epoch > first_epoch


async def test_producer_ids_are_never_allocated_twice(
    kafka: KafkaController, tmp_path: Path
) -> None:
    given: list[int] = []

    async def allocate(store: KraftStore) -> None:
        given.extend(await store.allocate_producer_ids(10))

    for _ in range(2):
        async with opened(kafka, tmp_path, 6) as (store, broker):
            await store.load()
            with pytest.raises(StoreError, match="not registered"):
                await store.allocate_producer_ids(1)
            await store.register(broker)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(allocate, store)
    assert len(given) >= 60
    assert len(set(given)) == len(given)


async def test_only_the_controllers_change_the_metadata(
    kafka: KafkaController, tmp_path: Path
) -> None:
    async with opened(kafka, tmp_path, 7) as (store, _broker):
        image = await store.load()
        with pytest.raises(NotController):
            await store.commit([])
        with pytest.raises(StoreError):
            await store.quorum(0)
        assert store.image == replace(image, version=store.image.version)


async def test_registration_that_the_controllers_refuse_ends_the_store(
    kafka: KafkaController, tmp_path: Path
) -> None:
    ended: list[StoreError] = []
    async with opened(kafka, tmp_path, 8) as (store, broker):
        store.on_end = ended.append
        await store.load()
        with pytest.raises(StoreError, match=r"directory\.id"):
            await store.register(replace(broker, directories=(b"\0" * 15 + b"\5",)))
    assert len(ended) == 1
