"""Without KRaft metadata, topics are taken from the logs at each start after ZooKeeper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.cluster.metadata.changes import CreateTopic, SetConfigs
from kwire.cluster.metadata.features import LEVELS_WITHOUT_ELR
from kwire.cluster.metadata.image import (
    FIRST_PRODUCER_ID,
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from kwire.cluster.stores.local import FILE_NAME
from kwire.codecs.batches import ControlType, Record, build, control_batch
from kwire.log import LogManager, Origin
from kwire.log.directory import partition_metadata
from kwire.log.directory.files import Files
from kwire.storage.takeover import on_disk
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import COMPLETE_COMMIT, PREPARE_COMMIT, Transaction
from tests.inside import running_broker
from tests.log.configs import DEFAULTS

NOW_MS = Broker.now_ms()
FIRST, SECOND = b"1" * 16, b"2" * 16
ZERO = bytes(16)


@contextmanager
def logs_in(directory: Path) -> Iterator[LogManager]:
    """The logs opened as by another broker, which stops cleanly at the end."""
    logs = LogManager(
        [directory], defaults=DEFAULTS, clock=lambda: NOW_MS, verify_transactions=False
    )
    logs.load()
    yield logs
    logs.close()


def identify(directory: Path, version: int) -> None:
    key = "node.id" if version else "broker.id"
    (directory / "meta.properties").write_text(f"version={version}\n{key}=1\ncluster.id=c\n")


def fill(logs: LogManager, topic: str, index: int, leader_epoch: int, topic_id: bytes) -> None:
    log = logs.create(topic, topic_id, index)
    batch = build([Record(0, NOW_MS, b"k", b"v", [])])
    log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


async def image_in(directory: Path) -> ClusterImage:
    async with running_broker(directory, {"node.id": "1"}) as broker:
        return broker.image


def led(leader_epoch: int) -> PartitionImage:
    return PartitionImage(1, leader_epoch, 0, (1,), (1,))


async def test_topics_of_a_new_broker_are_taken_from_the_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    identify(tmp_path, 1)
    with logs_in(tmp_path) as logs:
        fill(logs, "t", 1, 7, FIRST)
        fill(logs, "t", 0, 5, FIRST)
        logs.create("t", FIRST, 2)
        fill(logs, "gap", 1, 0, SECOND)
        fill(logs, "mixed", 0, 0, FIRST)
        fill(logs, "mixed", 1, 0, SECOND)
        fill(logs, "old", 0, 0, b"3" * 16)
        fill(logs, "cleaned", 0, 0, b"4" * 16)
        fill(logs, "__consumer_offsets", 0, 0, b"5" * 16)
    (tmp_path / "old-0" / partition_metadata.FILE_NAME).unlink()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\ncleaned 0 1\n")
    image = await image_in(tmp_path)
    assert image.topics.keys() == {"t", "old", "cleaned", "__consumer_offsets"}
    assert image.topics["t"] == TopicImage("t", FIRST, (led(5), led(7), led(0)))
    assert image.features.asked == LEVELS_WITHOUT_ELR, "levels are stored in new metadata"
    assert "topic t, with 3 partitions" in caplog.text
    assert "gap is left alone: it lacks some of its partitions" in caplog.text
    assert "mixed is left alone: it lacks some of its partitions" in caplog.text
    assert image.configs_of(TOPIC_RESOURCE, "cleaned") == {"cleanup.policy": "compact"}
    assert image.configs_of(TOPIC_RESOURCE, "t") == {}
    assert image.configs_of(TOPIC_RESOURCE, "__consumer_offsets")["cleanup.policy"] == "compact"
    given = image.topics["old"].id
    assert given not in (ZERO, FIRST, SECOND)
    assert (await image_in(tmp_path)).topics["old"].id == given
    assert partition_metadata.read(Files(), tmp_path / "old-0") == given


async def test_logs_are_ignored_once_kwire_has_metadata(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From then on, a topic that is missing in the metadata was deleted."""
    identify(tmp_path, 1)
    with logs_in(tmp_path) as logs:
        fill(logs, "t", 0, 0, FIRST)
    await image_in(tmp_path)
    with logs_in(tmp_path) as logs:
        fill(logs, "u", 0, 0, SECOND)
    caplog.clear()
    assert (await image_in(tmp_path)).topics.keys() == {"t"}
    assert "ZooKeeper" not in caplog.text


async def zookeepers(directory: Path) -> None:
    """Two topics of Apache Kafka with ZooKeeper, taken over; one of them has a config."""
    identify(directory, 0)
    with logs_in(directory) as logs:
        for topic, topic_id in (("t", FIRST), ("u", SECOND)):
            fill(logs, topic, 0, 3, topic_id)
    async with running_broker(directory, {"node.id": "1"}) as broker:
        assert broker.image.topics.keys() == {"t", "u"}
        await broker.node.store.commit(
            [SetConfigs(TOPIC_RESOURCE, name, {}, {"retention.ms": "-1"}) for name in "tu"]
        )


