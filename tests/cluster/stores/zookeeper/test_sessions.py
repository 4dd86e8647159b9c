"""Outcome of each failure of a broker's session, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import trio
import trio.testing
from kazoo.client import KazooClient

from kwire.cluster.metadata.changes import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
)
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    TOPIC_RESOURCE,
)
from kwire.cluster.stores.contract import (
    ControllerGone,
    Fenced,
    SessionLost,
    SessionResumed,
    SessionSuspended,
    StoreError,
)
from kwire.testing import ZooKeeperProcess
from tests.cluster.observing import PATIENCE_S, broker
from tests.cluster.stores.zookeeper.proxy import proxied
from tests.cluster.stores.zookeeper.stores import (
    SHORT_MS,
    STATE,
    TOPIC,
    Observed,
    leading,
    opened,
    topics_of,
    untroubled,
)

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def fragile(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperProcess
) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper for the tests of this file."""
    directory = tmp_path_factory.mktemp("fragile")
    with ZooKeeperProcess(directory, {"forceSync": "no"}, jars=zookeeper.jars) as process:
        yield process


@pytest.fixture
def own_zookeeper(fragile: ZooKeeperProcess) -> ZooKeeperProcess:
    """A ZooKeeper that a test may pause, kill and restart."""
    if not fragile.running:
        fragile.start()
    return fragile


def expire(store: Observed, zookeeper: ZooKeeperProcess) -> None:
    """Make ZooKeeper end a store's session: another client takes the session over and closes it."""
    link = store.session._link
    assert link is not None
    session = link.client.client_id
    is_there = True
    while is_there:  # the store may take it back before it is closed
        client = KazooClient(zookeeper.address, client_id=session)
        client.start(timeout=PATIENCE_S)
        is_there = client.client_id[0] == session[0]
        client.stop()
        client.close()


# -- lost and found


