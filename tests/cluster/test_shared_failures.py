"""Shared store with a slow or failing disk, and with a holder that ends."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.cluster.metadata.changes import (
    Change,
    Conflict,
    RegisterBroker,
    SetConfigs,
    SetController,
)
from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.lines import JsonObject, encoded
from kwire.cluster.stores.shared.server import listen
from kwire.cluster.stores.shared.store import SharedStore
from kwire.log.directory.files import Files
from tests.cluster.observing import PATIENCE_S, broker
from tests.cluster.sharing import holding

GROUP_RESOURCE = 32


def setting(name: str, *, instead_of: str | None = None) -> SetConfigs:
    """The change that sets a config of the group `g` to `name`."""
    before = {} if instead_of is None else {"a": instead_of}
    return SetConfigs(GROUP_RESOURCE, "g", before, {"a": name})


class GatedFiles(Files):
    """Files whose fsync waits until the test ends it, and may fail."""

    def __init__(self) -> None:
        self.asked, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self.fails = False

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # a plain function there
        self.asked.set()
        assert self.may_end.wait(PATIENCE_S)
        if self.fails:
            raise OSError(errno.ENOSPC, "the disk is full")

    async def reached(self) -> None:
        assert await trio.to_thread.run_sync(self.asked.wait, PATIENCE_S)
        await trio.testing.wait_all_tasks_blocked()


async def in_a_write(
    store: LocalStore, files: GatedFiles, nursery: trio.Nursery, work: Callable[[], Any]
) -> None:
    """Start `work`, and return while it waits for the disk."""
    files.asked.clear()
    files.may_end.clear()
    nursery.start_soon(work)
    await files.reached()


async def test_registrations_and_elections_succeed_although_the_disk_fails(tmp_path: Path) -> None:
    """They share the write of a durable change, but are never in the file."""
    files = GatedFiles()
    store = LocalStore(tmp_path / "metadata.log", files=files)
    versions = [(await store.load()).version]
    store.watch(lambda image, delta: versions.append(image.version))
    refused = 0

    async def fail(change: Change) -> None:
        nonlocal refused
        with pytest.raises(StoreError, match="disk is full"):
            await store.commit([change])
        refused += 1

    async with trio.open_nursery() as nursery:
        await in_a_write(store, files, nursery, lambda: fail(setting("1")))
        nursery.start_soon(store.commit, [RegisterBroker(broker(1))])
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(fail, setting("2", instead_of="1"))
        nursery.start_soon(store.commit, [SetController(NO_CONTROLLER, 1, 1)])
        await trio.testing.wait_all_tasks_blocked()
        files.fails = True
        files.may_end.set()
    image = await store.load()
    assert refused == 2
    assert image.brokers.keys() == {1}
    assert (image.controller_id, image.controller_epoch) == (1, 1)
    assert not image.configs_of(GROUP_RESOURCE, "g")
    assert versions == [*range(versions[0], versions[0] + 3)]
    files.fails = False
    assert (await store.commit([setting("3")])).version == image.version + 1
    store.close()


async def test_waiting_commit_is_made_although_a_conflicting_one_is_cancelled(
    tmp_path: Path,
) -> None:
    """It was once acknowledged and never made: the cancelled one had removed it from the queue."""
    files = GatedFiles()
    store = LocalStore(tmp_path / "metadata.log", files=files)
    refused = trio.CancelScope()

    async def write() -> None:
        await store.commit([setting("1")])
        refused.cancel()

    async def be_refused() -> None:
        with refused, pytest.raises(Conflict):
            await store.commit([setting("2")])

    async with trio.open_nursery() as nursery:
        await in_a_write(store, files, nursery, write)
        nursery.start_soon(be_refused)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.commit, [setting("3", instead_of="1")])
        await trio.testing.wait_all_tasks_blocked()
        files.may_end.set()
    assert (await store.load()).configs_of(GROUP_RESOURCE, "g") == {"a": "3"}
    store.close()
    later = LocalStore(tmp_path / "metadata.log")
    assert (await later.load()).configs_of(GROUP_RESOURCE, "g") == {"a": "3"}
    later.close()


async def test_restarted_broker_waits_while_a_write_of_its_earlier_process_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was once refused as a second broker with the same id."""
    async with holding(tmp_path) as holder, trio.open_nursery() as nursery:
        commit = holder.local.commit
        under_way, may_end = trio.Event(), trio.Event()

        async def slow(changes: list[Change]) -> ClusterImage:
            if isinstance(changes[0], SetConfigs):
                under_way.set()
                with trio.CancelScope(shield=True):  # as a commit is
                    await may_end.wait()
            return await commit(changes)

        first = await holder.broker(1)
        monkeypatch.setattr(holder.local, "commit", slow)

        async def write() -> None:
            with pytest.raises(StoreError, match="has ended"):
                await first.commit([setting("1")])

        nursery.start_soon(write)
        await under_way.wait()
        first.close()
        await trio.testing.wait_all_tasks_blocked()
        again = await holder.connect()
        try:
            nursery.start_soon(again.register, broker(1))
            await trio.testing.wait_all_tasks_blocked()
        finally:  # also if the broker is refused: the commit cannot be cancelled
            may_end.set()
    assert set(again.image.brokers) == {1}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        encoded({"begin": {"cluster_id": "c", "lines": 2}}),
        encoded({"begin": {"cluster_id": "c", "lines": 2}}) + encoded({"changes": []}),
        b'{"begin": {"clus',
    ],
)
async def test_broker_does_not_join_a_holder_that_ends_during_the_snapshot(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(line)
    await theirs.send_eof()

    async def connect(path: str) -> object:
        return ours

    monkeypatch.setattr(trio, "open_unix_socket", connect)
    monkeypatch.setattr(ours, "socket", ours.send_stream, raising=False)
    async with trio.open_nursery() as nursery:
        with pytest.raises(StoreError, match="ended before it sent all"):
            await SharedStore.connect(Path("s"), nursery)
        nursery.cancel_scope.cancel()


async def test_task_that_is_cancelled_with_its_connection_ends_without_an_error(
    tmp_path: Path,
) -> None:
    """A StoreError would be the exit status of a broker that is stopped while it starts."""
    async with holding(tmp_path) as holder, trio.open_nursery() as nursery:
        store = await SharedStore.connect(holder.path, nursery)
        store.close()
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.register(broker(1))
        assert scope.cancelled_caught
        with pytest.raises(StoreError, match="has ended"):
            await store.register(broker(1))
        nursery.cancel_scope.cancel()


# -- requests and lines of another version


class ScriptedHolder:
    """The holder's end of a connection: sends an empty snapshot, then what the test says."""

    def __init__(self, path: Path) -> None:
        self.listening = listen(path)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        with trio.socket.from_stdlib_socket(self.listening) as accepting:
            task_status.started()
            accepted, _ = await accepting.accept()
            async with trio.SocketStream(accepted) as self.stream:
                await self.say({"begin": {"cluster_id": "c", "lines": 1}})
                await self.say({"changes": [], "version": 1})
                await trio.sleep_forever()

    async def say(self, message: JsonObject) -> None:
        await self.stream.send_all(encoded(message))


async def test_line_of_an_unknown_kind_answers_no_request(tmp_path: Path) -> None:
    """A later version of the holder may send events that this version lacks."""
    scripted = ScriptedHolder(tmp_path / "s")
    async with trio.open_nursery() as nursery:
        await nursery.start(scripted.run)
        store = await SharedStore.connect(tmp_path / "s", nursery)
        elected: list[bool] = []

        async def campaign() -> None:
            elected.append(await store.campaign())

        nursery.start_soon(campaign)
        await trio.testing.wait_all_tasks_blocked()
        await scripted.say({"event": "of a later version", "elected": False})
        await scripted.say({"id": 7, "elected": False})
        await scripted.say({"id": 1, "elected": True})
        with trio.fail_after(PATIENCE_S):
            while not elected:
                await trio.lowlevel.checkpoint()
        assert elected == [True]
        nursery.cancel_scope.cancel()


async def test_request_of_a_later_version_gets_an_error_that_names_it(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.connect()
        with pytest.raises(StoreError) as told:
            await store._ask({"ask": "later"})
        assert str(told.value) == "a broker sent a request 'later' that this version lacks"
        await store.register(broker(1))
        with pytest.raises(StoreError, match=r"^broker 1 sent a request 'later' that"):
            await store._ask({"ask": "later"})


async def test_broker_campaigns_only_after_it_has_registered(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        store = await holder.connect()
        for request in (store.campaign, store.log_dir_failed):
            with pytest.raises(StoreError, match=r"^this request needs a registered broker$"):
                await request()
        await store.register(broker(1))
        assert await store.campaign()