async def test_changes_under_zookeeper_are_found_in_the_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await zookeepers(tmp_path)
    assert "Apache Kafka keeps its metadata in ZooKeeper" in caplog.text
    shutil.rmtree(tmp_path / "u-0")
    with logs_in(tmp_path) as logs:
        logs.logs["t", 0].append(
            build([Record(0, NOW_MS, b"k", b"v", [])]), leader_epoch=9, now_ms=NOW_MS
        )
        fill(logs, "t", 1, 2, FIRST)
        fill(logs, "u", 0, 4, b"6" * 16)
        fill(logs, "u", 1, 5, b"6" * 16)
        fill(logs, "w", 0, 1, b"7" * 16)
    caplog.clear()
    image = await image_in(tmp_path)
    first, second = image.topics["t"].partitions
    assert (first.leader_epoch, first.partition_epoch) == (9, 1)
    assert second == led(2)
    assert image.topics["u"] == TopicImage("u", b"6" * 16, (led(4), led(5)))
    assert image.configs_of(TOPIC_RESOURCE, "u") == {"retention.ms": "-1"}
    assert image.topics["w"] == TopicImage("w", b"7" * 16, (led(1),))
    for message in (
        "since kwire last had these directories: topic t grew from 1 to 2 partitions",
        "topic u was deleted and created again, with id NjY2NjY2NjY2NjY2NjY2Ng",
        "topic u, with 2 partitions",
        "topic w, with 1 partitions",
        "1 partitions were led in later epochs",
    ):
        assert message in caplog.text
    shutil.rmtree(tmp_path / "w-0")
    assert (await image_in(tmp_path)).topics.keys() == {"t", "u"}
    assert "topic w was deleted" in caplog.text


async def test_epochs_are_followed_beside_topics_that_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One topic lacks a partition now, and two topics are unknown to kwire."""
    await zookeepers(tmp_path)
    with logs_in(tmp_path) as logs:
        fill(logs, "t", 1, 3, FIRST)
    assert len((await image_in(tmp_path)).topics["t"].partitions) == 2
    shutil.rmtree(tmp_path / "t-0")
    with logs_in(tmp_path) as logs:
        for topic in ("a", "z"):
            fill(logs, topic, 1, 0, SECOND)
        logs.logs["t", 1].append(
            build([Record(0, NOW_MS, b"k", b"v", [])]), leader_epoch=9, now_ms=NOW_MS
        )
    caplog.clear()
    image = await image_in(tmp_path)
    assert image.topics.keys() == {"t", "u"}
    assert image.topics["t"].partitions[1].leader_epoch == 9
    for topic in ("a", "t", "z"):
        assert f"{topic} is left alone: it lacks some of its partitions" in caplog.text


async def test_missing_disk_deletes_no_topic(tmp_path: Path) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    for directory, topic in ((here, "t"), (away, "u")):
        directory.mkdir()
        identify(directory, 0)
        with logs_in(directory) as logs:
            fill(logs, topic, 0, 1, topic.encode() * 16)
    both = {"node.id": "1", "log.dirs": f"{here},{away}"}
    async with running_broker(tmp_path, both) as broker:
        assert broker.image.topics.keys() == {"t", "u"}
    shutil.rmtree(away)
    away.write_text("no folder")
    async with running_broker(tmp_path, both) as broker:
        assert broker.image.topics.keys() == {"t", "u"}


async def test_folders_are_ignored_after_a_kill(tmp_path: Path) -> None:
    """kwire may have been removing or creating them; only its metadata is right."""
    await zookeepers(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    shutil.rmtree(tmp_path / "u-0")
    shutil.copytree(tmp_path / "t-0", tmp_path / "x-0")
    assert (await image_in(tmp_path)).topics.keys() == {"t", "u"}


def states(last: Mapping[str, Transaction]) -> Iterator[tuple[bytes, bytes | None]]:
    for transactional_id, transaction in last.items():
        yield TransactionRecord(transactional_id, transaction).encode()


@pytest.mark.parametrize("read_bytes", [100, on_disk._READ_BYTES])
@pytest.mark.parametrize(("current", "following"), [(9, 40_001), (40_001, -1)])
async def test_producer_id_of_a_transactional_producer_is_not_reused(
    tmp_path: Path,
    current: int,
    following: int,
    read_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its last records may be lost, and it may be about to use another producer id."""
    monkeypatch.setattr(on_disk, "_READ_BYTES", read_bytes)
    identify(tmp_path, 1)

    def producer(now: int, then: int = -1) -> Transaction:
        state = COMPLETE_COMMIT if then < 0 else PREPARE_COMMIT
        return Transaction(
            FIRST_PRODUCER_ID + now,
            1,
            60_000,
            state,
            NOW_MS,
            previous_producer_id=FIRST_PRODUCER_ID + now,
            next_producer_id=then if then < 0 else FIRST_PRODUCER_ID + then,
        )

    def append(records: list[tuple[bytes | None, bytes | None]]) -> None:
        batch = build([Record(0, NOW_MS, key, value, []) for key, value in records])
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)

    with logs_in(tmp_path) as logs:
        log = logs.create("__transaction_state", FIRST, 0)
        append([*states({"a": producer(3), "b" * 200: producer(4)})])
        append([(b"\0\0\7torn", b"?"), (b"\0\7", b"of another kind")])
        marker = control_batch(
            ControlType.COMMIT, 0, producer_id=12, producer_epoch=0, timestamp=NOW_MS
        )
        log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        append([*states({"c": producer(current, following)})])
        append([*states({"d": producer(5)}), TransactionRecord("e", None).encode()])
    image = await image_in(tmp_path)
    assert image.next_producer_id == FIRST_PRODUCER_ID + 40_002
    assert "__transaction_state" in caplog.text
    assert "offset 2: " in caplog.text


async def test_new_directory_has_no_takeover_mark(tmp_path: Path) -> None:
    async with running_broker(tmp_path, {"node.id": "1"}) as broker:
        await broker.node.store.commit([CreateTopic(TopicImage("t", FIRST, (led(0),)))])
    assert (tmp_path / FILE_NAME).exists()
    assert not (tmp_path / "kwire-takeover.json").exists()
