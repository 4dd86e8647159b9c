"""Writes with a lost reply, and late writes of an earlier controller."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest
import trio
import trio.testing

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
)
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    TOPIC_RESOURCE,
    ClusterImage,
    TopicImage,
)
from kwire.cluster.stores.contract import (
    ControllerGone,
    Fenced,
    SessionLost,
)
from kwire.cluster.stores.zookeeper import znodes
from kwire.testing import ZooKeeperProcess
from tests.cluster.observing import broker
from tests.cluster.stores.zookeeper.proxy import proxied
from tests.cluster.stores.zookeeper.stores import (
    SHORT_MS,
    STATE,
    TOPIC,
    Observed,
    leading,
    opened,
    topics_of,
)

pytestmark = [pytest.mark.java, pytest.mark.slow]

# -- a reply or a request is lost

Act: TypeAlias = Callable[[Observed], Awaitable[object]]


def commit(*changes: Change) -> Act:
    return lambda store: store.commit(changes)


SHRUNK = replace(STATE, isr=(1,), partition_epoch=1)
LOST: dict[str, tuple[bytes, Act, ClusterImage]] = {}
ENTRY = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
PATTERN = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "t")
PREFIX = ResourcePattern(ResourceType.GROUP, PatternType.PREFIXED, "g")
BASE = ClusterImage("").with_topics([TOPIC]).with_configs(TOPIC_RESOURCE, "t", {"a": "1"})


def _lost(name: str, part: bytes, *changes: Change, after: ClusterImage) -> None:
    LOST[name] = (part, commit(*changes), after)


_lost(
    "create",
    b"/brokers/topics/u",
    CreateTopic(TopicImage("u", b"u" * 16, (STATE,)), {"a": "b"}),
    after=BASE.with_topics([TopicImage("u", b"u" * 16, (STATE,))]).with_configs(
        TOPIC_RESOURCE, "u", {"a": "b"}
    ),
)
_lost(
    "add",
    b"/brokers/topics/t",
    AddPartitions("t", TOPIC.id, 2, (STATE,)),
    after=BASE.with_topics([replace(TOPIC, partitions=(STATE,) * 3)]),
)
_lost(
    "alter",
    b"/partitions/0/state",
    AlterPartition("t", TOPIC.id, 0, 0, SHRUNK),
    after=BASE.with_topics([replace(TOPIC, partitions=(SHRUNK, STATE))]),
)
_lost(
    "mark", b"/admin/delete_topics/t", MarkForDeletion("t", TOPIC.id), after=BASE.with_deleting("t")
)
_lost("delete", b"/brokers/topics/t", DeleteTopic("t", TOPIC.id), after=BASE.without_topics(["t"]))
_lost(
    "configs",
    b"/config/topics/t",
    SetConfigs(TOPIC_RESOURCE, "t", {"a": "1"}, {"a": "2"}),
    after=BASE.with_configs(TOPIC_RESOURCE, "t", {"a": "2"}),
)
_lost(
    "access",
    b"/kafka-acl/Topic/t",
    ChangeAcls(PATTERN, (ENTRY,)),
    after=BASE.with_acls(PATTERN, frozenset([ENTRY])),
)
_lost(
    "no access",
    b"/kafka-acl-extended/prefixed/Group/g",
    ChangeAcls(PREFIX, (), (ENTRY,)),
    after=BASE,
)
_lost(
    "first configs",
    b"/config/brokers/<default>",
    SetConfigs(znodes.BROKER_RESOURCE, "", {}, {"log.cleaner.threads": "2"}),
    after=BASE.with_configs(znodes.BROKER_RESOURCE, "", {"log.cleaner.threads": "2"}),
)


@pytest.mark.parametrize("reply", [True, False], ids=["reply", "request"])
@pytest.mark.parametrize("what", LOST)
async def test_change_with_an_unknown_outcome_is_made_once(
    zookeeper: ZooKeeperProcess, unique: str, what: str, reply: bool
) -> None:
    part, act, expected = LOST[what]
    async with proxied(zookeeper.port) as proxy:
        async with opened(proxy.connect(unique), has_acls=True) as store:
            await leading(store)
            await store.commit([CreateTopic(TOPIC, {"a": "1"})])
            if "no access" in what:
                await store.commit([ChangeAcls(PREFIX, (ENTRY,))])
            proxy.lose(part, reply=reply)
            await act(store)
            assert proxy.lost.is_set()
            _same(store.image, expected)
            await store.resign()
        async with opened(zookeeper.connect(f"/{unique}"), 2, has_acls=True) as other:
            assert await other.campaign()
            _same(other.image, expected)


def _same(image: ClusterImage, expected: ClusterImage) -> None:
    assert topics_of(image) == topics_of(expected)
    assert image.configs == expected.configs
    assert image.deleting == expected.deleting
    assert image.acls == expected.acls


@pytest.mark.parametrize("reply", [True, False], ids=["reply", "request"])
async def test_election_with_an_unknown_outcome_has_one_controller(
    zookeeper: ZooKeeperProcess, unique: str, reply: bool
) -> None:
    async with (
        proxied(zookeeper.port) as proxy,
        opened(zookeeper.connect(f"/{unique}"), 2) as other,
        opened(proxy.connect(unique)) as store,
    ):
        proxy.lose(b"/controller", reply=reply)
        assert await store.campaign()
        assert proxy.lost.is_set()
        await store.commit([CreateTopic(TOPIC)])
        assert not await other.campaign()
        image = await other.shows(lambda image: image.controller_id == 1)
        assert image.controller_epoch == store.image.controller_epoch
        proxy.lose(b"/controller", reply=reply)
        await store.resign()
        assert proxy.lost.is_set()
        await store.resign()  # of a lost request it is the controller still
        await other.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert await other.campaign()


@pytest.mark.parametrize("reply", [True, False], ids=["reply", "request"])
async def test_registration_with_an_unknown_outcome_is_made(
    zookeeper: ZooKeeperProcess, unique: str, reply: bool
) -> None:
    async with (
        proxied(zookeeper.port) as proxy,
        opened(zookeeper.connect(f"/{unique}"), 2) as other,
        opened(proxy.connect(unique)) as store,
    ):
        proxy.lose(b"/brokers/ids/1", reply=reply)
        image = await store.register(broker(1))
        assert proxy.lost.is_set()
        await other.shows(lambda known: known.brokers == image.brokers)
        proxy.lose(znodes.PRODUCER_ID_BLOCK.encode(), reply=reply)
        given = [*await store.allocate_producer_ids(10), *await other.allocate_producer_ids(10)]
        assert proxy.lost.is_set()
        assert len(set(given)) == 20


# -- fencing


async def test_late_write_of_an_old_controller_is_never_made(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    """The write is in flight when another controller is elected, and arrives afterwards."""
    connect = zookeeper.connect(f"/{unique}")
    async with (
        proxied(zookeeper.port) as proxy,
        opened(connect, 2) as other,
        opened(proxy.connect(unique)) as store,
        trio.open_nursery() as nursery,
    ):
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        proxy.hold()
        refused = trio.Event()

        async def write() -> None:
            shrunk = AlterPartition("t", TOPIC.id, 0, 0, SHRUNK)
            made = CreateTopic(TopicImage("u", b"u" * 16, (STATE,)))
            with pytest.raises(Fenced):
                await store.commit([shrunk, made])
            refused.set()

        nursery.start_soon(write)
        await proxy.waiting.wait()
        await other.session.multi([other.session.delete(znodes.CONTROLLER)])
        await other.next_event(ControllerGone)
        assert await other.campaign()
        proxy.release()
        await refused.wait()
        image = await store.shows(lambda image: image.controller_id == 2)
        assert not image.topics
        assert not store.is_controller
        await other.resign()
        assert await store.campaign()
        assert topics_of(store.image) == {"t": TOPIC}


async def test_write_in_flight_when_the_session_ends_raises_fenced(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    """Nobody else was elected: ZooKeeper may make it, but it does not get into this image."""
    async with (
        proxied(zookeeper.port) as proxy,
        opened(proxy.connect(unique), session_timeout_ms=SHORT_MS) as store,
        trio.open_nursery() as nursery,
    ):
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        proxy.hold()
        refused = trio.Event()

        async def write() -> None:
            with pytest.raises(Fenced):
                await store.commit([CreateTopic(TopicImage("u", b"u" * 16, (STATE,)))])
            refused.set()

        nursery.start_soon(write)
        await store.next_event(SessionLost)
        proxy.release()
        await refused.wait()
        assert not store.image.topics
        await store.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert await store.campaign()
        assert {"t"} <= set(store.image.topics) <= {"t", "u"}


async def test_campaign_fails_if_the_term_ends_while_topics_are_read(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect, 2) as other:
        await leading(other, 2)
        await other.commit([CreateTopic(TOPIC)])
        await other.resign()
        async with (
            proxied(zookeeper.port) as proxy,
            opened(proxy.connect(unique), session_timeout_ms=SHORT_MS) as store,
            trio.open_nursery() as nursery,
        ):
            await store.next_event(ControllerGone)
            over = trio.Event()

            async def campaign() -> None:
                with contextlib.suppress(Fenced):
                    assert not await store.campaign()
                over.set()

            nursery.start_soon(campaign)
            await other.shows(lambda image: image.controller_id == 1)
            proxy.hold()
            await store.next_event(SessionLost)
            proxy.release()
            await over.wait()
            await store.shows(lambda image: image.controller_id == NO_CONTROLLER)
            assert not store.image.topics


async def test_concurrently_written_partition_is_a_conflict_and_gets_into_the_image(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    """Leaders of Apache Kafka before 2.7 wrote the ISR themselves, beside the controller."""
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect) as store, opened(connect, 2) as other:
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        path, session = znodes.state_path("t", 0), other.session
        await session.multi([session.set_data(path, znodes.encode_state(SHRUNK), 0)])
        with pytest.raises(Conflict):
            await store.commit([AlterPartition("t", TOPIC.id, 0, 0, replace(SHRUNK, leader=2))])
        assert store.image.topics["t"].partitions == (SHRUNK, STATE)
