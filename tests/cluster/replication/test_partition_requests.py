"""What LeaderAndIsr and StopReplica do to each partition, in every form of the two requests."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.replication.controller_requests import image_of
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import LogManager
from tests.cluster.replication.following_stage import (
    LEADER,
    TOPIC,
    TOPIC_ID,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    following,
)
from tests.cluster.replication.simulation.broker import SimulatedHost

OTHER, OTHER_ID = "other", b"o" * 16
NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH


def state(index: int, epoch: int = 1, topic: str = "") -> LeaderAndIsrPartitionState:
    """Broker 1 is the only replica, and leads."""
    return LeaderAndIsrPartitionState(
        topic_name=topic,
        partition_index=index,
        leader=1,
        leader_epoch=epoch,
        isr=[1],
        replicas=[1],
        is_new=True,
    )


def lead(
    stage: FollowingStage,
    version: int,
    *topics: LeaderAndIsrTopicState,
    ungrouped: tuple[LeaderAndIsrPartitionState, ...] = (),
) -> LeaderAndIsrResponse:
    request = LeaderAndIsrRequest(
        controller_id=3,
        controller_epoch=1,
        broker_epoch=stage.broker.epoch,
        topic_states=list(topics),
        ungrouped_partition_states=list(ungrouped),
    )
    return stage.broker.requests.leader_and_isr(request, version)


def error_of(answer: LeaderAndIsrResponse) -> ErrorCode:
    """Of the only partition in the request."""
    [topic] = answer.topics
    [partition] = topic.partition_errors
    return ErrorCode(partition.error_code)


def hosted(stage: FollowingStage) -> dict[str, list[int]]:
    assert stage.broker.broker is not None
    by_topic = stage.broker.broker.hosted.by_topic
    return {topic: sorted(partitions) for topic, partitions in by_topic.items()}


# -- LeaderAndIsr


async def test_leader_and_isr_answers_each_partition_of_each_topic(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        told = lead(
            stage,
            7,
            LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [state(0), state(1)]),
            LeaderAndIsrTopicState(OTHER, OTHER_ID, [state(0)]),
        )
        assert hosted(stage) == {TOPIC: [0, 1], OTHER: [0]}
        answered = {
            topic.topic_id: [
                (each.partition_index, each.error_code) for each in topic.partition_errors
            ]
            for topic in told.topics
        }
        assert answered == {TOPIC_ID: [(0, NONE), (1, NONE)], OTHER_ID: [(0, NONE)]}
        assert (told.error_code, told.partition_errors) == (NONE, [])


@pytest.mark.parametrize("version", [1, 2, 4])
async def test_leader_and_isr_without_topic_ids_is_answered_by_topic_name(
    tmp_path: Path, version: int
) -> None:
    """Before version 2 partitions are not grouped by topic, before version 5 topics have no id."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        if version < 2:
            both = state(0, topic=TOPIC), state(1, topic=OTHER)
            told = lead(stage, version, ungrouped=both)
        else:
            told = lead(
                stage,
                version,
                LeaderAndIsrTopicState(TOPIC, ZERO_UUID, [state(0)]),
                LeaderAndIsrTopicState(OTHER, ZERO_UUID, [state(1)]),
            )
        assert hosted(stage) == {TOPIC: [0], OTHER: [1]}
        answered = [
            (each.topic_name, each.partition_index, each.error_code)
            for each in told.partition_errors
        ]
        assert answered == [(TOPIC, 0, NONE), (OTHER, 1, NONE)]
        assert (told.error_code, told.topics) == (NONE, [])


async def test_topic_id_that_comes_later_is_kept_on_disk(tmp_path: Path) -> None:
    """With the known leader epoch or with a later one."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        for index, epoch in ((0, 1), (1, 2)):
            lead(stage, 4, LeaderAndIsrTopicState(TOPIC, ZERO_UUID, [state(index)]))
            with_id = LeaderAndIsrTopicState(TOPIC, TOPIC_ID, [state(index, epoch)])
            assert error_of(lead(stage, 7, with_id)) == NONE
            partition = stage.partition(index)
            assert (partition.topic_id, partition.log.topic_id) == (TOPIC_ID, TOPIC_ID)
            assert (partition.log.dir / "partition.metadata").exists()
            assert error_of(lead(stage, 7, with_id)) == STALE


@pytest.mark.parametrize(("topic_id", "epoch"), [(TOPIC_ID, 1), (ZERO_UUID, 2)])
async def test_known_epoch_without_a_new_topic_id_is_stale(
    tmp_path: Path, topic_id: bytes, epoch: int
) -> None:
    """An earlier epoch, and a request without id."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        lead(stage, 4, LeaderAndIsrTopicState(TOPIC, ZERO_UUID, [state(0, 2)]))
        late = LeaderAndIsrTopicState(TOPIC, topic_id, [state(0, epoch)])
        assert error_of(lead(stage, 7, late)) == STALE
        assert stage.partition().topic_id == ZERO_UUID


