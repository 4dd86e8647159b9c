"""Data laid out from a snapshot: which files are shared, and an exchange that was interrupted."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from kwire.testing.hooks.snapshots import journal_of, kept, laying
from kwire.testing.hooks.snapshots.kept import Description, SnapshotError, SnapshotFolder, describe
from tests.testing.hooks.snapshots.test_kept import SAID, made

OLD, NEW = "00000000000000000000.log", "00000000000000000042.log"
NO_SEGMENTS = ("leader-epoch-checkpoint", "0000.index", "99999999999999999999.snapshot", "9x.log")
"""Files beside segments that a broker writes again in place; two sort after every segment."""


def state_of(log_dir: Path) -> dict[str, str]:
    return {
        str(path.relative_to(log_dir)): path.read_text()
        for path in log_dir.rglob("*")
        if path.is_file()
    }


def test_files_other_than_segments_are_copied(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "kept")
    partition = snapshot / "0" / "t-0"
    for name in NO_SEGMENTS:
        (partition / name).write_text(name)
    laid = [tmp_path / "deep" / "er" / "x", tmp_path / "y"]
    laying.lay_out(snapshot, laid)
    for name in NO_SEGMENTS:
        copy = laid[0] / "t-0" / name
        assert copy.read_text() == name
        assert not copy.samefile(partition / name)
    assert (laid[0] / "t-0" / OLD).samefile(partition / OLD)
    assert not (laid[0] / "t-0" / NEW).samefile(partition / NEW)


def test_only_segment_of_a_partition_is_copied(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "kept")
    (snapshot / "0" / "t-0" / OLD).unlink()
    laid = [tmp_path / "x", tmp_path / "y"]
    laying.lay_out(snapshot, laid)
    assert not (laid[0] / "t-0" / NEW).samefile(snapshot / "0" / "t-0" / NEW)


@pytest.mark.parametrize("extra_bytes", [0, 1])
def test_large_files_are_copied_whole(tmp_path: Path, extra_bytes: int) -> None:
    snapshot = made(tmp_path / "kept")
    content = bytes(range(256)) * (laying.COPIED_AT_ONCE_BYTES_MAX // 256) + b"x" * extra_bytes
    (snapshot / "0" / "t-0" / NEW).write_bytes(content)
    laying.lay_out(snapshot, [tmp_path / "x", tmp_path / "y"])
    assert (tmp_path / "x" / "t-0" / NEW).read_bytes() == content


@pytest.mark.parametrize("number", sorted(laying.NO_LINK))
def test_segment_is_copied_where_the_file_system_has_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(source: str, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    source = tmp_path / "a"
    source.write_text("records")
    laying.share(str(source), tmp_path / "b")
    assert (tmp_path / "b").read_text() == "records"


def test_other_errors_of_a_hard_link_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", link)
    (tmp_path / "a").write_text("records")
    with pytest.raises(OSError, match="Input/output error"):
        laying.share(str(tmp_path / "a"), tmp_path / "b")
    assert not (tmp_path / "b").exists()


class Interrupted(Exception):
    """The process is killed here."""


@pytest.fixture
def exchanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two log directories whose exchange was interrupted before its first step."""
    log_dirs = [tmp_path / "dätä", tmp_path / "other"]
    for log_dir in log_dirs:
        log_dir.mkdir()
        (log_dir / "old").write_text("old")
    laying.laid_beside(made(tmp_path / "kept"), log_dirs)

    def interrupt(paths: list[Path]) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(laying, "_exchange_all", interrupt)
        with pytest.raises(Interrupted):
            laying.exchange(log_dirs)
    return log_dirs


def test_journal_beside_the_first_log_directory_names_them_all(exchanging: list[Path]) -> None:
    journal = journal_of(exchanging[0])
    assert json.loads(journal.read_text(encoding="utf-8")) == [str(path) for path in exchanging]
    assert journal.stat().st_mode & 0o777 == 0o644
    assert not journal_of(exchanging[1]).exists()


