"""A member of a cluster: its sessions, what it takes from the store, and how it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.cluster.membership.member import ClusterMember
from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ResourceKey
from kwire.cluster.metadata.quorum import MetadataQuorum
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import SessionLost, StoreError, StoreEvent, Watcher
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest
from kwire.codecs.primitives import Message
from kwire.settings import ConfigResourceType
from tests.inside import running_broker


class Store:
    """A ClusterStore of one member; each session registers it with a new epoch."""

    can_register_again = True

    def __init__(self) -> None:
        self.on_event: Callable[[StoreEvent], None] | None = None
        self.session = 1
        self.reachable = trio.Event()
        self.reachable.set()
        self.image = ClusterImage("c")

    def lose_session(self) -> None:
        self.session += 1
        assert self.on_event is not None
        self.on_event(SessionLost())

    async def register(self, broker: BrokerImage) -> ClusterImage:
        await self.reachable.wait()
        known = BrokerImage(broker.id, broker.endpoints, epoch=self.session)
        self.image = self.image.with_broker(known)
        return self.image

    async def load(self) -> ClusterImage:
        return self.image

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        return self.image

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        return self.image

    async def campaign(self) -> bool:
        return False

    async def has_topics(self) -> bool:
        return False

    async def drop_reassignments(self, places: Iterable[tuple[str, int]]) -> None:
        pass

    async def log_dir_failed(self) -> None:
        pass

    async def resign(self) -> None:
        pass

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        raise StoreError("this store has none")

    async def allocate_producer_ids(self, count: int) -> range:
        return range(count)

    def watch(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def close(self) -> None:
        pass


async def test_session_lost_before_the_registration_is_not_handled_again(
    tmp_path: Path,
) -> None:
    """Otherwise the broker takes its controller's requests for those of an earlier registration."""
    async with running_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        store = Store()
        member = broker.membership = ClusterMember(broker.node, store, nursery, broker.give_up)
        await member.join()
        store.reachable = trio.Event()
        for _ in range(2):
            store.lose_session()
            await trio.testing.wait_all_tasks_blocked()
        store.reachable.set()
        await trio.testing.wait_all_tasks_blocked()
        assert store.image.brokers[broker.node_id].epoch == 3
        request = UpdateMetadataRequest(controller_epoch=1, broker_epoch=3)
        answer = member.controller_requests.update_metadata(request)
        assert answer.error_code == ErrorCode.NONE

        store.lose_session()
        await trio.testing.wait_all_tasks_blocked()
        answer = member.controller_requests.update_metadata(request)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert store.image.brokers[broker.node_id].epoch == 4
        nursery.cancel_scope.cancel()


class Controller:
    """A peer that answers every ControlledShutdown."""

    def __init__(self) -> None:
        self.requests: list[Message] = []

    async def call(self, request: Message) -> ControlledShutdownResponse:
        self.requests.append(request)
        return ControlledShutdownResponse()


@pytest.mark.parametrize("is_alone", [True, False])
async def test_leaving_member_asks_the_controller_if_others_could_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    async with running_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        store, controller = Store(), Controller()
        member = ClusterMember(broker.node, store, nursery, broker.give_up)
        await member.join()
        monkeypatch.setattr(member._host, "controller", lambda: controller)
        image = store.image if is_alone else store.image.with_broker(BrokerImage(77, ()))
        store.watcher(image, ClusterDelta())
        await member.leave()
        asked = ControlledShutdownRequest(broker.node_id, 1)
        assert controller.requests == ([] if is_alone else [asked])
        nursery.cancel_scope.cancel()


class GoneController:
    """A peer whose connection ends while it is asked."""

    async def call(self, request: Message) -> Message:
        raise PeerError("broker 77", "the connection ended")


async def test_member_waits_for_the_news_that_the_controller_unregistered_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """The controller is gone, and may be missing from the brokers, before the store says why."""
    async with running_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        store = Store()
        member = ClusterMember(broker.node, store, nursery, broker.give_up)
        await member.join()
        monkeypatch.setattr(member._host, "controller", GoneController)
        known = BrokerImage(77, ())
        monkeypatch.setattr(
            broker.node.metadata,
            "image",
            replace(member.image, controller_id=77, registered={77: known}),
        )
        with pytest.raises(StoreError, match="the connection ended"):
            await member.unregister_broker(78)
        with pytest.raises(StoreError, match="the connection ended"):
            await member.unregister_broker(77)

        async with trio.open_nursery() as asking:
            asking.start_soon(member.unregister_broker, 77)
            await trio.testing.wait_all_tasks_blocked()
            store.watcher(store.image, ClusterDelta(registered={77: None}))
        assert not member.image.registered
        nursery.cancel_scope.cancel()


async def test_configs_that_the_member_has_already_change_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, trio.open_nursery() as nursery:
        store = Store()
        member = ClusterMember(broker.node, store, nursery, broker.give_up)
        await member.join()
        key = ConfigResourceType.TOPIC, "t"
        store.image = store.image.with_configs(*key, {"retention.ms": "5"})
        await member.read_configs([key])
        image = member.image
        assert image.configs_of(*key) == {"retention.ms": "5"}
        await member.read_configs([key])
        assert member.image is image
        store.image = store.image.with_configs(*key, {})
        await member.read_configs([key])
        assert member.image.configs_of(*key) == {}
        assert member.image.version == image.version + 1
        nursery.cancel_scope.cancel()
