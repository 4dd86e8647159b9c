"""In which log directory a replica is created, and what the controllers are told of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import LOST, MIGRATING, NO_LEADER, UNASSIGNED
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError, LogManager
from kwire.storage.partitions import moving
from tests.cluster.replication.roles.stage import (
    TOPIC,
    TOPIC_ID,
    RolesStage,
    prepare,
    roles,
    state,
)
from tests.inside import until

OTHER_ID = b"o" * 16
ELSEWHERE = b"e" * 16
"""The directory id of a replica on broker 2."""
BOTH = ("a", "b")


def directory_of(stage: RolesStage, index: int = 0) -> str:
    """The name of the log directory that has a partition's log."""
    return stage.partition(index).log.dir.parent.name


def fail(stage: RolesStage, name: str) -> None:
    """The disk of a log directory fails."""
    dirs = stage.broker.logs.dirs
    [directory] = [each for each in dirs.online_dirs if each.path.name == name]
    dirs.dir_failed(directory, OSError(errno.EIO, "Input/output error"))


@contextmanager
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No disk has room for a new log."""

    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(LogManager, "_make_place", full)
        yield


# -- new logs


@pytest.mark.parametrize("name", BOTH)
async def test_new_log_is_in_the_directory_that_the_metadata_say(tmp_path: Path, name: str) -> None:
    async with roles(tmp_path, BOTH) as stage:
        place = (stage.directory_id(name), ELSEWHERE)
        stage.place(*[state(2, directories=place) for _ in range(3)])
        assert [directory_of(stage, index) for index in range(3)] == [name] * 3
        assert stage.assigned == []


@pytest.mark.parametrize("unknown", [UNASSIGNED, MIGRATING, LOST])
async def test_controllers_are_told_of_the_directory_that_the_broker_chose(
    tmp_path: Path, unknown: bytes
) -> None:
    async with roles(tmp_path, BOTH) as stage:
        stage.place(*[state(2, directories=(unknown, ELSEWHERE)) for _ in range(2)])
        assert {directory_of(stage, 0), directory_of(stage, 1)} == set(BOTH)
        assert stage.assigned == [
            (TOPIC_ID, index, stage.directory_id(directory_of(stage, index))) for index in range(2)
        ]


async def test_controllers_are_told_if_the_log_is_in_another_directory(tmp_path: Path) -> None:
    logs = prepare(tmp_path, BOTH)
    log = logs.create(TOPIC, TOPIC_ID, 0)
    name = log.dir.parent.name
    other = BOTH[1 - BOTH.index(name)]
    async with roles(tmp_path, BOTH, logs=logs) as stage:
        stage.place(state(2, directories=(stage.directory_id(other), ELSEWHERE)))
        assert directory_of(stage) == name
        assert stage.assigned == [(TOPIC_ID, 0, stage.directory_id(name))]
        stage.change(directories=(stage.directory_id(name), ELSEWHERE))
        assert len(stage.assigned) == 1


async def test_controllers_are_told_of_a_replica_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "INTERVAL_S", 0.001)
    async with roles(tmp_path, BOTH) as stage:
        stage.place(state(1, (1,), directories=(stage.directory_id("a"),)))
        stage.append(3)
        broker = stage.broker
        broker.logs.moves.move((TOPIC, 0), str((tmp_path / "b").absolute()))
        stage.nursery.start_soon(moving.run, broker.settings, broker.hosted, broker.now_ms)
        await until(lambda: bool(stage.assigned))
        assert directory_of(stage) == "b"
        assert stage.assigned == [(TOPIC_ID, 0, stage.directory_id("b"))]


# -- logs that were there before the first image


async def test_log_of_a_topic_created_anew_while_the_broker_was_away_is_set_aside(
    tmp_path: Path,
) -> None:
    logs = prepare(tmp_path)
    logs.create(TOPIC, OTHER_ID, 0)
    async with roles(tmp_path, logs=logs) as stage:
        stage.place(state(2))
        assert stage.partition().topic_id == TOPIC_ID
        assert len(list((tmp_path / "a").glob("t-0.*-stray"))) == 1


async def test_logs_that_the_first_image_does_not_place_here_are_set_aside(tmp_path: Path) -> None:
    logs = prepare(tmp_path)
    for index in range(3):
        logs.create(TOPIC, TOPIC_ID, index)
    logs.create("gone", OTHER_ID, 0)
    async with roles(tmp_path, logs=logs) as stage:
        stage.place(state(2), state(2, (2, 3)))
        names = {path.name.partition(".")[0] for path in (tmp_path / "a").glob("*-stray")}
        assert names == {"t-1", "t-2", "gone-0"}
        assert set(logs.logs) == {(TOPIC, 0)}


async def test_log_without_a_topic_id_is_set_aside(tmp_path: Path) -> None:
    """As in Apache Kafka: it may be of a topic of the same name that was deleted."""
    logs = prepare(tmp_path)
    logs.create(TOPIC, bytes(16), 0)
    async with roles(tmp_path, logs=logs) as stage:
        stage.place(state(2))
        assert len(list((tmp_path / "a").glob("t-0.*-stray"))) == 1


# -- directories that failed


async def test_replica_in_a_directory_that_failed_before_the_start_stays_offline(
    tmp_path: Path,
) -> None:
    """A new empty log in another directory would pass for all of its records."""
    logs = prepare(tmp_path, BOTH)
    ids = {path.name: each for path, each in logs.directory_ids().items()}
    [directory] = [each for each in logs.online_dirs if each.path.name == "b"]
    logs.dirs.dir_failed(directory, OSError(errno.EIO, "Input/output error"))
    async with roles(tmp_path, BOTH, logs=logs) as stage:
        places = [ids["b"], MIGRATING, LOST, ids["a"], UNASSIGNED]
        stage.place(*[state(2, directories=(each, ELSEWHERE)) for each in places])
        offline = [stage.find(index) is None for index in range(len(places))]
        assert offline == [True, True, True, False, False]
        assert stage.broker.hosted.absent_error(TOPIC, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        stage.change(0, directories=(ids["a"], ELSEWHERE))
        assert directory_of(stage, 0) == "a"
        stage.publish(stage.image.without_topics([TOPIC]))
        assert stage.broker.hosted.absent == set()


async def test_leader_whose_directory_failed_resigns_once_another_is_elected(
    tmp_path: Path,
) -> None:
    async with roles(tmp_path, BOTH) as stage:
        ids = {name: stage.directory_id(name) for name in BOTH}
        stage.place(*[state(1, directories=(ids[name], ELSEWHERE)) for name in BOTH])
        fail(stage, "b")
        assert stage.assigned == []
        stage.change(1, leader=2, leader_epoch=1, isr=(2,))
        assert not stage.partition(1).is_leader
        assert stage.led == [(0, True), (1, True), (1, False)]
        assert await stage.fetched_from() == []
        stage.change(1, isr=(2,))
        assert stage.partition(1).log.offline
        assert stage.led[3:] == []
        with pytest.raises(LogError) as refused:
            stage.broker.hosted.led(TOPIC, 1)
        assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR


async def test_follower_whose_directory_failed_stops_fetching(tmp_path: Path) -> None:
    async with roles(tmp_path, BOTH) as stage:
        stage.place(state(2, directories=(stage.directory_id("b"), ELSEWHERE)))
        assert await stage.fetched_from() == [2]
        fail(stage, "b")
        stage.change(leader_epoch=1)
        assert await stage.fetched_from() == []


async def test_replica_that_the_metadata_have_elsewhere_is_lost_with_its_directory(
    tmp_path: Path,
) -> None:
    """Heartbeats name the failed directory; that says nothing of a replica not assigned to it."""
    async with roles(tmp_path, BOTH) as stage:
        stage.place(*[state(2, directories=(UNASSIGNED, ELSEWHERE)) for _ in range(2)])
        stage.assigned.clear()
        lost = [index for index in range(2) if directory_of(stage, index) == "b"]
        fail(stage, "b")
        assert stage.assigned == [(TOPIC_ID, index, LOST) for index in lost]


async def test_topic_on_a_failed_directory_can_be_created_anew(tmp_path: Path) -> None:
    async with roles(tmp_path, BOTH) as stage:
        stage.place(state(1, (1,), directories=(stage.directory_id("b"),)))
        fail(stage, "b")
        stage.image = stage.image.without_topics([TOPIC])
        stage.place(state(1, (1,), directories=(UNASSIGNED,)), topic_id=OTHER_ID)
        assert (directory_of(stage), stage.partition().topic_id) == ("a", OTHER_ID)


# -- shortages of room


async def test_replica_without_room_is_lost_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with roles(tmp_path, BOTH) as stage:
        with no_room(monkeypatch):
            stage.place(state(1, directories=(UNASSIGNED, ELSEWHERE)))
            assert stage.find() is None
            assert stage.assigned == [(TOPIC_ID, 0, LOST)]
            assert stage.broker.hosted.absent_error(TOPIC, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            stage.change(directories=(LOST, ELSEWHERE), leader=2, leader_epoch=1, isr=(2,))
            stage.roles.open_missing()
            assert stage.assigned == [(TOPIC_ID, 0, LOST)]
        stage.roles.open_missing()
        assert await stage.fetched_from() == [2]
        assert stage.assigned[1:] == [(TOPIC_ID, 0, stage.directory_id(directory_of(stage)))]
        assert stage.broker.hosted.absent == set()
        stage.roles.open_missing()
        assert len(stage.assigned) == 2


async def test_directory_is_reported_again_if_the_found_replica_has_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers of Apache Kafka 4.4.0 elect a leader by the second report only."""
    async with roles(tmp_path) as stage:
        place = stage.directory_id("a")
        with no_room(monkeypatch):
            stage.place(state(1, (1,), directories=(place,)))
        assert stage.assigned == [(TOPIC_ID, 0, LOST)]
        stage.change(directories=(LOST,), leader=NO_LEADER, leader_epoch=1, isr=())
        assert stage.assigned[1:] == [(TOPIC_ID, 0, place)]
        stage.change(directories=(place,))
        assert stage.assigned[2:] == [(TOPIC_ID, 0, place)]
        stage.change(recovering=True)
        assert len(stage.assigned) == 3
        stage.change(leader=1, leader_epoch=2, isr=(1,), recovering=False)
        assert stage.partition().is_leader


async def test_new_replica_without_room_is_created_later_although_a_directory_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed directory cannot have its log: the replica was never created."""
    async with roles(tmp_path, BOTH) as stage:
        with no_room(monkeypatch):
            stage.place(state(2, directories=(UNASSIGNED, ELSEWHERE)))
            fail(stage, "b")
            stage.change(directories=(LOST, ELSEWHERE))
        stage.roles.open_missing()
        assert directory_of(stage) == "a"


async def test_replica_without_room_is_forgotten_with_its_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with roles(tmp_path) as stage:
        with no_room(monkeypatch):
            stage.place(state(2), state(2))
        stage.change(1, replicas=(2, 3), isr=(2,))
        stage.publish(stage.image.without_topics([TOPIC]))
        stage.roles.open_missing()
        assert (stage.find(0), stage.find(1)) == (None, None)
