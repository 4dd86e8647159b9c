"""Shared store: writes of earlier controllers and stale writes, and members that leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    Conflict,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
    UnregisterBroker,
)
from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.contract import Fenced, LogDirsFailed, StoreError
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.server import StoreServer, listen
from kwire.cluster.stores.shared.store import SharedStore
from tests.cluster.observing import PATIENCE_S, broker
from tests.cluster.sharing import holding

STATE = PartitionImage(1, 0, 0, (1, 2), (1, 2))
SHRUNK = replace(STATE, isr=(1,), partition_epoch=1)
TOPIC = TopicImage("t", b"t" * 16, (STATE,))
OTHER = TopicImage("u", b"u" * 16, (STATE,))
GROUP_RESOURCE = 32

CONTROLLERS: dict[str, Change] = {
    "create": CreateTopic(OTHER),
    "add": AddPartitions("t", TOPIC.id, 1, (STATE,)),
    "alter": AlterPartition("t", TOPIC.id, 0, 0, SHRUNK),
    "mark": MarkForDeletion("t", TOPIC.id),
    "delete": DeleteTopic("t", TOPIC.id),
}
"""Changes that only the controller may make."""

STALE: dict[str, Change] = {
    "create": CreateTopic(TOPIC),
    "create with a known id": CreateTopic(replace(OTHER, id=TOPIC.id)),
    "add": AddPartitions("t", TOPIC.id, 2, (STATE,)),
    "add to another topic": AddPartitions("t", OTHER.id, 1, (STATE,)),
    "alter": AlterPartition("t", TOPIC.id, 0, 1, SHRUNK),
    "alter another topic": AlterPartition("t", OTHER.id, 0, 0, SHRUNK),
    "mark another topic": MarkForDeletion("t", OTHER.id),
    "delete another topic": DeleteTopic("t", OTHER.id),
    "configs": SetConfigs(GROUP_RESOURCE, "g", {"a": "0"}, {"a": "1"}),
}
"""Changes based on metadata that does not exist, or not any longer."""


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_write_in_an_earlier_controller_epoch_is_fenced(tmp_path: Path, name: str) -> None:
    """A task of the broker's earlier term as controller writes during its next term."""
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        assert await store.campaign()
        await store.commit([CreateTopic(TOPIC)])
        old_epoch = store._epoch
        await store.resign()
        assert await store.campaign()
        assert store._epoch == old_epoch + 1
        store._epoch = old_epoch
        before = store.image
        with pytest.raises(Fenced):
            await store.commit([CONTROLLERS[name]])
        assert store.image == before


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_write_of_a_broker_that_is_not_the_controller_is_fenced(
    tmp_path: Path, name: str
) -> None:
    """A commit with one such change is refused whole, even if any broker may make the others."""
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        assert await first.campaign()
        await first.commit([CreateTopic(TOPIC)])
        configs = SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "b"})
        for changes in ([CONTROLLERS[name]], [configs, CONTROLLERS[name]]):
            before = second.image
            with pytest.raises(Fenced):
                await second.commit(changes)
            assert (await first.load()).version == before.version
        second._epoch = first._epoch  # its epoch alone does not make it the controller
        with pytest.raises(Fenced):
            await second.commit([CONTROLLERS[name]])


@pytest.mark.parametrize("name", STALE)
async def test_write_by_stale_metadata_is_a_conflict_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        assert await store.campaign()
        await store.commit([CreateTopic(TOPIC)])
        before = store.image
        with pytest.raises(Conflict):
            await store.commit([SetConfigs(GROUP_RESOURCE, "h", {}, {"a": "1"}), STALE[name]])
        assert store.image == before, "the changes of one commit are made all or none"


class SlowStore(LocalStore):
    """Delays commits with changes of a kind."""

    waits_for: type[Change] | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.waiting, self.may_go_on = trio.Event(), trio.Event()

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        if self.waits_for is not None and any(isinstance(c, self.waits_for) for c in changes):
            self.waiting.set()
            await self.may_go_on.wait()
        return await super().commit(changes)


@asynccontextmanager
async def serving(store: LocalStore, path: Path) -> AsyncIterator[tuple[StoreServer, trio.Nursery]]:
    """Share `store` at `path` for this block; the nursery is for connections to it."""
    server = StoreServer(store, await store.load())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listen(path))
        yield server, nursery
        nursery.cancel_scope.cancel()
    store.close()


