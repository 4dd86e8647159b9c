"""Whoever puts a snapshot in place of a broker's data may be killed: old or new, never a mix."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import trio

from kwire.log import LogDirLocked
from kwire.server.server import run, serve
from kwire.settings import load
from kwire.testing.hooks.snapshots import journal_of, laying
from kwire.testing.hooks.snapshots.kept import SnapshotError
from tests.testing.hooks.snapshots.test_kept import made

KILLED: Final = """
import os, signal, sys
from pathlib import Path
from typing import Final
from kwire.testing.hooks.snapshots.laying import restore

AT = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"}
left = int(sys.argv[1])

def count(event, arguments):
    global left
    if event in AT:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
restore(Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
"""
"""Restores, and kills itself before it opens or changes a file for the so-and-so-manieth time."""

Held = dict[str, str]


def held(log_dir: Path) -> Held:
    """What every file of it says."""
    files = (path for path in log_dir.rglob("*") if path.is_file() and path.name != laying.LOCK)
    return {str(path.relative_to(log_dir)): path.read_text() for path in files}


class Restored:
    """Two log directories that hold something, and a snapshot that holds something else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.snapshot = made(folder / "kept")
        self.log_dirs = [folder / "x", folder / "y"]
        for number, log_dir in enumerate(self.log_dirs):
            (log_dir / "old-0").mkdir(parents=True)
            (log_dir / "old-0" / "00000000000000000000.log").write_text(f"old {number}")
        self.old = self.now()
        self.new = [held(self.snapshot / str(number)) for number in range(2)]

    def now(self) -> list[Held]:
        return [held(log_dir) for log_dir in self.log_dirs]

    def beside(self) -> list[str]:
        """What is there but the data and the snapshot."""
        return sorted(each.name for each in self.folder.iterdir() if each.name.startswith("."))

    def killed_at(self, step: int) -> bool:
        """Restore, in a process of its own; whether it was killed."""
        said = [str(step), str(self.snapshot), *map(str, self.log_dirs)]
        done = subprocess.run([sys.executable, "-c", KILLED, *said], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        return done.returncode != 0


@pytest.mark.slow
def test_restore_killed_at_any_step_leaves_old_or_new_data(tmp_path: Path) -> None:
    seen = set()
    step = 0
    is_killed = True
    while is_killed:
        step += 1
        (folder := tmp_path / str(step)).mkdir()
        state = Restored(folder)
        is_killed = state.killed_at(step)
        begun = laying.finish(state.log_dirs[0])
        assert state.now() in (state.old, state.new), step
        assert state.now() == state.new or not begun, step
        seen.add((begun, state.now() == state.new))
        laying.restore(state.snapshot, state.log_dirs)
        assert (state.now(), state.beside()) == (state.new, []), step
    assert step > 30
    assert seen == {(False, False), (True, True), (False, True)}


async def test_starting_broker_finishes_a_killed_restore(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "old").write_text("old")
    laid = tmp_path / ".data-restoring"
    laid.mkdir()
    (laid / "new").write_text("new")
    journal_of(data).write_text(f'["{data}"]')
    settings = load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data)})
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, settings, stop)
        assert (data / "new").read_text() == "new"
        assert not (data / "old").exists()
        assert not laid.exists()
        assert not journal_of(data).exists()
        stop.set()


def test_broker_start_during_a_restore_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    journal_of(data).write_text("[]")
    settings = load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data)})
    with journal_of(data).open() as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        with pytest.raises(SnapshotError, match="is being restored by another process"):
            laying.finish(data)
        with pytest.raises(LogDirLocked, match="is being restored"):
            run(settings)
    assert not data.exists()
    assert journal_of(data).exists()
