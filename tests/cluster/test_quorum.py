"""The quorum that brokers with a shared store stand for, and the registrations that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kwire.cluster.metadata.changes import (
    Conflict,
    CreateTopic,
    DropRegistration,
    SetController,
    apply_all,
)
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.metadata.quorum import ReplicaProgress
from kwire.cluster.stores.contract import Fenced
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared import server
from kwire.storage.takeover import is_fresh
from tests.cluster.observing import broker
from tests.cluster.sharing import Holder, ObservedShared, holding

STATE = PartitionImage(1, 0, 0, (1,), (1,))


def creation(name: str) -> CreateTopic:
    return CreateTopic(TopicImage(name, name.encode().ljust(16, b"-"), (STATE,)))


async def led(holder: Holder, *followers: int) -> tuple[ObservedShared, list[ObservedShared]]:
    """Broker 1 as the controller, and other brokers."""
    leader = await holder.broker(1)
    assert await leader.campaign()
    return leader, [await holder.broker(each) for each in followers]


# -- offsets and epochs


async def test_offset_and_epoch_go_on_after_starts_without_lasting_changes(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    offsets, epochs = [], []
    for _ in range(3):
        store = LocalStore(path)
        assert is_fresh(await store.load()), "no lasting change was committed"
        await store.register(broker(1))
        quorum = await store.quorum(5)
        offsets.append(quorum.end_offset)
        epochs.append(quorum.leader_epoch)
        store.close()
    assert offsets == [1, 2, 3]
    assert epochs == [1, 2, 3]


async def test_offset_and_epoch_survive_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metadata.log"
    monkeypatch.setattr("kwire.cluster.stores.change_log.LOG_BYTES_MIN", 0)
    for start in range(4):
        store = LocalStore(path)
        before = await store.quorum(0)
        await store.register(broker(1))
        await store.commit([creation(f"t{start}")])
        after = await store.quorum(0)
        assert (before.end_offset, before.leader_epoch) == (2 * start, start)
        assert (after.end_offset, after.leader_epoch) == (2 * start + 2, start + 1)
        store.close()


async def test_second_registration_of_the_leader_keeps_its_epoch(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "metadata.log")
    first = await store.register(broker(1))
    again = await store.register(broker(1))
    assert again.controller_epoch == first.controller_epoch
    store.close()


async def test_store_continues_the_numbers_of_another_log(tmp_path: Path) -> None:
    path = tmp_path / "metadata.log"
    store = LocalStore(path)
    store.continue_after(1000, 7)
    await store.register(broker(1))
    quorum = await store.quorum(0)
    assert (quorum.end_offset, quorum.leader_epoch) == (1001, 8)
    store.close()
    store = LocalStore(path)
    store.continue_after(500, 3)
    quorum = await store.quorum(0)
    assert (quorum.end_offset, quorum.leader_epoch) == (1001, 8)
    store.close()


async def test_epochs_of_controllers_and_brokers_grow_over_restarts_of_the_holder(
    tmp_path: Path,
) -> None:
    last = (-1, -1, -1)
    for _ in range(3):
        async with holding(tmp_path) as holder:
            leader, _ = await led(holder)
            quorum = await leader.quorum(0)
            epoch = leader.image.brokers[1].epoch
            now = (quorum.leader_epoch, quorum.end_offset, epoch)
            assert all(new > old for new, old in zip(now, last, strict=True))
            last = now
        holder.path.unlink()


# -- who follows


async def test_every_broker_sees_the_same_quorum(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        leader, (second, third) = await led(holder, 2, 3)
        made = await leader.commit([creation("t")])
        end_offset = holder.local.offset_of(made)
        seen = [await each.quorum(123) for each in (leader, second, third)]
        assert seen == [seen[0]] * 3
        assert (seen[0].leader_id, seen[0].leader_epoch) == (1, leader.image.controller_epoch)
        assert seen[0].end_offset == end_offset
        assert seen[0].observers == tuple(
            ReplicaProgress(each, end_offset, 123, 123) for each in (2, 3)
        )


async def test_quorum_without_a_controller_has_no_leader(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        leader, (second,) = await led(holder, 2)
        await leader.resign()
        quorum = await second.quorum(0)
        assert quorum.leader_id == NO_CONTROLLER
        assert [each.broker_id for each in quorum.observers] == [1, 2]


async def test_broker_that_does_not_answer_stays_as_it_last_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REPORT_TIMEOUT_S", 0.01)
    async with holding(tmp_path) as holder:
        leader, (second,) = await led(holder, 2)
        known = await leader.quorum(100)
        assert known.observers == (ReplicaProgress(2, known.end_offset, 100, 100),)
        monkeypatch.setattr(second, "_handle", lambda message: None)
        await leader.commit([creation("t")])
        late = await leader.quorum(200)
        assert late.end_offset == known.end_offset + 1
        assert late.observers == known.observers


async def test_broker_that_lags_reports_the_version_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(tmp_path) as holder:
        leader, (second,) = await led(holder, 2)
        known = await leader.quorum(100)
        monkeypatch.setattr(second, "_changed", lambda changes, version: None)
        await leader.commit([creation("t")])
        late = await leader.quorum(200)
        assert late.observers == (ReplicaProgress(2, known.end_offset, 200, 100),)


# -- registrations


async def until_seen(store: ObservedShared, *brokers: int) -> ClusterImage:
    await store.until(lambda: set(store.image.brokers) == set(brokers))
    return store.image


async def test_registration_outlasts_the_broker_until_it_is_dropped(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        leader, (second,) = await led(holder, 2)
        await second.until(lambda: 2 in second.image.registered)
        second.close()
        image = await until_seen(leader, 1)
        assert image.registered[2] == broker(2)
        after = await leader.commit([DropRegistration(2)])
        assert set(after.registered) == {1}
        with pytest.raises(Conflict, match="no registration of broker 2 is kept"):
            await leader.commit([DropRegistration(2)])


async def test_registrations_survive_a_restart_of_the_holder(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        _, (second,) = await led(holder, 2)
        await second.until(lambda: 2 in second.image.registered)
    holder.path.unlink()
    async with holding(tmp_path) as holder:
        image = await (await holder.connect()).load()
        assert dict(image.brokers) == {}
        assert dict(image.registered) == {1: broker(1), 2: broker(2)}


async def test_live_broker_that_is_unregistered_leaves_and_may_come_back(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        leader, (second,) = await led(holder, 2)
        await second.until(lambda: 2 in second.image.registered)
        image = await leader.commit([DropRegistration(2)])
        assert set(image.brokers) == set(image.registered) == {1}
        second.close()
        await holder.broker(2)
        await leader.until(lambda: 2 in leader.image.registered)
        assert set(leader.image.brokers) == {1, 2}


async def test_only_the_controller_may_unregister_a_broker(tmp_path: Path) -> None:
    async with holding(tmp_path) as holder:
        _, (second,) = await led(holder, 2)
        with pytest.raises(Fenced):
            await second.commit([DropRegistration(1)])


async def test_broker_that_asks_twice_to_be_the_controller_waits_for_its_election(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(tmp_path) as holder:
        first = await holder.broker(1)
        commit = LocalStore.commit
        may_go = trio.Event()

        async def slow(store: LocalStore, changes: list[SetController]) -> ClusterImage:
            if isinstance(changes[0], SetController):
                await may_go.wait()
            return await commit(store, changes)

        monkeypatch.setattr(LocalStore, "commit", slow)
        elected: list[int] = []

        async def campaign() -> None:
            assert await first.campaign()
            elected.append(first.image.controller_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(campaign)
            nursery.start_soon(campaign)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert elected == []
            may_go.set()
        assert elected == [1, 1]


def test_dropped_registration_needs_one_that_is_kept() -> None:
    with pytest.raises(Conflict):
        apply_all(ClusterImage("c").with_broker(broker(1)), [DropRegistration(1)])