async def test_restarted_broker_waits_until_its_earlier_connection_is_removed(
    tmp_path: Path,
) -> None:
    store = SlowStore(tmp_path / "metadata.log")
    async with serving(store, tmp_path / "s") as (_, nursery):
        first = await SharedStore.connect(tmp_path / "s", nursery)
        await first.register(broker(1))
        assert await first.campaign()
        old_epoch = (await first.load()).brokers[1].epoch
        store.waits_for = UnregisterBroker
        first.close()
        await store.waiting.wait()
        again = await SharedStore.connect(tmp_path / "s", nursery)
        registered = trio.Event()

        async def register() -> None:
            await again.register(broker(1))
            registered.set()

        nursery.start_soon(register)
        with trio.move_on_after(0.05):
            await registered.wait()
        assert not registered.is_set(), "two brokers of one id are never listed"
        store.may_go_on.set()
        with trio.fail_after(PATIENCE_S):
            await registered.wait()
        image = await again.load()
        assert image.brokers[1].epoch > old_epoch
        assert await again.campaign(), "the term ended with the earlier connection"


async def test_holder_ends_only_after_its_last_broker(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "metadata.log")
    async with serving(store, tmp_path / "s") as (server, nursery):
        brokers = [await SharedStore.connect(tmp_path / "s", nursery) for _ in range(3)]
        for broker_id, each in enumerate(brokers, 1):
            await each.register(broker(broker_id))
        ended = trio.Event()

        async def wait() -> None:
            await server.wait_until_empty()
            ended.set()

        nursery.start_soon(wait)
        for broker_id in (1, 2, 3):
            member = server.member(broker_id)
            assert member is not None
            assert not ended.is_set()
            brokers[broker_id - 1].close()
            with trio.fail_after(PATIENCE_S):
                await member.gone.wait()
            await trio.testing.wait_all_tasks_blocked()
        assert ended.is_set()


async def test_commit_raises_store_error_when_the_holder_ends_during_a_write(
    tmp_path: Path,
) -> None:
    """The next holder has the whole commit or nothing of it."""
    store = SlowStore(tmp_path / "metadata.log")
    server = StoreServer(store, await store.load())
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def serve(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await server.serve(listen(tmp_path / "s"), task_status)

        await nursery.start(serve)
        member = await SharedStore.connect(tmp_path / "s", nursery)
        await member.register(broker(1))
        store.waits_for = SetConfigs
        refused = trio.Event()

        async def write() -> None:
            with pytest.raises(StoreError, match="has ended"):
                await member.commit([SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "b"})])
            refused.set()

        nursery.start_soon(write)
        await store.waiting.wait()
        scope.cancel()
        with trio.fail_after(PATIENCE_S):
            await refused.wait()
        nursery.cancel_scope.cancel()
    store.close()
    later = LocalStore(tmp_path / "metadata.log")
    assert not (await later.load()).configs_of(GROUP_RESOURCE, "g")
    later.close()


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r", b'{"id": 1}', b'{"ask": "register"}'])
async def test_connection_with_an_invalid_line_is_the_only_one_closed(
    tmp_path: Path, line: bytes
) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.broker(1)
        async with await trio.open_unix_socket(str(holder.path)) as stray:
            await stray.send_all(line + b"\n")
            with trio.fail_after(PATIENCE_S):
                while await stray.receive_some(1 << 16):
                    pass
        await store.commit([SetConfigs(GROUP_RESOURCE, "g", {}, {"a": "b"})])


async def test_failed_log_directory_is_reported_to_every_broker(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        first, second = await holder.broker(1), await holder.broker(2)
        await first.log_dir_failed()
        assert await second.next_event(LogDirsFailed) == LogDirsFailed((1,))
        assert await first.next_event(LogDirsFailed) == LogDirsFailed((1,))


async def test_stopping_holder_removes_its_brokers_from_the_metadata(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "metadata.log")
    async with serving(store, tmp_path / "s") as (server, nursery):
        for broker_id in (1, 2):
            member = await SharedStore.connect(tmp_path / "s", nursery)
            await member.register(broker(broker_id))
        assert await member.campaign()
    assert not server.image.brokers
    assert server.image.controller_id == NO_CONTROLLER