async def test_other_topic_id_is_refused_even_if_the_partition_is_not_open(
    tmp_path: Path,
) -> None:
    """The log may be that of a deleted topic of the same name."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1)
        other = LeaderAndIsrTopicState(TOPIC, OTHER_ID, [state(0, 2)])
        assert error_of(lead(stage, 7, other)) == ErrorCode.INCONSISTENT_TOPIC_ID
        assert stage.partition().leader_epoch == 1
        assert stage.broker.broker is not None
        del stage.broker.broker.hosted.by_topic[TOPIC]
        assert error_of(lead(stage, 7, other)) == ErrorCode.INCONSISTENT_TOPIC_ID
        assert hosted(stage) == {}


async def test_broker_that_is_no_replica_refuses_the_partition(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        told = stage.send_leader_and_isr({0: LEADER}, 1, replicas=(2, 3), isr=(2,))
        assert error_of(told) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert hosted(stage) == {}


async def test_follower_without_a_leader_fetches_nothing(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        await stage.next_request(FetchRequest)
        assert error_of(stage.send_leader_and_isr({0: -1}, 2)) == NONE
        await wait_all_tasks_blocked()
        assert stage.network.calls == []
        assert (stage.partition().leader, stage.partition().following) == (-1, False)


async def test_broker_0_is_a_leader_like_any_other(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.network.handlers[0] = stage.network.handlers[LEADER]
        stage.send_leader_and_isr({0: 0}, 1, replicas=(0, 1), isr=(0, 1))
        assert (await stage.next_request(FetchRequest)).target == 0
        assert stage.partition().following


async def test_offline_log_is_refused_by_both_requests(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: 1}, 1)
        stage.partition().log.take_offline()
        assert error_of(stage.send_leader_and_isr({0: 1}, 2)) == ErrorCode.KAFKA_STORAGE_ERROR
        for delete in (False, True):
            [told] = stage.send_stop_replica(0, 1, delete=delete).partition_errors
            assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (stage.partition().leader_epoch, hosted(stage)) == (1, {TOPIC: [0]})


@pytest.mark.parametrize(
    ("is_new", "error"), [(True, NONE), (False, ErrorCode.KAFKA_STORAGE_ERROR)]
)
async def test_only_new_replicas_are_created_beside_a_failed_log_directory(
    tmp_path: Path, is_new: bool, error: ErrorCode
) -> None:
    """The log of one that is not new may be in that directory."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        assert stage.broker.broker is not None
        offline = stage.broker.broker.logs.offline_dirs
        offline[tmp_path / "failed"] = OSError(errno.EIO, "it failed")
        assert error_of(stage.send_leader_and_isr({0: 1}, 1, is_new=is_new)) == error
        assert hosted(stage) == ({} if error else {TOPIC: [0]})


async def test_lost_logs_are_no_longer_fetched(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1)
        await stage.next_request(FetchRequest)
        stage.broker.manager.logs_lost([stage.partition(0).log, stage.partition(1).log])
        await wait_all_tasks_blocked()
        assert stage.network.calls == []


def test_partition_state_of_leader_and_isr_becomes_an_image() -> None:
    told = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=9,
        leader=2,
        leader_epoch=3,
        isr=[2, 1],
        partition_epoch=4,
        replicas=[1, 2, 5],
        adding_replicas=[5],
        removing_replicas=[1],
        leader_recovery_state=1,
    )
    assert image_of(told) == PartitionImage(
        leader=2,
        leader_epoch=3,
        partition_epoch=4,
        replicas=(1, 2, 5),
        isr=(2, 1),
        offline=(),
        adding=(5,),
        removing=(1,),
        recovering=True,
        controller_epoch=9,
    )
    told.leader_recovery_state = 0
    assert not image_of(told).recovering


# -- StopReplica


@pytest.mark.parametrize("version", [0, 1, 3])
@pytest.mark.parametrize("delete", [False, True])
async def test_stop_replica_names_partitions_in_one_of_three_forms(
    tmp_path: Path, version: int, delete: bool
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        for topic, topic_id in ((TOPIC, TOPIC_ID), (OTHER, OTHER_ID)):
            stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 1, topic=topic, topic_id=topic_id)
        request = StopReplicaRequest(controller_id=3, controller_epoch=1, broker_epoch=-1)
        if version == 0:
            request.ungrouped_partitions = [
                StopReplicaPartitionV0(TOPIC, 0),
                StopReplicaPartitionV0(OTHER, 1),
            ]
        elif version == 1:
            request.topics = [StopReplicaTopicV1(TOPIC, [0]), StopReplicaTopicV1(OTHER, [1])]
        else:
            request.topic_states = [
                StopReplicaTopicState(TOPIC, [StopReplicaPartitionState(0, 1, delete)]),
                StopReplicaTopicState(OTHER, [StopReplicaPartitionState(1, 1, delete)]),
            ]
        request.delete_partitions = delete and version < 3
        told = stage.broker.requests.stop_replica(request)
        answered = [
            (each.topic_name, each.partition_index, each.error_code)
            for each in told.partition_errors
        ]
        assert answered == [(TOPIC, 0, NONE), (OTHER, 1, NONE)]
        left = {TOPIC: [1], OTHER: [0]} if delete else {TOPIC: [0, 1], OTHER: [0, 1]}
        assert hosted(stage) == left
        call = await stage.next_request(FetchRequest)
        assert isinstance(call.request, FetchRequest)
        followed = {
            topic.topic: [each.partition for each in topic.partitions]
            for topic in call.request.topics
        }
        assert followed == {TOPIC: [1], OTHER: [0]}