@pytest.mark.parametrize("moved", [0, 1, 2, 3, 4])
def test_interrupted_exchange_is_finished_from_any_step(exchanging: list[Path], moved: int) -> None:
    """`moved`: how many of the four renames had been made."""
    renames = [
        (path.with_name(before), path.with_name(after))
        for path in exchanging
        for before, after in (
            (path.name, f".{path.name}-before"),
            (f".{path.name}-restoring", path.name),
        )
    ]
    for before, after in renames[:moved]:
        before.rename(after)
    assert laying.finish(exchanging[0])
    for number, log_dir in enumerate(exchanging):
        assert state_of(log_dir) == {
            f"t-{number}/{OLD}": f"{number} {OLD}",
            f"t-{number}/{NEW}": f"{number} {NEW}",
            "kwire-metadata.log": str(number),
        }
    folder = exchanging[0].parent
    assert sorted(path.name for path in folder.iterdir()) == ["dätä", "kept", "other"]
    assert not laying.finish(exchanging[0]), "there is nothing left to do"


def test_exchange_finished_by_another_process_is_not_repeated(
    exchanging: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_of(exchanging[0])
    lock_journal = laying._lock_journal

    def locked_late(lock: int, log_dir: Path) -> None:
        journal.unlink()
        lock_journal(lock, log_dir)

    monkeypatch.setattr(laying, "_lock_journal", locked_late)
    assert not laying.finish(exchanging[0])
    assert state_of(exchanging[0]) == {"old": "old"}


def test_failed_lay_out_removes_its_folders(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "kept")
    with pytest.raises(SnapshotError, match="holds 2 log directories, not 1"):
        laying.laid_beside(snapshot, [tmp_path / "x"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_restore_uses_the_lock_of_a_broker(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    os.close(laying._locked(tmp_path / "x"))
    assert (tmp_path / "x" / laying.LOCK).stat().st_mode & 0o777 == 0o644


def test_snapshot_is_laid_out_into_existing_empty_folders(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "kept")
    laid = [tmp_path / "x", tmp_path / "y"]
    laid[0].mkdir()
    laying.lay_out(snapshot, laid)
    assert [state_of(path)["kwire-metadata.log"] for path in laid] == ["0", "1"]


def test_restore_removes_what_killed_restores_left(tmp_path: Path) -> None:
    """Folders half laid out, or kept half removed; and a journal that never got its name."""
    log_dirs = [tmp_path / "x", tmp_path / "y"]
    for log_dir in log_dirs:
        for suffix in ("restoring", "before"):
            left = tmp_path / f".{log_dir.name}-{suffix}" / "t-9"
            left.mkdir(parents=True)
            (left / OLD).write_text("left")
        log_dir.mkdir()
        (log_dir / "old").write_text("old")
    (tmp_path / ".x-restore.tmp").write_text("[" + "x" * 10_000)
    laying.restore(made(tmp_path / "kept"), log_dirs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "x", "y"]
    for number, log_dir in enumerate(log_dirs):
        assert sorted(state_of(log_dir)) == [
            "kwire-metadata.log", f"t-{number}/{OLD}", f"t-{number}/{NEW}",
        ]  # fmt: skip


def test_failed_restore_finishes_an_interrupted_one_first(exchanging: list[Path]) -> None:
    snapshot = exchanging[0].parent / "kept" / "a"
    (snapshot / kept.DESCRIPTION).write_text("")
    with pytest.raises(SnapshotError, match="cannot be read"):
        laying.restore(snapshot, exchanging)
    assert [state_of(path)["kwire-metadata.log"] for path in exchanging] == ["0", "1"]


def test_journal_is_locked_while_folders_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dirs = [tmp_path / "x", tmp_path / "y"]
    exchange_all = laying._exchange_all
    refused: list[str] = []

    def exchanged_while_another_asks(paths: list[Path]) -> None:
        with pytest.raises(SnapshotError) as error:
            laying.finish(log_dirs[0])
        refused.append(str(error.value))
        exchange_all(paths)

    monkeypatch.setattr(laying, "_exchange_all", exchanged_while_another_asks)
    laying.restore(made(tmp_path / "kept"), log_dirs)
    assert refused == [f"{log_dirs[0]} is being restored by another process"]


def test_log_directories_are_locked_while_a_snapshot_takes_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are there: of another there is nothing to lock.  Then they are free again."""
    log_dirs = [tmp_path / "x", tmp_path / "y"]
    log_dirs[1].mkdir()
    lock_file = log_dirs[1] / laying.LOCK
    locked: list[tuple[bool, int]] = []

    def lock(file: int, how: int) -> None:
        locked.append((os.path.samestat(os.fstat(file), lock_file.stat()), how))

    monkeypatch.setattr(fcntl, "lockf", lock)
    laying.restore(made(tmp_path / "kept"), log_dirs)
    assert locked == [(True, fcntl.LOCK_EX | fcntl.LOCK_NB)]


def test_restore_closes_every_file(tmp_path: Path) -> None:
    log_dirs = [tmp_path / "x", tmp_path / "y"]
    for log_dir in log_dirs:
        log_dir.mkdir()
    snapshot = made(tmp_path / "kept")
    opened = sorted(os.listdir("/dev/fd"))
    laying.restore(snapshot, log_dirs)
    with pytest.raises(SnapshotError, match="holds 2 log directories, not 1"):
        laying.restore(snapshot, log_dirs[:1])
    assert sorted(os.listdir("/dev/fd")) == opened


def test_snapshot_without_one_of_its_folders_is_an_error_that_leaves_nothing(
    tmp_path: Path,
) -> None:
    snapshot = made(tmp_path / "kept")
    (snapshot / "1").rename(snapshot / "2")
    with pytest.raises(FileNotFoundError):
        laying.laid_beside(snapshot, [tmp_path / "x", tmp_path / "y"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


# -- what a snapshot says of itself


def test_public_description_has_only_time_and_sizes(tmp_path: Path) -> None:
    path = made(tmp_path)
    expected = {
        "snapshot": "a",
        "path": str(path),
        "taken_ms": SAID.taken_ms,
        "partitions": SAID.partitions,
        "size_bytes": SAID.size_bytes,
    }
    assert kept.public_description(path) == expected
    assert SnapshotFolder(tmp_path).public() == [expected]


def test_description_keeps_settings_with_any_characters(tmp_path: Path) -> None:
    said = Description(1, 2, "c", 1, 2, 3, {"listeners": "é\n中", "x": ""})
    describe(tmp_path, said)
    text = (tmp_path / kept.DESCRIPTION).read_text(encoding="utf-8")
    assert len(text.splitlines()) == 13
    assert kept.description_of(tmp_path) == said


def test_unknown_snapshot_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    with pytest.raises(SnapshotError, match=r"no snapshot 'before': .* has none$"):
        snapshots.find("before")
    for name in ("before", "other"):
        made(tmp_path, name)
    with pytest.raises(SnapshotError, match=r"no snapshot 'befor': did you mean before\?$"):
        snapshots.find("befor")
    with pytest.raises(SnapshotError, match=r"'zz': .* has before, other$"):
        snapshots.find("zz")


def test_name_of_an_abandoned_snapshot_can_be_used_again(tmp_path: Path) -> None:
    snapshots = SnapshotFolder(tmp_path)
    (snapshots.begin("a") / "half").write_text("half")
    assert not (snapshots.begin("a") / "half").exists(), "what a killed broker left is removed"
    snapshots.give_up("a")
    assert [*tmp_path.iterdir()] == []
    made(tmp_path)
    with pytest.raises(SnapshotError, match="there is a snapshot 'a' already: remove it first"):
        snapshots.begin("a")


def test_unfinished_snapshot_is_not_listed(tmp_path: Path) -> None:
    """Its broker was killed after it described the snapshot."""
    snapshots = SnapshotFolder(tmp_path)
    describe(snapshots.begin("a"), SAID)
    assert snapshots.names() == []
    snapshots.give_up("a")
    snapshots.give_up("a")  # nothing is left to give up
    assert [*tmp_path.iterdir()] == []


def test_folder_of_snapshots_is_beside_the_log_directory(tmp_path: Path) -> None:
    assert kept.beside(tmp_path / "data") == tmp_path / "data-snapshots"
    assert kept.beside(Path("data")).is_absolute()
