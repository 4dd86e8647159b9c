"""How a store reads what others write to ZooKeeper, valid or damaged, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from kazoo.protocol.serialization import CheckVersion, Create
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    CreateTopic,
    RegisterBroker,
    SetConfigs,
    UnregisterBroker,
)
from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    NO_LEADER,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.contract import ControllerGone
from kwire.cluster.stores.zookeeper import following, znodes
from kwire.cluster.stores.zookeeper.notifications import CHANGES_KEPT_S
from tests.cluster.observing import broker
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    STATE,
    TOPIC,
    at_rest,
    controlling,
    leading,
)

OTHER = TopicImage("u", b"u" * 16, (STATE, STATE))
UNBORN = PartitionImage(NO_LEADER, -1, -1, (1, 2), ())
BROKER = znodes.BROKER_RESOURCE


def put_topic(ensemble: Ensemble, topic: TopicImage, *states: PartitionImage) -> None:
    """Create a topic as another controller does, with the states of its first partitions."""
    ensemble.put(znodes.topic_path(topic.name), znodes.encode_topic(topic))
    if states:
        ensemble.put(znodes.partitions_path(topic.name), b"")
    for index, state in enumerate(states):
        ensemble.put(znodes.partition_path(topic.name, index), b"")
        ensemble.put(znodes.state_path(topic.name, index), znodes.encode_state(state))


def is_set(configs: dict[str, str], image: ClusterImage) -> bool:
    """A check that broker 1 has these configs."""
    return image.configs_of(BROKER, "1") == configs


def is_member(broker_id: int, image: ClusterImage) -> bool:
    return broker_id in image.brokers


def are_features(features: FinalizedFeatures, image: ClusterImage) -> bool:
    return image.features == features


# -- topics


async def test_topic_created_by_another_broker_is_read_with_its_configs_and_watched(
    ensemble: Ensemble,
) -> None:
    async with controlling() as store:
        ensemble.put(znodes.config_path((TOPIC_RESOURCE, "u")), znodes.encode_configs({"a": "1"}))
        put_topic(ensemble, OTHER, STATE, STATE)
        image = await store.shows(lambda image: "u" in image.topics)
        assert image.topics["u"] == OTHER
        assert image.configs_of(TOPIC_RESOURCE, "u") == {"a": "1"}
        grown = replace(OTHER, partitions=(STATE, STATE, UNBORN))
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(grown))
        await store.shows(lambda image: image.topics["u"] == grown)
        ensemble.drop(znodes.state_path("u", 0))
        ensemble.drop(znodes.partition_path("u", 0))
        ensemble.drop(znodes.state_path("u", 1))
        ensemble.drop(znodes.partition_path("u", 1))
        ensemble.drop(znodes.partitions_path("u"))
        ensemble.drop(znodes.topic_path("u"))
        await store.shows(lambda image: "u" not in image.topics)


async def test_topic_replaced_by_another_broker_is_published_as_deletion_and_creation(
    ensemble: Ensemble,
) -> None:
    async with controlling() as store:
        put_topic(ensemble, OTHER, STATE, STATE)
        await store.shows(lambda image: "u" in image.topics)
        again = replace(OTHER, id=b"v" * 16)
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(again))
        image = await store.shows(lambda image: image.topics["u"].id == again.id)
        assert image.topics["u"] == again
        delta = next(delta for seen, delta in store.seen if seen == image)
        assert set(delta.deleted) == {"u"}


async def test_offline_replicas_are_kept_when_the_topic_is_read_again(ensemble: Ensemble) -> None:
    """Only the controller knows them: no znode has them."""
    away = replace(STATE, partition_epoch=1, isr=(1,), offline=(2,))
    async with controlling() as store:
        put_topic(ensemble, OTHER, STATE, STATE)
        await store.shows(lambda image: "u" in image.topics)
        await store.commit([AlterPartition("u", OTHER.id, 1, 0, away)])
        assert store.image.topics["u"].partitions == (STATE, away)
        grown = replace(OTHER, partitions=(STATE, away, UNBORN))
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(grown))
        await store.shows(lambda image: image.topics["u"] == grown)


async def test_topic_without_an_id_gets_one(ensemble: Ensemble) -> None:
    """Brokers before 2.8 create such topics."""
    content = b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}'
    async with controlling() as store:
        ensemble.writes.clear()
        ensemble.put(znodes.topic_path("u"), content)
        topic = (await store.shows(lambda image: "u" in image.topics)).topics["u"]
        assert len(topic.id) == 16
        assert any(topic.id)
        assert [each.replicas for each in topic.partitions] == [(1, 2), (2, 1)]
        decoded = znodes.decode_topic(ensemble.znode(znodes.topic_path("u")).content)
        assert decoded.id == topic.id
        assert decoded.assignments[1].replicas == (2, 1)
        fence, given = ensemble.writes[-1]
        assert isinstance(fence, CheckVersion)
        assert fence.path == znodes.CONTROLLER_EPOCH
        assert given.version == 0
        # Its znode is known by its version: it may be written again.
        grown = await store.commit([AddPartitions("u", topic.id, 2, (UNBORN,))])
        assert len(grown.topics["u"].partitions) == 3


async def test_topic_written_by_others_while_it_gets_an_id_is_read_again(
    ensemble: Ensemble,
) -> None:
    async with controlling() as store:

        def write(link: MemoryLink, operations: Sequence[Any]) -> None:
            ensemble.before_write = lambda link, operations: None
            ensemble.put(znodes.topic_path("u"), znodes.encode_topic(OTHER))

        ensemble.before_write = write
        ensemble.put(znodes.topic_path("u"), b'{"version":1,"partitions":{"0":[1,2]}}')
        image = await store.shows(lambda image: "u" in image.topics)
        assert image.topics["u"].id == OTHER.id


async def test_damaged_topic_is_missing_until_it_is_written_again(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlling() as store:
        ensemble.put(znodes.topic_path("d"), b"damaged")
        put_topic(ensemble, OTHER, STATE, STATE)
        image = await store.shows(lambda image: "u" in image.topics)
        assert set(image.topics) == {"u"}
        assert f"{znodes.topic_path('d')} is damaged: " in caplog.text
        damaged = replace(OTHER, name="d", id=b"d" * 16)
        ensemble.put(znodes.topic_path("d"), znodes.encode_topic(damaged))
        await store.shows(lambda image: "d" in image.topics)


async def test_partition_with_a_damaged_state_has_no_leader_and_is_overwritten(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    moving = replace(STATE, replicas=(3, 1, 2), adding=(3,), removing=(2,))
    topic = replace(OTHER, partitions=(moving, STATE))
    async with controlling() as store:
        for index, content in enumerate((b"damaged", znodes.encode_state(STATE))):
            ensemble.multi(
                0,
                [
                    *(Create(path, b"", None, 0) for path in _folders("u", index)),
                    Create(znodes.state_path("u", index), content, None, 0),
                ],
            )
        ensemble.put(znodes.state_path("u", 0), b"damaged again")
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(topic))
        found = (await store.shows(lambda image: "u" in image.topics)).topics["u"]
        assert found.partitions[1] == STATE
        damaged = found.partitions[0]
        assert damaged == PartitionImage(-1, 0, 1, (3, 1, 2), (), adding=(3,))
        assert f"{znodes.state_path('u', 0)} is damaged: " in caplog.text
        sound = replace(STATE, replicas=(3, 1, 2), adding=(3,), partition_epoch=2)
        image = await store.commit([AlterPartition("u", OTHER.id, 0, 1, sound)])
        assert image.topics["u"].partitions[0] == sound


def _folders(topic: str, index: int) -> list[str]:
    """The folders above a partition state that do not exist."""
    if index:
        return [znodes.partition_path(topic, index)]
    top = znodes.topic_path(topic)
    return [top, znodes.partitions_path(topic), znodes.partition_path(topic, index)]


async def test_unassigned_partition_has_no_replicas(
    ensemble: Ensemble,
) -> None:
    content = b'{"version":1,"partitions":{"2":[1,2]}}'
    async with controlling() as store:
        ensemble.put(znodes.topic_path("u"), content)
        ensemble.put(znodes.topic_path("none"), b'{"version":1,"partitions":{}}')
        image = await store.shows(lambda image: len(image.topics) == 2)
        assert [each.replicas for each in image.topics["u"].partitions] == [(), (), (1, 2)]
        assert image.topics["none"].partitions == ()


@pytest.mark.parametrize("there", range(4))
async def test_first_state_of_a_partition_creates_only_missing_folders(
    ensemble: Ensemble, there: int
) -> None:
    """An interrupted controller has created some of the folders."""
    folders = [znodes.partitions_path("u"), *(znodes.partition_path("u", at) for at in (0, 1))]
    async with controlling() as store:
        for folder in (znodes.topic_path("u"), *folders[:there]):
            ensemble.put(folder, b"")
        unborn = replace(OTHER, partitions=(UNBORN, UNBORN))
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(unborn))
        await store.shows(lambda image: image.topics.get("u") == unborn)
        ensemble.writes.clear()
        for index in (0, 1):
            first = AlterPartition("u", OTHER.id, index, -1, replace(STATE, partition_epoch=0))
            await store.commit([first])
            assert store.image.topics["u"].partitions[index] == STATE
            content = ensemble.znode(znodes.state_path("u", index)).content
            assert content == znodes.encode_state(STATE)
        assert len(ensemble.writes) == 2, "no write is refused"
        made = [
            each.path for each in ensemble.writes[0] + ensemble.writes[1] if "data" in dir(each)
        ]
        states = [znodes.state_path("u", index) for index in (0, 1)]
        assert sorted(made) == sorted([*folders[there:], *states])


async def test_topic_list_is_read_again_after_ten_times_its_reading_time(
    ensemble: Ensemble, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controlling() as store:
        children = store.session.children

        async def slow(path: str, watch: bool = False) -> list[str]:
            if path == znodes.TOPICS:
                await trio.sleep(0.5)
            return await children(path, watch)

        monkeypatch.setattr(store.session, "children", slow)
        began_at = trio.current_time()
        put_topic(ensemble, OTHER, STATE, STATE)
        await store.shows(lambda image: "u" in image.topics)
        assert trio.current_time() == began_at + 0.5
        put_topic(ensemble, replace(OTHER, name="v", id=b"v" * 16), STATE, STATE)
        # What is marked besides is read at once.
        ensemble.put(znodes.deletion_path("u"), b"")
        await store.shows(lambda image: "u" in image.deleting)
        assert trio.current_time() == began_at + 0.5
        await store.shows(lambda image: "v" in image.topics)
        assert trio.current_time() == pytest.approx(
            began_at + 0.5 + 0.5 * following.LIST_PAUSE_RATIO + 0.5
        )


# -- settings


def change_of(resource: int, name: str) -> bytes:
    return znodes.encode_config_change((resource, name))


async def test_configs_changed_by_another_broker_are_read_after_their_notification(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    """The store reads the configs themselves, not the content of the notification."""
    user = "users/bob/clients/c"
    async with at_rest() as store:
        keys = [(BROKER, "1"), (ENTITY_RESOURCE, user), (TOPIC_RESOURCE, "t")]
        ensemble.put("/config/users/bob", b"")
        ensemble.put("/config/users/bob/clients", b"")
        for resource, name in keys:
            path = znodes.config_path((resource, name))
            ensemble.put(path, znodes.encode_configs({"a": name}))
        damaged = ensemble.put_next(znodes.CONFIG_CHANGE, b"damaged")
        ensemble.put_next(znodes.CONFIG_CHANGE, b'{"version":2,"entity_path":"moons/io"}')
        for resource, name in keys:
            ensemble.put_next(znodes.CONFIG_CHANGE, change_of(resource, name))
        image = await store.shows(lambda image: len(image.configs) == 3)
        for resource, name in keys:
            assert image.configs_of(resource, name) == {"a": name}
        assert f"{damaged} is damaged: " in caplog.text
        ensemble.drop(znodes.config_path((BROKER, "1")))
        ensemble.put_next(znodes.CONFIG_CHANGE, change_of(BROKER, "1"))
        await store.shows(lambda image: not image.configs_of(BROKER, "1"))
        assert len(ensemble.znode(znodes.CONFIG_CHANGES).children) == 6, "young ones stay"
        # The znode is gone: the next setting creates it.
        await store.commit([SetConfigs(BROKER, "1", {}, {"b": "1"})])


async def test_starting_broker_reads_all_configs(ensemble: Ensemble) -> None:
    async with at_rest() as first:
        await leading(first)
        await first.commit([CreateTopic(TOPIC, {"a": "1"})])
        await first.commit([SetConfigs(BROKER, "", {}, {"b": "1"})])
        users = ("users/bob", "users/bob/clients/c", "clients/d", "ips/1.2.3.4")
        for name in users:
            await first.commit([SetConfigs(ENTITY_RESOURCE, name, {}, {"c": name})])
        async with at_rest(2) as second:
            expected = {
                (TOPIC_RESOURCE, "t"): {"a": "1"},
                (BROKER, ""): {"b": "1"},
                **{(ENTITY_RESOURCE, name): {"c": name} for name in users},
            }
            assert dict(second.image.configs.items()) == expected
            # Each is known by its version.
            after = {"c": "other"}
            for name in users:
                await second.commit([SetConfigs(ENTITY_RESOURCE, name, {"c": name}, after)])


async def test_configs_deleted_while_disconnected_are_removed_from_the_image(
    ensemble: Ensemble,
) -> None:
    async with at_rest() as store:
        await store.commit([SetConfigs(BROKER, "1", {}, {"a": "1"})])
        await store.commit([SetConfigs(BROKER, "2", {}, {"a": "2"})])
        link = ensemble.links[store.session.id]
        link.suspend()
        ensemble.drop(znodes.config_path((BROKER, "1")))
        ensemble.put(znodes.config_path((BROKER, "2")), znodes.encode_configs({"a": "3"}))
        link.resume()
        image = await store.shows(lambda image: image.configs_of(BROKER, "2") == {"a": "3"})
        assert not image.configs_of(BROKER, "1")


@pytest.mark.parametrize(("age_s", "stays"), [(CHANGES_KEPT_S, True), (CHANGES_KEPT_S + 1, False)])
async def test_config_notification_is_deleted_after_15_minutes(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, age_s: int, stays: bool
) -> None:
    ensemble.now_ms = lambda: 5_000_000
    async with at_rest() as store:
        monkeypatch.setattr(following, "time", SimpleNamespace(time=lambda: 5_000 + age_s))
        await store.commit([SetConfigs(BROKER, "1", {}, {"a": "1"})])
        ensemble.now_ms = lambda: (5_000 + age_s) * 1_000
        await store.commit([SetConfigs(BROKER, "2", {}, {"a": "1"})])
        await wait_all_tasks_blocked()
        names = sorted(ensemble.znode(znodes.CONFIG_CHANGES).children)
        assert len(names) == 1 + stays
        last = ensemble.znode(f"{znodes.CONFIG_CHANGES}/{names[-1]}")
        assert last.content == change_of(BROKER, "2")


async def test_config_notification_removed_by_another_broker_is_no_error(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble.now_ms = lambda: 0
    async with at_rest() as store:

        def remove(link: MemoryLink, operations: Sequence[Any]) -> None:
            path = operations[0].path
            if path.startswith(znodes.CONFIG_CHANGE) and path in ensemble.znodes:
                ensemble.drop(path)

        ensemble.before_write = remove
        path = znodes.config_path((BROKER, "1"))
        for value in ("1", "2"):
            ensemble.put(path, znodes.encode_configs({"a": value}))
            ensemble.put_next(znodes.CONFIG_CHANGE, change_of(BROKER, "1"))
            await store.shows(partial(is_set, {"a": value}))
        await wait_all_tasks_blocked()
        assert not ensemble.znode(znodes.CONFIG_CHANGES).children


# -- members, the controller, features


async def test_brokers_that_join_change_and_leave_are_published(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_rest() as store:
        for broker_id in (10, 9):
            ensemble.put(znodes.broker_path(broker_id), znodes.encode_broker(broker(broker_id), 1))
        image = await store.shows(lambda image: len(image.brokers) == 2)
        assert [*image.brokers] == [9, 10]
        epoch = ensemble.znode(znodes.broker_path(9)).czxid
        assert image.brokers[9] == replace(broker(9), epoch=epoch)
        moved = replace(broker(9), rack="elsewhere")
        ensemble.put(znodes.broker_path(9), znodes.encode_broker(moved, 1))
        await store.shows(lambda image: image.brokers[9].rack == "elsewhere")
        ensemble.put(znodes.broker_path(11), b"damaged")
        ensemble.drop(znodes.broker_path(9))
        image = await store.shows(lambda image: 9 not in image.brokers)
        assert set(image.brokers) == {10}
        assert "the registration of broker 11 is damaged: " in caplog.text
        ensemble.put(znodes.broker_path(11), znodes.encode_broker(broker(11), 1))
        await store.shows(lambda image: 11 in image.brokers)


async def test_delta_has_only_the_brokers_that_differ(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_rest() as store:
        reported: list[object] = []
        publish = store.publish

        def noting(after: Any, changes: Any) -> None:  # noqa: ANN401 - as the store's
            reported.extend(changes)
            publish(after, changes)

        monkeypatch.setattr(store, "publish", noting)
        known: list[BrokerImage] = []
        for broker_id in (8, 9):
            ensemble.put(znodes.broker_path(broker_id), znodes.encode_broker(broker(broker_id), 1))
            image = await store.shows(partial(is_member, broker_id))
            known.append(image.brokers[broker_id])
        ensemble.drop(znodes.broker_path(8))
        await store.shows(lambda image: 8 not in image.brokers)
        assert reported == [*map(RegisterBroker, known), UnregisterBroker(8)]


async def test_damaged_controller_znode_means_no_controller_until_the_next_one(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_rest() as store:
        assert store.image.controller_epoch == 0
        ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
        ensemble.put(znodes.CONTROLLER, b"damaged")
        await store.next_event(ControllerGone)
        image = await store.shows(lambda image: image.controller_epoch == 7)
        assert image.controller_id == NO_CONTROLLER
        assert "/controller is damaged: " in caplog.text
        ensemble.put(znodes.CONTROLLER, znodes.encode_controller(5, 1))
        await store.shows(lambda image: image.controller_id == 5)


async def test_damaged_features_are_empty_and_can_be_set_again(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    agreed = FinalizedFeatures({"f": 1}, {"g": 2}, 1)
    async with at_rest() as store:
        assert store.image.features == FinalizedFeatures(agreed={}, epoch=-1)
        ensemble.put(znodes.FEATURE, znodes.encode_feature(FinalizedFeatures()))
        await store.shows(lambda image: image.features.epoch == 0)
        ensemble.put(znodes.FEATURE, znodes.encode_feature(agreed))
        await store.shows(lambda image: image.features == agreed)
        for at, content in enumerate((b"damaged", b"[]", b'{"kwire":{"asked":7}}'), 2):
            ensemble.put(znodes.FEATURE, content)
            nothing = FinalizedFeatures(agreed={}, epoch=at)
            await store.shows(partial(are_features, nothing))
            assert "/feature is damaged: " in caplog.text
            caplog.clear()