# -- the number of fetchers


async def test_partitions_move_to_other_fetchers_when_their_number_changes(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH, {"num.replica.fetchers": "2"}) as stage:
        stage.send_leader_and_isr(dict.fromkeys(range(4), LEADER), 1)

        async def requests() -> list[list[int]]:
            await wait_all_tasks_blocked()
            calls = [each.request for each in stage.network.calls]
            return sorted(
                [each.partition for topic in call.topics for each in topic.partitions]
                for call in calls
                if isinstance(call, FetchRequest)
            )

        assert await requests() == [[0, 2], [1, 3]]
        stage.broker.manager.configs_changed([])
        assert await requests() == [[0, 2], [1, 3]]
        assert stage.broker.broker is not None
        settings = stage.broker.broker.node.settings
        one = {"num.replica.fetchers": "1"}
        settings.config = settings.static_config.with_dynamic(one)
        stage.broker.manager.configs_changed([])
        assert len(await requests()) == 1


# -- a replica that finds no room on disk


@contextmanager
def disk_full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No log can be created."""

    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(LogManager, "_make_place", full)
        yield


async def test_controller_is_asked_again_two_seconds_after_a_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Once for each shortage, not periodically."""
    reports: list[float] = []

    async def report_offline(host: SimulatedHost) -> None:
        reports.append(trio.current_time())

    monkeypatch.setattr(SimulatedHost, "report_offline", report_offline)
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        with disk_full(monkeypatch):
            told = stage.send_leader_and_isr({0: 1}, 1)
        assert error_of(told) == ErrorCode.KAFKA_STORAGE_ERROR
        start = trio.current_time()
        await trio.sleep(60)
        assert [time_s - start for time_s in reports] == [2]
        assert error_of(stage.send_leader_and_isr({0: 1}, 1)) == NONE


async def test_failed_log_directory_is_no_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    reports: list[float] = []

    async def report_offline(host: SimulatedHost) -> None:
        reports.append(trio.current_time())

    monkeypatch.setattr(SimulatedHost, "report_offline", report_offline)
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        assert stage.broker.broker is not None
        offline = stage.broker.broker.logs.offline_dirs
        offline[tmp_path / "failed"] = OSError(errno.EIO, "it failed")
        told = stage.send_leader_and_isr({0: 1}, 1, is_new=False)
        assert error_of(told) == ErrorCode.KAFKA_STORAGE_ERROR
        await trio.sleep(60)
        assert reports == []


async def test_replica_that_has_found_room_waits_for_leader_and_isr_after_a_late_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller stops a replica that it treats as offline; later stops change nothing."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        with disk_full(monkeypatch):
            stage.send_leader_and_isr({0: LEADER}, 1)
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == NONE
        for error in (NONE, STALE):
            stage.send_stop_replica(0, 1, delete=False)
            assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == error


@pytest.mark.parametrize("finds_room", [False, True])
async def test_deletion_ends_what_is_known_of_a_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finds_room: bool
) -> None:
    """The next topic of that name does not accept its leader epoch twice."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        with disk_full(monkeypatch):
            stage.send_leader_and_isr({0: LEADER}, 1)
        if finds_room:
            stage.send_leader_and_isr({0: LEADER}, 1)
        stage.send_stop_replica(0, 1, delete=True)
        assert hosted(stage) == {}
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == NONE
        stage.send_stop_replica(0, 1, delete=False)
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == STALE


async def test_deletion_ends_what_is_known_of_an_ended_registration(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 1)
        stage.broker.requests.step_down()
        stage.broker.epoch += 1
        stage.send_stop_replica(0, 1, delete=True)
        for error in (NONE, STALE):
            assert error_of(stage.send_leader_and_isr({0: LEADER}, 1)) == error


async def test_leader_epoch_that_was_not_written_may_come_again_but_no_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3)
        with monkeypatch.context() as disk:
            disk.setattr(type(stage.partition().log.epochs), "assign", full)
            told = stage.send_leader_and_isr({0: 1}, 4)
        assert error_of(told) == ErrorCode.KAFKA_STORAGE_ERROR
        assert not stage.partition().is_leader
        assert error_of(stage.send_leader_and_isr({0: LEADER}, 3)) == STALE
        assert error_of(stage.send_leader_and_isr({0: 1}, 4)) == NONE
        assert stage.partition().is_leader
