"""When a store reads a znode again: at once after a change, later after a refused read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.cluster.stores.contract import ElectionsRequested, StoreError
from kwire.cluster.stores.zookeeper import following, znodes
from tests.cluster.stores.zookeeper.memory import Ensemble
from tests.cluster.stores.zookeeper.stores import Observed, at_rest, controlling, opened

CONNECT = "memory:2181"


@asynccontextmanager
async def controller_and_follower() -> AsyncIterator[tuple[Observed, Observed]]:
    """Broker 1 is the controller, and broker 2 knows it."""
    async with opened(CONNECT) as first, opened(CONNECT, 2) as second:
        assert await first.campaign()
        await second.shows(lambda image: image.controller_id == 1)
        yield first, second


async def test_controller_changed_during_a_read_is_read_again_at_once(
    ensemble: Ensemble, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause would delay every election that follows a quick resignation."""
    async with controller_and_follower() as (first, second):
        get = second.session.get
        has_resigned = False

        async def slow_get(path: str, watch: bool = False) -> Any:  # noqa: ANN401 - a znode
            nonlocal has_resigned
            answer = await get(path, watch)
            if path == znodes.CONTROLLER and not has_resigned:
                has_resigned = True
                await first.resign()
            return answer

        monkeypatch.setattr(second.session, "get", slow_get)
        second._follower.mark(znodes.CONTROLLER)
        began_at = trio.current_time()
        await second.until(lambda: has_resigned)
        await second.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert trio.current_time() == began_at


async def test_refused_read_is_repeated_after_a_pause(
    ensemble: Ensemble, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller_and_follower() as (first, second):
        get = second.session.get
        refusals = 3

        async def refusing_get(path: str, watch: bool = False) -> Any:  # noqa: ANN401 - a znode
            nonlocal refusals
            if path == znodes.CONTROLLER and refusals:
                refusals -= 1
                raise StoreError("ZooKeeper refused a read")
            return await get(path, watch)

        monkeypatch.setattr(second.session, "get", refusing_get)
        await first.resign()
        began_at = trio.current_time()
        await second.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert trio.current_time() == began_at + 3 * following.REFUSED_PAUSE_S


@pytest.mark.parametrize("path", [znodes.CONTROLLER, znodes.FEATURE, znodes.PREFERRED_ELECTION])
async def test_znode_created_between_a_read_and_its_watch_is_read(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The watch is set on the new znode, so its creation fires no watch."""
    contents = {
        znodes.CONTROLLER: znodes.encode_controller(5, 1),
        znodes.FEATURE: znodes.encode_feature(FinalizedFeatures({"f": 1}, {}, 0)),
        znodes.PREFERRED_ELECTION: znodes.encode_places([("t", 0)]),
    }
    is_asked = path == znodes.PREFERRED_ELECTION
    async with controlling() if is_asked else at_rest() as store:
        exists = store.session.exists

        async def exists_by_now(asked: str, watch: bool = False) -> Any:  # noqa: ANN401 - a stat
            if asked == path and path not in ensemble.znodes:
                ensemble.put(path, contents[path])
            return await exists(asked, watch)

        monkeypatch.setattr(store.session, "exists", exists_by_now)
        store._follower.mark(path)
        if is_asked:
            assert (await store.next_event(ElectionsRequested)).places == (("t", 0),)
            return
        await wait_all_tasks_blocked()
        image = store.image
        assert (image.controller_id == 5) is (path == znodes.CONTROLLER)
        assert (image.features.asked == {"f": 1}) is (path == znodes.FEATURE)
