"""Registration, election and session of a store, on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio
from kazoo.exceptions import (
    KazooException,
    RolledBackError,
)
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.changes import CreateTopic, SetConfigs
from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.cluster.stores.contract import (
    ControllerGone,
    SessionLost,
    SessionResumed,
    SessionSuspended,
    StoreError,
)
from kwire.cluster.stores.zookeeper import znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from tests.cluster.observing import broker
from tests.cluster.stores.zookeeper.memory import Answering, Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    MEMORY,
    TOPIC,
    Observed,
    at_rest,
    controlling,
    opened,
)

# -- what a store makes of it


async def test_store_reports_a_suspended_and_a_resumed_session(ensemble: Ensemble) -> None:
    async with controlling(CreateTopic(TOPIC)) as store:
        store.events.clear()
        link = ensemble.links[store.session.id]
        link.suspend()
        assert [*map(type, store.events)] == [SessionSuspended]
        ensemble.put(znodes.broker_path(2), znodes.encode_broker(broker(2), 1))
        link.resume()
        assert [*map(type, store.events)] == [SessionSuspended, SessionResumed]
        await store.shows(lambda image: 2 in image.brokers)
        assert store.is_controller
        assert "t" in store.image.topics
        ensemble.expire(link)
        await store.session.connected()
        assert [*map(type, store.events)][2:] == [SessionLost], "a new session is no way back"


async def test_lost_session_ends_the_term_and_removes_the_topics(
    ensemble: Ensemble,
) -> None:
    async with controlling(CreateTopic(TOPIC, {"a": "1"})) as store:
        store.events.clear()
        epoch = store.image.controller_epoch
        ensemble.expire(ensemble.links[store.session.id])
        assert not store.is_controller
        assert not store.image.topics
        assert not store.versions.topics
        assert (store.image.controller_id, store.image.controller_epoch) == (NO_CONTROLLER, epoch)
        assert store.image.configs_of(2, "t") == {"a": "1"}, "settings are everybody's"
        assert [*map(type, store.events)] == [SessionLost]
        await store.next_event(ControllerGone)
        await store.shows(lambda image: not image.brokers)
        assert await store.campaign()
        assert store.image.controller_epoch == epoch + 1


async def test_closed_store_reports_nothing_and_ends(ensemble: Ensemble) -> None:
    async with at_rest() as store:
        seen, link = len(store.seen), ensemble.links[store.session.id]
        store.close()
        assert store.on_event is None
        store.publish(store.image.with_controller(9, 9), ())
        await wait_all_tasks_blocked()
        assert len(store.seen) == seen
        assert link.session_id not in ensemble.links


# -- registration


async def test_registration_waits_until_that_of_another_session_has_expired(
    ensemble: Ensemble, autojump_clock: MockClock
) -> None:
    async with at_rest() as store:
        path = znodes.broker_path(1)
        ensemble.put(path, znodes.encode_broker(broker(1), 1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.register, replace(broker(1), rack="again"))
            await trio.sleep(10)
            assert znodes.decode_broker(1, ensemble.znode(path).content).rack == "rack"
            ensemble.drop(path)
        image = await store.load()
        znode = ensemble.znode(path)
        assert image.brokers[1] == replace(broker(1), rack="again", epoch=znode.czxid)
        assert znode.owner == store.session.id


async def test_registration_held_by_a_live_broker_raises_an_error_with_its_address(
    ensemble: Ensemble, autojump_clock: MockClock
) -> None:
    async with opened(MEMORY, session_timeout_ms=3_000, connection_timeout_ms=4_500) as store:
        endpoints = (*broker(1).endpoints, *broker(2).endpoints)
        other = replace(broker(1), endpoints=endpoints)
        ensemble.put(znodes.broker_path(1), znodes.encode_broker(other, 1))
        began_at = trio.current_time()
        with pytest.raises(
            StoreError,
            match=r"broker\.id 1 is registered in ZooKeeper by another broker, at localhost:9001,"
            " localhost:9002: give this broker an id of its own",
        ):
            await store.register(broker(1))
        assert trio.current_time() == began_at + 7.5


async def test_refused_registration_raises_an_error_with_the_time_tried(
    ensemble: Ensemble, autojump_clock: MockClock
) -> None:
    async with opened(MEMORY, session_timeout_ms=3_000, connection_timeout_ms=4_500) as store:
        ensemble.drop(znodes.BROKER_IDS)
        with pytest.raises(StoreError, match=r"did not register broker 1 in 7\.5 s"):
            await store.register(broker(1))


async def test_registration_of_an_earlier_session_of_this_process_is_replaced(
    ensemble: Ensemble,
) -> None:
    async with at_rest() as store:
        first = (await store.register(broker(1))).brokers[1]
        path = znodes.broker_path(1)
        znode = ensemble.znode(path)
        store.session.ids.add(77)
        znode.owner = 77
        second = (await store.register(broker(1))).brokers[1]
        assert second.epoch > first.epoch
        assert ensemble.znode(path).owner == store.session.id
        # One of its own session keeps its epoch, for nobody has seen it go.
        third = (await store.register(replace(broker(1), rack="moved"))).brokers[1]
        assert third == replace(second, rack="moved")


async def test_registration_has_its_timestamp(ensemble: Ensemble) -> None:
    async with trio.open_nursery() as nursery:
        store = Observed(ZooKeeperConfig(MEMORY), 1)
        store._now_ms = lambda: 1_234
        await nursery.start(store.run)
        await store.register(broker(1))
        assert ensemble.znode("/brokers/ids/1").content == znodes.encode_broker(broker(1), 1_234)
        assert await store.campaign()
        assert ensemble.znode("/controller").content == znodes.encode_controller(1, 1_234)
        store.close()


async def test_registration_is_repeated_if_its_session_ended_before_the_reply(
    ensemble: Ensemble, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_rest() as store:
        write, made = store.session.multi, list[int]()

        async def write_and_expire(operations: Sequence[Any]) -> list[Any]:
            results = await write(operations)
            if not made:
                made.append(results[-1].czxid)
                ensemble.expire(ensemble.links[store.session.id])
            return results

        monkeypatch.setattr(store.session, "multi", write_and_expire)
        image = await store.register(broker(1))
        assert image.brokers[1].epoch > made[0]
        assert ensemble.znode("/brokers/ids/1").owner == store.session.id


# -- elections


async def test_controller_znode_of_an_earlier_session_of_this_process_is_replaced(
    ensemble: Ensemble,
) -> None:
    async with controlling() as store:
        store.end_term(NO_CONTROLLER, store.image.controller_epoch)
        assert not store.is_controller
        assert await store.campaign(), "what is left is its own"
        assert store.image.controller_epoch == 2
        assert ensemble.znode(znodes.CONTROLLER).owner == store.session.id


async def test_campaign_fails_if_another_broker_is_elected_meanwhile(ensemble: Ensemble) -> None:
    async with at_rest() as store:

        def elect(link: MemoryLink, operations: Sequence[Any]) -> None:
            ensemble.before_write = lambda link, operations: None
            ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
            ensemble.put(znodes.CONTROLLER, znodes.encode_controller(2, 0))

        ensemble.before_write = elect
        assert not await store.campaign()
        assert (store.image.controller_id, store.image.controller_epoch) == (2, 7)


async def test_election_refused_for_another_reason_is_a_store_error(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_rest() as store:
        ensemble.put(znodes.CONTROLLER_EPOCH, b"7")
        link = ensemble.links[store.session.id]
        Answering(monkeypatch, link, "multi").next([KazooException("odd"), RolledBackError()])
        with pytest.raises(StoreError, match="ZooKeeper refused an election: operation 0"):
            await store.campaign()
        assert not store.is_controller


async def test_first_controller_has_epoch_one(ensemble: Ensemble) -> None:
    async with controlling() as store:
        assert store.image.controller_epoch == 1
        assert ensemble.znode(znodes.CONTROLLER_EPOCH).content == b"1"
        assert store.is_own_term(1, 1, store.session.id)
        for other in ((2, 1, store.session.id), (1, 2, store.session.id), (1, 1, 99)):
            assert not store.is_own_term(*other)
        await store.resign()
        assert not store.is_own_term(1, 1, store.session.id)
        await store.resign()  # it is not the controller: nothing happens
        assert znodes.CONTROLLER not in ensemble.znodes


# -- ids of producers


async def test_producer_id_block_starts_after_the_last_one(ensemble: Ensemble) -> None:
    async with at_rest(7) as store:
        assert await store.allocate_producer_ids(10) == range(10)
        ensemble.links[store.session.id].loses_next_reply = True
        assert await store.allocate_producer_ids(5) == range(15, 20), "10 to 14 may be taken"
        content = ensemble.znode(znodes.PRODUCER_ID_BLOCK).content
        assert content == znodes.encode_producer_ids(7, range(15, 20))
        ensemble.drop(znodes.PRODUCER_ID_BLOCK)
        assert await store.allocate_producer_ids(1) == range(1)


async def test_producer_id_block_taken_by_another_broker_is_not_returned(
    ensemble: Ensemble,
) -> None:
    async with at_rest() as store:

        def take(link: MemoryLink, operations: Sequence[Any]) -> None:
            ensemble.before_write = lambda link, operations: None
            other = znodes.encode_producer_ids(2, range(1000))
            ensemble.put(znodes.PRODUCER_ID_BLOCK, other)

        ensemble.before_write = take
        assert await store.allocate_producer_ids(10) == range(1000, 1010)


async def test_config_changes_are_published_in_a_new_session_too(ensemble: Ensemble) -> None:
    async with at_rest() as store, at_rest(2) as other:
        ensemble.expire(ensemble.links[store.session.id])
        await store.session.connected()
        await wait_all_tasks_blocked()
        await other.commit([SetConfigs(4, "1", {}, {"a": "1"})])
        await store.shows(lambda image: image.configs_of(4, "1") == {"a": "1"})
