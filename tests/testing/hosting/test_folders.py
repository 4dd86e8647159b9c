"""Folders of test brokers: each goes, however its users end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.testing.hosting.folders import Folder, sweep


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_folder_in_use_is_not_removed(temporary: Path) -> None:
    folder = Folder()
    (folder.path / "data").mkdir()
    sweep(temporary)
    assert (folder.path / "data").is_dir()
    folder.remove()
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_folder_of_a_killed_process_is_removed_by_the_next_one(temporary: Path) -> None:
    script = "import os; from kwire.testing.hosting.folders import Folder; Folder(); os.abort()"
    environ = {"TMPDIR": str(temporary), "PATH": ""}
    subprocess.run([sys.executable, "-c", script], env=environ, check=False)
    (left,) = temporary.iterdir()
    folder = Folder()
    assert not left.exists()
    assert list(temporary.iterdir()) == [folder.path]
    folder.remove()


def test_other_folders_are_not_removed(temporary: Path) -> None:
    (temporary / "kwire-test-notes").mkdir()
    (temporary / "other").mkdir()
    sweep(temporary)
    assert len(list(temporary.iterdir())) == 2
