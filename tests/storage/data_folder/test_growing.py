"""Preparing a data folder for another number of brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage
from kwire.cluster.stores.change_log import ChangeLog
from kwire.cluster.stores.local import FILE_NAME as METADATA
from kwire.log import LogDirError, LogDirLocked
from kwire.log.directory.files import Files
from kwire.log.directory.locking import FolderLock
from kwire.storage.data_folder import growing
from kwire.storage.data_folder.kinds import FolderKind, look
from tests.storage.data_folder import folders
from tests.storage.data_folder.folders import image_of, partition


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def metadata_in(path: Path) -> ClusterImage:
    change_log, image = ChangeLog.open_at(path / METADATA)
    change_log.close()
    return image


IN_LOG_DIR = {
    "meta.properties", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
    "broker-0", "broker-1",
}  # fmt: skip


def of_broker_topic(path: Path) -> Path:
    """A topic whose partitions have the names of brokers' folders."""
    image = image_of("broker", partition((1,)), partition((1,)))
    return folders.single(path, "broker-0", "broker-1", image=image)


def test_one_brokers_logs_become_those_of_broker_1(tmp_path: Path) -> None:
    data = of_broker_topic(tmp_path / "data")
    (data / "client.properties").touch()
    (data / "old-0.0123-delete").mkdir()
    growing.prepare(look(data), 3)
    assert look(data).kind is FolderKind.CLUSTER
    assert names(data) == {"broker-1", METADATA, "client.properties"}
    assert names(data / "broker-1") == {*IN_LOG_DIR, "old-0.0123-delete"}
    assert metadata_in(data).topics["broker"].partitions[0].replicas == (1,)
    growing.prepare(look(data), 3)
    assert names(data) == {"broker-1", METADATA, "client.properties"}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("renames", range(6))
def test_killed_move_is_undone_at_the_next_start(
    renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = of_broker_topic(tmp_path / "data")
    before = names(data)
    left = renames
    rename = Files.rename

    def rename_until_killed(files: Files, source: Path | str, target: Path | str) -> None:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        rename(files, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "rename", rename_until_killed)
        with pytest.raises(Killed):
            growing.prepare(look(data), 3)
    growing.undo_interrupted(data)
    assert names(data) - {".lock"} == before
    growing.prepare(look(data), 3)
    assert names(data / "broker-1") == IN_LOG_DIR


def test_interrupted_move_is_left_alone_while_locked(tmp_path: Path) -> None:
    data = folders.single(tmp_path / "data", "t-0")
    (data / ".broker-1-moving").mkdir()
    lock = FolderLock(data, Files())
    lock.acquire()
    with pytest.raises(LogDirLocked):
        growing.undo_interrupted(data)
    lock.release()
    growing.undo_interrupted(data)
    assert ".broker-1-moving" not in names(data)


@pytest.mark.parametrize(
    ("node_id", "image", "sentence"),
    [
        (7, None, "folder of broker 7, and the brokers of a cluster are 1 to 3: give --brokers 7"),
        (1, image_of("t", partition((1,)), partition((1,))), "lacks the logs of t-1, so it is one"),
    ],
)
def test_folder_that_cannot_grow_into_a_cluster_is_refused_unchanged(
    node_id: int, image: ClusterImage | None, sentence: str, tmp_path: Path
) -> None:
    data = folders.single(tmp_path / "data", "t-0", image=image, node_id=node_id)
    before = names(data)
    with pytest.raises(LogDirError, match=sentence):
        growing.prepare(look(data), 3)
    assert names(data) == before


def test_partitions_on_no_remaining_broker_are_refused_with_the_command_that_moves_them(
    tmp_path: Path,
) -> None:
    spread = image_of("t", *[partition((n,)) for n in (1, 2, 3, 3, 3, 3)])
    data = folders.cluster(tmp_path / "data", image=spread)
    with pytest.raises(LogDirError) as refusal:
        growing.prepare(look(data), 1)
    sentence = str(refusal.value)
    assert "on none of the brokers 1 to 1: t-1, t-2, t-3 and 2 more" in sentence
    assert f"Start it with kwire serve --brokers 3 --data {data}" in sentence
    assert sentence.endswith("kwire cluster reassign --off 2,3")
    growing.prepare(look(data), 3)
    growing.prepare(look(data), 5)


def test_command_that_moves_partitions_gives_no_more_replicas_than_brokers_remain(
    tmp_path: Path,
) -> None:
    image = image_of("t", partition((1, 2, 3)), partition((3,)))
    data = folders.cluster(tmp_path / "data", image=image)
    with pytest.raises(LogDirError, match=r"reassign --off 3 --replication-factor 2$"):
        growing.prepare(look(data), 2)


def test_partitions_that_no_remaining_broker_is_in_sync_with_are_refused(tmp_path: Path) -> None:
    image = image_of("t", partition((1, 2, 3)), partition((1, 2), isr=(2,)))
    data = folders.cluster(tmp_path / "data", image=image)
    with pytest.raises(LogDirError, match=r"none of the brokers 1 to 1 is in sync: t-1\. Start"):
        growing.prepare(look(data), 1)
    growing.prepare(look(data), 2)


def test_topic_under_deletion_does_not_block_shrinking(tmp_path: Path) -> None:
    image = image_of("t", partition((3,))).with_deleting("t")
    data = folders.cluster(tmp_path / "data", image=image)
    growing.prepare(look(data), 1)


def test_transactions_can_be_written_by_the_brokers_that_remain(tmp_path: Path) -> None:
    settings = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
    image = image_of("__transaction_state", partition((1, 2, 3)))
    image = image.with_configs(TOPIC_RESOURCE, "__transaction_state", settings)
    data = folders.cluster(tmp_path / "data", image=image)
    growing.prepare(look(data), 2)
    assert metadata_in(data).configs_of(TOPIC_RESOURCE, "__transaction_state") == settings
    growing.prepare(look(data), 1)
    after = metadata_in(data)
    assert after.configs_of(TOPIC_RESOURCE, "__transaction_state") == {
        "min.insync.replicas": "1", "cleanup.policy": "compact",
    }  # fmt: skip
    assert after.version == image.version + 1
