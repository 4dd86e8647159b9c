"""The kind of a data folder, recognized by the files in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.storage.data_folder.kinds import DataFolder, FolderKind, look
from tests.storage.data_folder import folders


def of_apache_kafka(path: Path) -> Path:
    folders.log_dir(path, 1, "t-0", "__cluster_metadata-0")
    return path


def taken_over_by_kwire(path: Path) -> Path:
    folders.single(path, "t-0", "__cluster_metadata-0")
    return path


def of_a_topic_called_broker(path: Path) -> Path:
    return folders.single(path, "broker-0", "broker-1", "broker-2")


def without_meta_properties(path: Path) -> Path:
    (folders.single(path, "t-0") / "meta.properties").unlink()
    return path


def damaged_meta_properties(path: Path) -> Path:
    (folders.single(path, "t-0") / "meta.properties").write_text("version=7\n")
    return path


def of_other_files(path: Path) -> Path:
    (path / "dbus-1").mkdir(parents=True)
    (path / "notes.log").touch()
    return path


def cluster_up_served_as_brokers(path: Path) -> Path:
    folders.cluster_up(path)
    return folders.cluster(path)


def moved_in_part(path: Path) -> Path:
    folders.single(path)
    (path / ".broker-1-moving").mkdir()
    (path / "meta.properties").rename(path / ".broker-1-moving" / "meta.properties")
    return path


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: path, FolderKind.NEW),
        (of_other_files, FolderKind.NEW),
        (folders.single, FolderKind.SINGLE),
        (of_a_topic_called_broker, FolderKind.SINGLE),
        (without_meta_properties, FolderKind.SINGLE),
        (damaged_meta_properties, FolderKind.SINGLE),
        (moved_in_part, FolderKind.SINGLE),
        (folders.cluster, FolderKind.CLUSTER),
        (lambda path: folders.cluster(path) / "broker-1", FolderKind.MEMBER),
        (lambda path: folders.cluster(path) / "broker-9", FolderKind.MEMBER),
        (lambda path: folders.cluster(path) / "broker-1" / "t-0", FolderKind.PARTITION),
        (lambda path: of_a_topic_called_broker(path) / "broker-1", FolderKind.PARTITION),
        (folders.cluster_up, FolderKind.CLUSTER_UP),
        (lambda path: folders.cluster_up(path, 0), FolderKind.CLUSTER_UP),
        (lambda path: folders.cluster_up(path) / "broker-1", FolderKind.UP_MEMBER),
        (lambda path: folders.cluster_up(path) / "broker-1" / "data", FolderKind.UP_MEMBER),
        (folders.adopted, FolderKind.ADOPTED),
        (folders.kraft_up, FolderKind.KRAFT_UP),
        (lambda path: folders.kraft_up(path, 0), FolderKind.KRAFT_UP),
        (lambda path: folders.kraft_up(path) / "broker-2", FolderKind.KRAFT_UP_MEMBER),
        (lambda path: folders.kraft_up(path) / "broker-9" / "data", FolderKind.KRAFT_UP_MEMBER),
        (lambda path: folders.kraft_up(path) / "controller-101", FolderKind.KRAFT_UP_MEMBER),
        (
            lambda path: folders.kraft_up(path) / "controller-101" / "data",
            FolderKind.KRAFT_UP_MEMBER,
        ),
        (of_apache_kafka, FolderKind.KRAFT),
        (taken_over_by_kwire, FolderKind.KRAFT),
        (lambda path: folders.log_dir(path, 1, "t-0", version=0), FolderKind.ZOOKEEPER),
        (folders.mixed, FolderKind.MIXED),
        (lambda path: folders.mixed(path) / "broker-1", FolderKind.MEMBER),
        (cluster_up_served_as_brokers, FolderKind.MIXED),
    ],
)
def test_folder_is_recognized_by_its_files(
    make: Callable[[Path], Path], kind: FolderKind, tmp_path: Path
) -> None:
    assert look(make(tmp_path / "data")).kind is kind


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (folders.single, FolderKind.SINGLE),
        (of_apache_kafka, FolderKind.KRAFT),
        (lambda path: folders.log_dir(path, 1, "t-0", version=0), FolderKind.ZOOKEEPER),
    ],
)
def test_single_brokers_side_by_side_are_not_a_cluster(
    tmp_path: Path, make: Callable[[Path], object], kind: FolderKind
) -> None:
    make(tmp_path / "broker-1")
    assert look(tmp_path / "broker-2").kind is FolderKind.NEW
    make(tmp_path / "broker-2")
    assert [look(tmp_path / f"broker-{number}").kind for number in (1, 2)] == [kind, kind]
    assert look(tmp_path).kind is FolderKind.NEW


def test_relative_path_of_a_member_is_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders.cluster(tmp_path / "data"))
    folder = look(Path("broker-2"))
    assert folder == DataFolder(Path("broker-2"), FolderKind.MEMBER, tmp_path / "data")
    assert folder.member_ids() == [1, 2, 3]


def test_log_directories_of_a_folder_are_those_of_all_its_brokers(tmp_path: Path) -> None:
    several, up, one = tmp_path / "several", tmp_path / "up", tmp_path / "one"
    kraft = folders.kraft_up(tmp_path / "kraft", 2)
    assert look(kraft).log_dirs() == [kraft / "broker-1" / "data", kraft / "broker-2" / "data"]
    assert look(kraft / "broker-2").log_dirs() == [kraft / "broker-2" / "data"]
    folders.cluster(several, 11)
    folders.cluster_up(up, 2)
    folders.single(one, "t-0")
    gone = folders.adopted(tmp_path / "gone")
    assert look(gone).log_dirs() == [gone / f"broker-{number}" for number in (1, 2, 3)]
    assert [each.name for each in look(several).log_dirs()] == [f"broker-{n}" for n in range(1, 12)]
    assert look(up).log_dirs() == [up / "broker-1" / "data", up / "broker-2" / "data"]
    assert look(up / "broker-2").log_dirs() == [up / "broker-2" / "data"]
    assert look(one).log_dirs() == [one]
    assert look(one / "t-0").log_dirs() == look(tmp_path / "new").log_dirs() == []
