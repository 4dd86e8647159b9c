"""Snapshots as folders: their names, how many there may be, and data made of one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.testing.hooks.snapshots import kept, laying
from kwire.testing.hooks.snapshots.kept import (
    Description,
    SnapshotError,
    SnapshotFolder,
    describe,
    description_of,
)

SAID = Description(1, 2, "c", 2, 3, 4, {"node.id": "1"})


def made(folder: Path, name: str = "a") -> Path:
    """A snapshot of two log directories, each with a partition of two segments."""
    under_way = SnapshotFolder(folder).begin(name)
    for number in ("0", "1"):
        partition = under_way / number / f"t-{number}"
        partition.mkdir(parents=True)
        for segment in ("00000000000000000000.log", "00000000000000000042.log"):
            (partition / segment).write_text(f"{number} {segment}")
        (under_way / number / "kwire-metadata.log").write_text(number)
    describe(under_way, SAID)
    return SnapshotFolder(folder).finish(name)


def test_description_is_read_back_and_readable_only_by_its_user(tmp_path: Path) -> None:
    path = made(tmp_path)
    assert description_of(path) == SAID
    assert (path / kept.DESCRIPTION).stat().st_mode & 0o777 == 0o600


def test_snapshots_are_listed_found_and_removed_by_name(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path / "none yet")
    assert snapshots.names() == []
    snapshots.begin("b")
    snapshots.give_up("b")
    for name in ("b", "a"):
        made(snapshots.folder, name)
    snapshots.begin("under-way")
    assert snapshots.names() == ["a", "b"]
    with pytest.raises(SnapshotError, match=r" has a, b"):
        snapshots.find("something")
    with pytest.raises(SnapshotError, match=r"there is no snapshot '../a'"):
        snapshots.remove("../a")
    snapshots.remove("a")
    assert snapshots.names() == ["b"]


@pytest.mark.parametrize("name", ["a", "-", "_", "0.1", "A-b_c.d", "a.", "a" * 100])
def test_valid_snapshot_names_are_accepted(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, name)
    assert SnapshotFolder(tmp_path).names() == [name]
    assert SnapshotFolder(tmp_path).find(name) == path == tmp_path / name


def test_folder_without_a_description_is_not_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("b")
    assert SnapshotFolder(tmp_path).names() == []
    with pytest.raises(SnapshotError, match=r"a is not a snapshot: No such file or directory$"):
        description_of(tmp_path / "a")


@pytest.mark.parametrize("name", ["", ".a", "a/b", "..", "a b", "a" * 101, "\n", "a\n"])
def test_invalid_snapshot_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SnapshotError, match="is not a valid name"):
        SnapshotFolder(tmp_path).begin(name)
    assert list(tmp_path.iterdir()) == []


def test_too_many_snapshots_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "SNAPSHOTS_MAX", 2)
    made(tmp_path, "a")
    made(tmp_path, "b")
    with pytest.raises(SnapshotError, match=r"there are 2 snapshots in .*: remove one first"):
        SnapshotFolder(tmp_path).begin("c")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "x": 2}'])
def test_unreadable_description_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / kept.DESCRIPTION).write_text(content)
    with pytest.raises(SnapshotError, match="cannot be read"):
        description_of(tmp_path)


def test_description_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / kept.DESCRIPTION).write_text(json.dumps({"format": 2}))
    with pytest.raises(SnapshotError, match="another version of kwire"):
        description_of(tmp_path)


def test_all_but_the_newest_segments_are_shared(tmp_path: Path) -> None:
    path = made(tmp_path / "kept")
    laid = [tmp_path / "x", tmp_path / "y"]
    laying.lay_out(path, laid)
    for number, target in enumerate(laid):
        source, folder = path / str(number), target / f"t-{number}"
        old, new = "00000000000000000000.log", "00000000000000000042.log"
        assert (folder / old).samefile(source / f"t-{number}" / old)
        assert not (folder / new).samefile(source / f"t-{number}" / new)
        assert (folder / new).read_text() == f"{number} {new}"
        assert not (target / "kwire-metadata.log").samefile(source / "kwire-metadata.log")
    with pytest.raises(SnapshotError, match="is not empty"):
        laying.lay_out(path, laid)
    with pytest.raises(SnapshotError, match="2 log directories, not 1"):
        laying.lay_out(path, laid[:1])


def test_restore_replaces_the_data(tmp_path: Path) -> None:
    path = made(tmp_path / "kept")
    one, other = tmp_path / "x", tmp_path / "y"
    one.mkdir()
    (one / "old").write_text("old")
    laying.restore(path, [one, other])
    assert sorted(each.name for each in one.iterdir()) == ["kwire-metadata.log", "t-0"]
    assert sorted(each.name for each in other.iterdir()) == ["kwire-metadata.log", "t-1"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "x", "y"]


def test_snapshot_that_does_not_fit_leaves_the_data_unchanged(tmp_path: Path) -> None:
    path = made(tmp_path / "kept")
    target = tmp_path / "x"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(SnapshotError, match="2 log directories"):
        laying.restore(path, [target])
    assert (target / "old").read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "x"]


def test_mount_point_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "kept")
    monkeypatch.setattr("os.path.ismount", lambda each: True)
    with pytest.raises(SnapshotError, match="is a mount"):
        laying.laid_beside(path, [tmp_path / "x", tmp_path / "y"])


def test_restore_is_refused_while_a_broker_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process' lock: this one's would not be in its own way."""

    def refuse(*_: object) -> None:
        raise BlockingIOError

    path = made(tmp_path / "kept")
    monkeypatch.setattr(fcntl, "lockf", refuse)
    (tmp_path / "x").mkdir()
    with pytest.raises(SnapshotError, match="is in use: stop its broker"):
        laying.restore(path, [tmp_path / "x", tmp_path / "y"])


@pytest.mark.parametrize("is_reversed", [False, True])
def test_newest_segment_is_copied_whatever_the_order_of_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reversed: bool
) -> None:
    """A file system lists a folder in an order of its own."""
    path = made(tmp_path / "kept")
    scandir = os.scandir

    class Listing:
        def __init__(self, folder: Path) -> None:
            with scandir(folder) as entries:
                self._entries = sorted(entries, key=lambda each: each.name, reverse=is_reversed)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self._entries)

        def __exit__(self, *error: object) -> None:
            """All is read already."""

    monkeypatch.setattr(os, "scandir", Listing)
    laid = [tmp_path / "x", tmp_path / "y"]
    laying.lay_out(path, laid)
    for number, target in enumerate(laid):
        source, folder = path / str(number) / f"t-{number}", target / f"t-{number}"
        newest = "00000000000000000042.log"
        with (folder / newest).open("a") as appended:
            appended.write("more")
        assert (source / newest).read_text() == f"{number} {newest}"
