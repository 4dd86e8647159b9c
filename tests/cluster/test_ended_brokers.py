"""What clients are answered while leaders are elected for a broker that ended, and just after."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.broker.broker import Broker
from kwire.cluster.membership.ended import DEPARTED_MS, ELECTION_MS
from kwire.cluster.membership.member import ClusterMember
from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.metadata.image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC
from kwire.cluster.peers.peers import Peers
from kwire.cluster.stores.contract import BrokerEnded
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.requests.context import Context
from kwire.requests.handlers import find_coordinator, metadata
from tests.cluster.test_member import Store
from tests.inside import running_broker

ENDED, OTHER = 2, 3
LISTENER = "PLAINTEXT"
LED = PartitionImage(ENDED, 4, 0, (ENDED, OTHER), (ENDED, OTHER))
"""A partition that the broker that ends leads."""
IDS = {"led": b"l" * 16, "foreign": b"f" * 16, GROUP_METADATA_TOPIC: b"g" * 16}
GIVEN = MetadataRequest([MetadataRequestTopic(name="led")], allow_auto_topic_creation=False)


class Stage:
    """A member of a cluster with the brokers ENDED and OTHER; ENDED leads `led` and the groups."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self.broker, self.store = broker, store
        brokers = [
            BrokerImage(each, (Endpoint(LISTENER, f"host{each}", 9092),)) for each in (ENDED, OTHER)
        ]
        image = broker.image
        for each in brokers:
            image = image.with_broker(each)
        self.show(image)
        self.lead("led", ENDED)
        self.lead("foreign", OTHER)
        self.lead(GROUP_METADATA_TOPIC, ENDED)

    def show(self, image: ClusterImage) -> None:
        """Show clients this image, as after UpdateMetadata."""
        member = self.broker.membership
        assert isinstance(member, ClusterMember)
        image = image.with_version(self.broker.image.version + 1)
        self.broker.node.metadata.apply(image, delta_between(self.broker.image, image))
        member.metadata_updated()

    def lead(self, topic: str, leader: int) -> None:
        """Elect `leader` for the only partition of the topic."""
        image = self.broker.image
        state = replace(LED, leader=leader, leader_epoch=LED.leader_epoch + 1)
        self.show(image.with_topics([TopicImage(topic, IDS[topic], (state,))]))

    def end_broker(self) -> None:
        assert self.store.on_event is not None
        self.store.on_event(BrokerEnded(ENDED))

    def ask(self, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
        return metadata.handle(self.broker, request, self._context(12))

    def find(self) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        return find_coordinator.handle(self.broker, request, self._context(4))

    @staticmethod
    def _context(version: int) -> Context:
        return Context(LISTENER, "127.0.0.1", "test", api_version=version)


@asynccontextmanager
async def member(directory: Path) -> AsyncIterator[Stage]:
    async with running_broker(directory) as broker, trio.open_nursery() as nursery:
        store = Store()
        broker.membership = ClusterMember(broker.node, store, nursery, broker.give_up)
        await broker.membership.join()
        yield Stage(broker, store)
        nursery.cancel_scope.cancel()


def leaders(response: object) -> dict[str | None, int]:
    assert isinstance(response, MetadataResponse)
    return {topic.name: topic.partitions[0].leader_id for topic in response.topics}


def brokers(response: object) -> set[int]:
    assert isinstance(response, MetadataResponse)
    return {broker.node_id for broker in response.brokers}


class Pending:
    """An answer that is awaited in a task; `response` is set once it has come."""

    def __init__(self, nursery: trio.Nursery, answer: object) -> None:
        assert isinstance(answer, Awaitable), answer
        self.response: Any = None
        nursery.start_soon(self._wait, answer)

    @property
    def has_answer(self) -> bool:
        return self.response is not None

    async def _wait(self, answer: Awaitable[object]) -> None:
        self.response = await answer


async def test_metadata_of_an_ended_leader_waits_for_the_election(tmp_path: Path) -> None:
    async with member(tmp_path) as stage, trio.open_nursery() as nursery:
        assert leaders(stage.ask(GIVEN)) == {"led": ENDED}
        stage.end_broker()
        by_name = Pending(nursery, stage.ask(GIVEN))
        by_id = MetadataRequest([MetadataRequestTopic(topic_id=IDS["led"], name=None)])
        waiting = [by_name, Pending(nursery, stage.ask(by_id))]
        of_all = Pending(nursery, stage.ask(MetadataRequest(None)))
        await trio.testing.wait_all_tasks_blocked()
        assert not any(each.has_answer for each in (*waiting, of_all))

        stage.lead("led", OTHER)
        await trio.testing.wait_all_tasks_blocked()
        assert [leaders(each.response) for each in waiting] == [{"led": OTHER}] * 2
        assert not of_all.has_answer
        stage.lead(GROUP_METADATA_TOPIC, OTHER)
        await trio.testing.wait_all_tasks_blocked()
        assert set(leaders(of_all.response).values()) == {OTHER}


async def test_metadata_of_topics_with_other_leaders_comes_at_once(tmp_path: Path) -> None:
    async with member(tmp_path) as stage:
        stage.end_broker()
        names = [MetadataRequestTopic(name=name) for name in ("foreign", "none")]
        response = stage.ask(MetadataRequest(names, allow_auto_topic_creation=False))
        assert isinstance(response, MetadataResponse)
        assert [topic.error_code for topic in response.topics] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_metadata_waits_while_the_ended_broker_is_gone_but_nobody_elected(
    tmp_path: Path,
) -> None:
    """A new controller first sends the list of brokers alone."""
    async with member(tmp_path) as stage, trio.open_nursery() as nursery:
        stage.end_broker()
        pending = Pending(nursery, stage.ask(GIVEN))
        stage.show(stage.broker.image.without_broker(ENDED))
        await trio.testing.wait_all_tasks_blocked()
        assert not pending.has_answer
        stage.lead("led", -1)  # no replica can lead
        await trio.testing.wait_all_tasks_blocked()
        assert leaders(pending.response) == {"led": -1}


async def test_coordinator_of_an_ended_broker_waits_for_the_election(tmp_path: Path) -> None:
    async with member(tmp_path) as stage, trio.open_nursery() as nursery:
        stage.end_broker()
        pending = Pending(nursery, stage.find())
        await trio.testing.wait_all_tasks_blocked()
        assert not pending.has_answer
        stage.lead(GROUP_METADATA_TOPIC, OTHER)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.node_id for each in pending.response.coordinators] == [OTHER]