async def test_resumed_session_publishes_changes_made_meanwhile(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with (
        proxied(zookeeper.port) as proxy,
        opened(connect, 2) as other,
        opened(proxy.connect(unique)) as store,
    ):
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        session_id, epochs = store.session.id, store.image.brokers[1].epoch
        proxy.refuse()
        await store.next_event(SessionSuspended)
        await other.register(broker(2))
        await other.commit([SetConfigs(TOPIC_RESOURCE, "t", {}, {"retention.ms": "7"})])
        proxy.accept()
        await store.next_event(SessionResumed)
        image = await store.shows(lambda image: 2 in image.brokers)
        await store.shows(lambda image: bool(image.configs_of(TOPIC_RESOURCE, "t")))
        assert store.session.id == session_id
        assert image.brokers[1].epoch == epochs
        assert store.is_controller
        grown = await store.commit([AddPartitions("t", TOPIC.id, 2, (STATE,))])
        assert grown.topics["t"].partitions == (STATE,) * 3
        # Watches are left again: also what comes later is heard.
        await other.register(replace(broker(2), rack="later"))
        await store.shows(lambda image: image.brokers[2].rack == "later")


async def test_connections_without_answer_do_not_end_the_session(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    """A starting ZooKeeper, or a host without power, leaves connections without an answer."""
    async with (
        proxied(zookeeper.port) as proxy,
        opened(proxy.connect(unique)) as store,
    ):
        await leading(store)
        session_id = store.session.id
        proxy.ignore(2)
        await store.next_event(SessionSuspended)
        await store.next_event(SessionResumed)
        assert store.session.id == session_id
        assert not any(isinstance(each, SessionLost) for each in store.events)
        assert (await store.commit([CreateTopic(TOPIC)])).topics["t"] == TOPIC


async def test_expired_session_ends_the_term_and_the_registration(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect) as store, opened(connect, 2) as other:
        await leading(store)
        before = await store.commit([CreateTopic(TOPIC)])
        await other.shows(lambda image: image.controller_id == 1)
        await trio.to_thread.run_sync(expire, store, zookeeper)
        await store.next_event(SessionLost)
        assert not store.is_controller
        image = await store.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert not image.topics
        assert TOPIC.name in {name for _, delta in store.seen for name in delta.deleted}
        with pytest.raises(Fenced):
            await store.commit([DeleteTopic("t", TOPIC.id)])
        await other.next_event(ControllerGone)
        await other.shows(lambda image: 1 not in image.brokers)
        again = await store.register(broker(1))
        assert again.brokers[1].epoch > before.brokers[1].epoch
        await other.shows(lambda image: image.brokers.get(1) == again.brokers[1])
        assert await store.campaign()
        assert topics_of(store.image) == {"t": TOPIC}
        assert store.image.controller_epoch == before.controller_epoch + 1


async def test_registration_is_repeated_if_its_session_ended_before_the_reply(
    zookeeper: ZooKeeperProcess, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect) as store, opened(connect, 2) as other:
        write, made = store.session.multi, list[object]()

        async def write_and_expire(operations: Sequence[object]) -> list[object]:
            results = await write(operations)
            if not made:
                made.append(results[-1].czxid)
                await trio.to_thread.run_sync(expire, store, zookeeper)
                await store.next_event(SessionLost)
            return results

        monkeypatch.setattr(store.session, "multi", write_and_expire)
        image = await store.register(broker(1))
        assert image.brokers[1].epoch != made[0]
        await other.shows(lambda known: known.brokers.get(1) == image.brokers[1])
        assert untroubled(store)


async def test_session_expired_by_the_clock_is_lost_without_zookeeper(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    """Other brokers no longer see its ephemeral znodes, but nobody can tell this broker."""
    connect = zookeeper.connect(f"/{unique}")
    async with (
        proxied(zookeeper.port) as proxy,
        opened(connect, 2) as other,
        opened(proxy.connect(unique), session_timeout_ms=SHORT_MS) as store,
    ):
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        await other.shows(lambda image: image.controller_id == 1)
        proxy.hold()
        await store.next_event(SessionSuspended)
        await store.next_event(SessionLost)
        assert not store.is_controller
        assert not store.image.topics
        await other.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert await other.campaign()
        proxy.release()
        await store.shows(lambda image: image.controller_id == 2)
        image = await store.register(broker(1))
        await other.shows(lambda known: known.brokers.get(1) == image.brokers[1])
        assert not await store.campaign()


# -- ZooKeeper itself falters


async def test_session_continues_after_zookeeper_pauses(
    own_zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = own_zookeeper.connect(f"/{unique}")
    async with opened(connect) as store, trio.open_nursery() as nursery:
        await leading(store)
        own_zookeeper.pause()
        nursery.start_soon(store.commit, [CreateTopic(TOPIC)])
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert not store.image.topics
        own_zookeeper.resume()
        assert (await store.shows(lambda image: "t" in image.topics)).topics["t"] == TOPIC
        assert untroubled(store)


async def test_session_continues_after_zookeeper_restarts_in_time(
    own_zookeeper: ZooKeeperProcess, unique: str
) -> None:
    async with opened(own_zookeeper.connect(f"/{unique}")) as store, trio.open_nursery() as nursery:
        await leading(store)
        await store.commit([CreateTopic(TOPIC)])
        before = store.image
        own_zookeeper.kill()
        await store.next_event(SessionSuspended)
        nursery.start_soon(store.commit, [SetConfigs(TOPIC_RESOURCE, "t", {}, {"a": "b"})])
        await trio.to_thread.run_sync(own_zookeeper.start)
        await store.next_event(SessionResumed)
        image = await store.shows(lambda image: bool(image.configs_of(TOPIC_RESOURCE, "t")))
        assert (image.brokers, image.topics) == (before.brokers, before.topics)
        assert store.is_controller


async def test_session_is_lost_when_zookeeper_is_away_for_longer(
    own_zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = own_zookeeper.connect(f"/{unique}")
    async with (
        opened(connect, session_timeout_ms=SHORT_MS) as store,
        opened(connect, 2, session_timeout_ms=SHORT_MS) as other,
    ):
        await leading(store)
        await other.register(broker(2))
        before = await store.commit([CreateTopic(TOPIC)])
        own_zookeeper.kill()
        for each in (store, other):
            await each.next_event(SessionLost)
        await trio.to_thread.run_sync(own_zookeeper.start)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.register, broker(1))
            nursery.start_soon(other.register, broker(2))
        await store.shows(lambda image: set(image.brokers) == {1, 2})
        while not await other.campaign():  # what the old sessions left may be there still
            await other.next_event(ControllerGone)
        assert topics_of(other.image) == {"t": TOPIC}
        assert other.image.controller_epoch == before.controller_epoch + 1
        assert min(each.epoch for each in other.image.brokers.values()) > before.brokers[1].epoch


async def test_unreachable_zookeeper_is_a_store_error_within_the_timeout(
    own_zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = own_zookeeper.connect(f"/{unique}")
    async with opened(connect, connection_timeout_ms=8_000) as store:
        await leading(store)
        own_zookeeper.kill()
        await store.next_event(SessionSuspended)
        with pytest.raises(StoreError, match="was not reached within"):
            await store.commit([CreateTopic(TOPIC)])
    with pytest.raises(ExceptionGroup):
        async with opened(connect, connection_timeout_ms=500):
            raise AssertionError("there is no ZooKeeper")


async def test_slow_zookeeper_does_not_end_the_session(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    async with proxied(zookeeper.port) as proxy, opened(proxy.connect(unique)) as store:
        await leading(store)
        proxy.delay_s = 0.02
        names = [f"t{number}" for number in range(20)]
        async with trio.open_nursery() as nursery:
            for number, name in enumerate(names, 1):
                topic = replace(TOPIC, name=name, id=bytes([number]) * 16)
                nursery.start_soon(store.commit, [CreateTopic(topic)])
        assert set(store.image.topics) == set(names)
        assert untroubled(store)


# -- registration


async def test_registration_waits_until_that_of_an_earlier_process_has_expired(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with (
        proxied(zookeeper.port) as proxy,
        opened(proxy.connect(unique), session_timeout_ms=SHORT_MS) as killed,
    ):
        first = await killed.register(broker(1))
        proxy.refuse()  # no goodbye reaches ZooKeeper
        await killed.next_event(SessionSuspended)
        async with opened(connect) as store:
            assert 1 in store.image.brokers
            image = await store.register(replace(broker(1), rack="again"))
            assert image.brokers[1].epoch > first.brokers[1].epoch
            assert image.brokers[1].rack == "again"


async def test_registration_error_names_the_live_broker_with_the_same_id(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect) as store, trio.open_nursery() as nursery:
        await store.register(broker(1))
        second = Observed(store._config, 1)
        await nursery.start(second.run)
        # How long it tries; the session's own timeout stays as it is.
        second._config = replace(store._config, session_timeout_ms=500, connection_timeout_ms=500)
        with pytest.raises(StoreError, match=r"registered .* by another broker, at localhost:9001"):
            await second.register(replace(broker(1), rack="second"))
        second.close()
        assert store.image.brokers[1].rack == "rack"


async def test_registration_refused_by_zookeeper_names_no_other_broker(
    zookeeper: ZooKeeperProcess, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    async with opened(connect) as store:
        client = KazooClient(connect)
        client.start(timeout=PATIENCE_S)
        client.delete("/brokers/ids")
        client.stop()
        client.close()
        # How long it tries; the session's own timeout stays as it is.
        store._config = replace(store._config, session_timeout_ms=500, connection_timeout_ms=500)
        with pytest.raises(StoreError, match="did not register broker 1 in 1 s"):
            await store.register(broker(1))
