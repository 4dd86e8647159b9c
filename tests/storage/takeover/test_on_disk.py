"""What log directories contain: folders, topics, epochs, and their last owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.codecs.batches import Record, build
from kwire.log import Log, LogError, LogManager
from kwire.log.directory import partition_metadata
from kwire.log.directory.files import Files
from kwire.log.directory.log_dir import LogDir
from kwire.storage.takeover import (
    is_fresh,
    is_needed,
    is_new,
    is_zookeepers,
    metadata_folder,
    on_disk,
)
from kwire.storage.takeover.kraft_changes import Replica
from kwire.storage.takeover.mirror import KraftMirror
from tests.log.configs import DEFAULTS

NOW_MS = 1_700_000_000_000
ONE, TWO = b"1" * 16, b"2" * 16
STRAY = f"{32 * 'f'}-stray"


def with_id(directory: Path, name: str, topic_id: bytes) -> None:
    (directory / name).mkdir(parents=True)
    partition_metadata.write(Files(), directory / name, topic_id)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    logs = opened([tmp_path / "one", tmp_path / "two"])
    yield logs
    logs.close()


def opened(directories: list[Path]) -> LogManager:
    for each in directories:
        each.mkdir(exist_ok=True)
    logs = LogManager(
        directories, defaults=DEFAULTS, clock=lambda: NOW_MS, verify_transactions=False
    )
    logs.load()
    return logs


def append(log: Log, leader_epoch: int, producer_id: int = -1) -> None:
    batch = build(
        [Record(0, NOW_MS, b"k", b"v", [])],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else 0,
    )
    log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


# -- folders


def test_folders_of_all_directories_and_strays_are_listed(tmp_path: Path) -> None:
    one, two = LogDir(tmp_path / "one", Files()), LogDir(tmp_path / "two", Files())
    with_id(one.path, "t-0", ONE)
    with_id(one.path, f"t-3.{STRAY}", TWO)
    with_id(two.path, "t-1", TWO)
    with_id(two.path, f"a.b-2-1.{STRAY}", ONE)
    (two.path / "u-4").mkdir()
    for name in (f"{32 * 'f'}-stray", f"t-9.{32 * 'f'}-delete", f"x.{STRAY}", "no folder of ours"):
        (one.path / name).mkdir()
    assert on_disk.folders([one, two]) == {
        "t": {0: ONE, 1: TWO, 3: TWO},
        "a.b-2": {1: ONE},
        "u": {4: None},
    }
    assert list(on_disk.strays([one, two])) == [
        (one, one.path / f"t-3.{STRAY}", "t", 3),
        (two, two.path / f"a.b-2-1.{STRAY}", "a.b-2", 1),
    ]


def test_folder_without_a_readable_topic_id_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = LogDir(tmp_path, Files())
    with_id(tmp_path, "t-0", ONE)
    (tmp_path / "t-0" / partition_metadata.FILE_NAME).write_text("version: 1\n")
    assert on_disk.topic_id(directory, tmp_path / "t-0") is None
    assert "has no version 0" in caplog.text


# -- topics and epochs


def test_topic_of_logs_has_the_newest_leader_epochs(logs: LogManager) -> None:
    for index, epochs in ((1, [3, 5]), (0, [2]), (2, [])):
        log = logs.create("t", ONE, index)
        for epoch in epochs:
            append(log, epoch)
    logs.create("u", TWO, 0)
    found = on_disk.by_topic(logs)
    assert {name: sorted(its) for name, its in found.items()} == {"t": [0, 1, 2], "u": [0]}
    states = tuple(PartitionImage(7, epoch, 0, (7,), (7,)) for epoch in (2, 5, 0))
    assert on_disk.topic_of("t", found["t"], 7) == TopicImage("t", ONE, states)


def test_topic_of_logs_needs_all_partitions_and_one_topic_id(logs: LogManager) -> None:
    one, two = logs.create("t", ONE, 0), logs.create("u", TWO, 0)
    nameless = logs.create("v", bytes(16), 0)
    assert on_disk.topic_of("t", {1: one}, 7) is None
    assert on_disk.topic_of("t", {0: one, 2: one}, 7) is None
    assert on_disk.topic_of("t", {0: one, 1: two}, 7) is None
    found = on_disk.topic_of("t", {0: nameless, 1: one}, 7)
    assert found is not None
    assert found.id == ONE
    drawn = [on_disk.topic_of("v", {0: nameless}, 7) for _ in range(2)]
    ids = {each.id for each in drawn if each is not None}
    assert len(ids) == 2
    assert bytes(16) not in ids


def test_newest_epoch_is_that_of_batches_or_of_the_checkpoint(
    tmp_path: Path,
) -> None:
    """An epoch without batches is in the checkpoint only."""
    logs = opened([tmp_path])
    log = logs.create("t", ONE, 0)
    append(log, 4)
    assert on_disk.newest_epoch(log) == 4
    log.epochs.latest_loaded = 6
    assert on_disk.newest_epoch(log) == 6
    logs.close()


def test_producer_ids_of_all_logs_are_listed(logs: LogManager) -> None:
    for index, producer_ids in enumerate([(5, 9), (7,), ()]):
        log = logs.create("t", ONE, index)
        for producer_id in producer_ids:
            append(log, 0, producer_id)
    assert sorted(on_disk.producer_ids(logs)) == [5, 7, 9]


# -- whose directories they are

IMAGE = ClusterImage("c")
USED = ClusterImage("c", version=3)


def identified(directory: Path, version: int) -> None:
    key = "node.id" if version else "broker.id"
    directory.mkdir(exist_ok=True)
    (directory / "meta.properties").write_text(f"version={version}\n{key}=1\ncluster.id=c\n")


def checks_of(directories: Iterable[Path]) -> tuple[bool, bool, bool, bool]:
    """Return what the four checks say of these log directories.

    They are `is_zookeepers`, `is_new`, and `is_needed` with new and with used metadata.
    """
    logs = opened([*directories])
    try:
        return (
            is_zookeepers(logs),
            is_new(logs),
            is_needed(logs, IMAGE),
            is_needed(logs, USED),
        )
    finally:
        logs.close()


def test_directories_without_partitions_are_new(tmp_path: Path) -> None:
    assert checks_of([tmp_path]) == (False, True, False, False)
    identified(tmp_path, 1)
    assert checks_of([tmp_path]) == (False, True, False, False)


def test_directories_with_partitions_are_examined_once(tmp_path: Path) -> None:
    with_id(tmp_path / "two", "t-0", ONE)
    assert checks_of([tmp_path / "one", tmp_path / "two"]) == (False, False, True, False)


def test_directories_used_with_zookeeper_are_examined_at_each_start(tmp_path: Path) -> None:
    identified(tmp_path / "two", 0)
    identified(tmp_path / "one", 0)
    assert checks_of([tmp_path / "one", tmp_path / "two"]) == (True, False, True, True)


def test_directories_with_a_kraft_log_are_examined_at_each_start(tmp_path: Path) -> None:
    identified(tmp_path / "two", 1)
    identified(tmp_path / "one", 1)
    folder = tmp_path / "two" / "__cluster_metadata-0"
    folder.write_text("no folder")
    logs = opened([tmp_path / "one", tmp_path / "two"])
    assert metadata_folder(logs) is None
    logs.close()
    folder.unlink()
    folder.mkdir()
    logs = opened([tmp_path / "one", tmp_path / "two"])
    assert metadata_folder(logs) == folder
    logs.close()
    assert checks_of([tmp_path / "one", tmp_path / "two"]) == (False, False, True, True)


def test_metadata_is_fresh_without_commits_and_topics() -> None:
    known = TopicImage("t", ONE, (PartitionImage(1, 0, 0, (1,), (1,)),))
    assert is_fresh(IMAGE)
    assert not is_fresh(USED)
    assert not is_fresh(IMAGE.with_topics([known]))


# -- the metadata log that is written


def test_metadata_log_that_cannot_be_opened_raises_os_error(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    folder.write_text("no folder")
    with pytest.raises(OSError, match="__cluster_metadata-0") as raised:
        KraftMirror(folder, Files(), Replica(1), lambda: NOW_MS)
    assert not isinstance(raised.value, LogError)