async def test_metadata_without_an_election_comes_after_the_limit(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with member(tmp_path) as stage:
        stage.end_broker()
        start_s = trio.current_time()
        answer = stage.ask(GIVEN)
        assert isinstance(answer, Awaitable)
        assert leaders(await answer) == {"led": ENDED}
        assert trio.current_time() - start_s == pytest.approx(ELECTION_MS / 1000)
        assert leaders(stage.ask(GIVEN)) == {"led": ENDED}  # later requests do not wait


@pytest.mark.parametrize("has_sessions", [False, True])
async def test_broken_connection_to_a_leader_counts_as_its_end_unless_there_are_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_sessions: bool
) -> None:
    monkeypatch.setattr(Store, "can_register_again", has_sessions)
    async with member(tmp_path) as stage:
        membership = stage.broker.membership
        assert isinstance(membership, ClusterMember)
        membership.leader_lost(ENDED)
        assert set(membership.ended_brokers) == (set() if has_sessions else {ENDED})


async def test_departed_broker_is_named_in_answers_about_topics_for_two_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """librdkafka forgets new leaders in an answer that does not name the former one."""
    lists = [MetadataRequest(None), MetadataRequest([])]
    async with member(tmp_path) as stage:
        present = brokers(stage.ask(GIVEN))
        stage.show(stage.broker.image.without_broker(ENDED))
        assert brokers(stage.ask(GIVEN)) == present
        assert [brokers(stage.ask(each)) for each in lists] == [present - {ENDED}] * 2
        await trio.sleep(DEPARTED_MS / 1000)
        assert brokers(stage.ask(GIVEN)) == present - {ENDED}


async def test_departed_broker_that_comes_back_is_named_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with member(tmp_path) as stage:
        image = stage.broker.image
        stage.show(image.without_broker(ENDED))
        stage.show(stage.broker.image.with_broker(image.brokers[ENDED]))
        response = stage.ask(GIVEN)
        assert isinstance(response, MetadataResponse)
        assert [each.node_id for each in response.brokers].count(ENDED) == 1


async def test_broken_connection_counts_before_its_call_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(tmp_path) as stage:
        membership = stage.broker.membership
        assert isinstance(membership, ClusterMember)
        monkeypatch.setattr(Peers, "broken", lambda _, role: [ENDED])
        monkeypatch.setattr(Store, "can_register_again", True)
        assert not membership.ended_brokers
        monkeypatch.setattr(Store, "can_register_again", False)
        assert set(membership.ended_brokers) == {ENDED}
