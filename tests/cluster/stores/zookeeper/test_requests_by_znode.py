"""Requests and notifications to the controller by znodes, on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from kazoo.protocol.serialization import Create, SetData
from trio.testing import wait_all_tasks_blocked

from kwire.cluster.metadata.changes import AlterPartition, CreateTopic, MarkForDeletion
from kwire.cluster.metadata.image import NO_CONTROLLER, TOPIC_RESOURCE, TopicImage
from kwire.cluster.stores.contract import (
    ElectionsRequested,
    IsrChanged,
    LogDirsFailed,
    ReassignmentsRequested,
    StoreEvent,
)
from kwire.cluster.stores.zookeeper import reading, znodes
from tests.cluster.stores.zookeeper.memory import Ensemble, MemoryLink
from tests.cluster.stores.zookeeper.stores import (
    STATE,
    TOPIC,
    Observed,
    at_rest,
    controlling,
    leading,
)

CREATE = CreateTopic(TOPIC)
OTHER = TopicImage("u", b"u" * 16, (STATE,))
MOVED = (3, 1, 2)


def reported_requests(store: Observed) -> list[StoreEvent]:
    """Events about requests that a store reported since the last call."""
    kinds = (ReassignmentsRequested, ElectionsRequested, IsrChanged, LogDirsFailed)
    found: list[StoreEvent] = [each for each in store.events if isinstance(each, kinds)]
    store.events.clear()
    return found


def children(ensemble: Ensemble, folder: str) -> set[str]:
    return ensemble.znode(folder).children


# -- reassignments


def reassign(ensemble: Ensemble, asked: dict[tuple[str, int], tuple[int, ...]]) -> None:
    ensemble.put(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignments(asked))


async def test_requested_reassignment_is_reported_once_and_stays_in_the_znode(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        reassign(ensemble, {("t", 0): MOVED})
        assert (await store.next_event(ReassignmentsRequested)).replicas == {("t", 0): MOVED}
        reassign(ensemble, {("t", 0): MOVED, ("t", 1): MOVED})
        assert (await store.next_event(ReassignmentsRequested)).replicas == {("t", 1): MOVED}
        reassign(ensemble, {("t", 0): (2, 3), ("t", 1): MOVED})
        assert (await store.next_event(ReassignmentsRequested)).replicas == {("t", 0): (2, 3)}
        assert znodes.REASSIGN_PARTITIONS in ensemble.znodes


async def test_settled_reassignments_are_removed_from_the_znode(
    ensemble: Ensemble,
) -> None:
    deleting = (CreateTopic(OTHER), MarkForDeletion("u", OTHER.id))
    moving = replace(STATE, partition_epoch=1, replicas=MOVED, adding=(3,))
    under_way = AlterPartition("t", TOPIC.id, 1, 0, moving)
    async with controlling(CREATE, *deleting, under_way) as store:
        asked = {
            ("u", 0): MOVED,
            ("none", 0): MOVED,
            ("t", 2): MOVED,
            ("t", 1): (2, 3),
            ("t", 0): STATE.replicas,
        }
        reassign(ensemble, {**asked, ("t", 0): MOVED})
        assert (await store.next_event(ReassignmentsRequested)).replicas == {("t", 0): MOVED}
        left = znodes.decode_reassignments(ensemble.znode(znodes.REASSIGN_PARTITIONS).content)
        assert left == {("t", 0): MOVED}
        reassign(ensemble, asked)
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        assert znodes.REASSIGN_PARTITIONS not in ensemble.znodes


async def test_reassignment_that_only_removes_replicas_counts_as_in_progress(
    ensemble: Ensemble,
) -> None:
    leaving = replace(STATE, partition_epoch=1, removing=(2,))
    async with controlling(CREATE, AlterPartition("t", TOPIC.id, 0, 0, leaving)) as store:
        reassign(ensemble, {("t", 0): (1,)})
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        assert znodes.REASSIGN_PARTITIONS not in ensemble.znodes


async def test_damaged_reassignment_request_is_removed_and_the_next_is_reported(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlling(CREATE) as store:
        ensemble.put(znodes.REASSIGN_PARTITIONS, b"damaged")
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        assert znodes.REASSIGN_PARTITIONS not in ensemble.znodes
        assert f"{znodes.REASSIGN_PARTITIONS} is damaged" in caplog.text
        reassign(ensemble, {("t", 0): MOVED})
        assert (await store.next_event(ReassignmentsRequested)).replicas == {("t", 0): MOVED}


async def test_dropped_reassignment_is_reported_again_only_after_a_new_request(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        reassign(ensemble, {("t", 0): MOVED, ("t", 1): MOVED})
        await store.next_event(ReassignmentsRequested)
        await store.drop_reassignments([("t", 1)])
        left = znodes.decode_reassignments(ensemble.znode(znodes.REASSIGN_PARTITIONS).content)
        assert left == {("t", 0): MOVED}
        reassign(ensemble, {("t", 0): MOVED, ("t", 1): MOVED})
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        await store.drop_reassignments([("t", 0)])
        assert znodes.REASSIGN_PARTITIONS not in ensemble.znodes
        await wait_all_tasks_blocked()
        reassign(ensemble, {("t", 0): MOVED, ("t", 1): MOVED})
        again = await store.next_event(ReassignmentsRequested)
        assert again.replicas == {("t", 0): MOVED, ("t", 1): MOVED}


async def test_reassignment_started_by_another_controller_is_removed_from_the_znode(
    ensemble: Ensemble,
) -> None:
    """Reading the topics again makes the store read the request again."""
    async with controlling(CREATE) as store:
        await store.resign()
        assert await store.campaign()
        reassign(ensemble, {("t", 0): MOVED})
        await store.next_event(ReassignmentsRequested)
        moving = replace(STATE, replicas=MOVED, adding=(3,))
        begun = replace(TOPIC, partitions=(moving, STATE))
        ensemble.put(znodes.topic_path("t"), znodes.encode_topic(begun))
        await store.shows(lambda image: image.topics["t"].partitions[0] == moving)
        await wait_all_tasks_blocked()
        assert znodes.REASSIGN_PARTITIONS not in ensemble.znodes


# -- elections


@pytest.mark.parametrize("places", [(("t", 0), ("u", 3)), ()])
async def test_requested_elections_are_reported_and_removed(
    ensemble: Ensemble, places: tuple[tuple[str, int], ...]
) -> None:
    async with controlling(CREATE) as store:
        for _ in range(2):  # it is watched for again where it is not there
            ensemble.put(znodes.PREFERRED_ELECTION, znodes.encode_places(places))
            await wait_all_tasks_blocked()
            assert reported_requests(store) == ([ElectionsRequested(places)] if places else [])
            assert znodes.PREFERRED_ELECTION not in ensemble.znodes


async def test_damaged_election_request_is_removed(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlling(CREATE) as store:
        ensemble.put(znodes.PREFERRED_ELECTION, b"damaged")
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        assert znodes.PREFERRED_ELECTION not in ensemble.znodes
        assert f"{znodes.PREFERRED_ELECTION} is damaged: " in caplog.text


# -- what brokers tell


async def test_isr_written_by_a_leader_is_read_and_reported_after_its_notification(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        shrunk = replace(STATE, isr=(1,), partition_epoch=1)
        ensemble.put(znodes.state_path("t", 1), znodes.encode_state(shrunk))
        await wait_all_tasks_blocked()
        assert store.image.topics["t"] == TOPIC, "nobody watches the states"
        for places in ([("t", 1), ("none", 0)], [("t", 1)]):
            ensemble.put_next(znodes.ISR_CHANGE, znodes.encode_places(places))
        ensemble.put_next(znodes.ISR_CHANGE, b"damaged")
        await wait_all_tasks_blocked()
        assert store.image.topics["t"].partitions == (STATE, shrunk)
        assert reported_requests(store) == [IsrChanged((("t", 1), ("none", 0)))]
        assert not children(ensemble, znodes.ISR_CHANGES)
        ensemble.put_next(znodes.ISR_CHANGE, znodes.encode_places([("t", 0)]))
        assert (await store.next_event(IsrChanged)).places == (("t", 0),)


async def test_failed_log_directories_are_reported_by_broker_and_their_notifications_removed(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async with controlling() as store:
        for broker_id in (7, 3, 7):
            ensemble.put_next(znodes.LOG_DIR_EVENT, znodes.encode_log_dir_event(broker_id))
        damaged = ensemble.put_next(znodes.LOG_DIR_EVENT, b"damaged")
        await wait_all_tasks_blocked()
        assert reported_requests(store) == [LogDirsFailed((7, 3))]
        assert f"{damaged} is damaged: " in caplog.text
        assert not children(ensemble, znodes.LOG_DIR_EVENTS)
        ensemble.put_next(znodes.LOG_DIR_EVENT, b"damaged")
        await wait_all_tasks_blocked()
        assert not reported_requests(store)
        assert not children(ensemble, znodes.LOG_DIR_EVENTS)


async def test_broker_notifies_the_controller_of_a_failed_log_directory(ensemble: Ensemble) -> None:
    async with controlling() as store, at_rest(2) as other:
        ensemble.links[other.session.id].loses_next_reply = True
        await other.log_dir_failed()
        assert (await store.next_event(LogDirsFailed)).broker_ids == (2,)
        assert len([each for each in ensemble.writes if len(each) == 1]) > 0
        made = [
            each[0]
            for each in ensemble.writes
            if isinstance(each[0], Create) and each[0].path == znodes.LOG_DIR_EVENT
        ]
        assert len(made) == 2, "a second notification does no harm"


# -- deletions


async def test_topics_deleted_by_znode_are_marked_and_unknown_names_ignored(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        ensemble.put(znodes.deletion_path("none"), b"")
        ensemble.put(znodes.deletion_path("t"), b"")
        await wait_all_tasks_blocked()
        assert store.image.deleting == {"t"}
        assert children(ensemble, znodes.DELETE_TOPICS) == {"t"}
        ensemble.drop(znodes.deletion_path("t"))
        await store.shows(lambda image: not image.deleting)


async def test_topic_created_just_before_its_deletion_is_read_and_marked(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controlling(CREATE) as store:
        ensemble.put(znodes.config_path((TOPIC_RESOURCE, "u")), znodes.encode_configs({"a": "1"}))
        store._follower._list_due_at = float("inf")  # the list of topics is not read by itself
        ensemble.put(znodes.topic_path("u"), znodes.encode_topic(OTHER))
        ensemble.put(znodes.deletion_path("u"), b"")
        image = await store.shows(lambda image: "u" in image.deleting)
        assert image.topics["u"].id == OTHER.id
        assert image.configs_of(TOPIC_RESOURCE, "u") == {"a": "1"}
        assert children(ensemble, znodes.DELETE_TOPICS) == {"u"}


# -- who hears


async def test_only_the_controller_reads_requests(ensemble: Ensemble) -> None:
    async with at_rest(2) as other:
        for path in (znodes.ISR_CHANGE, znodes.LOG_DIR_EVENT):
            ensemble.put_next(path, b"damaged")
        ensemble.put(znodes.PREFERRED_ELECTION, znodes.encode_places([("t", 0)]))
        reassign(ensemble, {("t", 0): MOVED})
        other._follower.mark_requests()
        await wait_all_tasks_blocked()
        assert not reported_requests(other)
        assert children(ensemble, znodes.ISR_CHANGES)
        assert children(ensemble, znodes.LOG_DIR_EVENTS)
        assert znodes.PREFERRED_ELECTION in ensemble.znodes
        assert znodes.REASSIGN_PARTITIONS in ensemble.znodes


async def test_new_controller_reads_earlier_requests_and_drops_earlier_notifications(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        await store.resign()
        for path, content in (
            (znodes.ISR_CHANGE, znodes.encode_places([("t", 0)])),
            (znodes.LOG_DIR_EVENT, znodes.encode_log_dir_event(3)),
        ):
            ensemble.put_next(path, content)
        ensemble.put(znodes.PREFERRED_ELECTION, znodes.encode_places([("t", 0)]))
        reassign(ensemble, {("t", 0): MOVED})
        assert await store.campaign()
        await wait_all_tasks_blocked()
        assert reported_requests(store) == [
            ReassignmentsRequested({("t", 0): MOVED}),
            ElectionsRequested((("t", 0),)),
        ]
        assert not children(ensemble, znodes.ISR_CHANGES)
        assert not children(ensemble, znodes.LOG_DIR_EVENTS)
        # Its next term reports again what is left.
        await store.resign()
        assert await store.campaign()
        await wait_all_tasks_blocked()
        assert reported_requests(store) == [ReassignmentsRequested({("t", 0): MOVED})]


async def test_first_controller_creates_an_empty_feature_znode(ensemble: Ensemble) -> None:
    async with at_rest() as store:
        assert znodes.FEATURE not in ensemble.znodes
        await leading(store)
        assert ensemble.znode(znodes.FEATURE).content == znodes.encode_feature(reading.NOT_AGREED)
        await store.shows(lambda image: image.features.epoch == 0)
        await store.resign()
        assert await store.campaign()
        assert ensemble.znode(znodes.FEATURE).version == 0


async def test_fenced_controller_removes_no_notification_and_reads_the_controller(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        raised: list[bytes] = []

        def elect(link: MemoryLink, operations: Sequence[Any]) -> None:
            if not raised:
                raised.append(znodes.encode_controller_epoch(9))
                ensemble.multi(0, [SetData(znodes.CONTROLLER_EPOCH, raised[0], -1)])

        ensemble.before_write = elect
        ensemble.put(znodes.PREFERRED_ELECTION, znodes.encode_places([("t", 0)]))
        await store.shows(lambda image: image.controller_epoch == 9)
        assert not store.is_controller
        assert znodes.PREFERRED_ELECTION in ensemble.znodes


async def test_notification_removed_by_another_broker_is_no_error(
    ensemble: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with controlling(CREATE) as store:

        def remove(link: MemoryLink, operations: Sequence[Any]) -> None:
            if operations[-1].path in ensemble.znodes:
                ensemble.before_write = lambda link, operations: None
                ensemble.drop(operations[-1].path)

        ensemble.before_write = remove
        ensemble.put_next(znodes.LOG_DIR_EVENT, znodes.encode_log_dir_event(3))
        await wait_all_tasks_blocked()
        assert reported_requests(store) == [LogDirsFailed((3,))]
        assert store.is_controller
        assert "Cannot remove a notification" not in caplog.text


async def test_term_that_ends_without_successor_reports_controller_gone(
    ensemble: Ensemble,
) -> None:
    async with controlling(CREATE) as store:
        ensemble.drop(znodes.CONTROLLER)
        image = await store.shows(lambda image: image.controller_id == NO_CONTROLLER)
        assert image.controller_epoch == 1
        assert not image.topics
        assert not store.is_controller
