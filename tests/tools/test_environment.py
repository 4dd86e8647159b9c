"""`tools/environment.py` notes what it installed, and keeps an older Spark apart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import environment

KINDS = ("run", "dev", "mutants", "spark-4.0.0")
Call = Callable[..., bool]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with empty locks, in which pip installs nothing but makes the environment."""
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "requirements").mkdir()
    for locks in environment.LOCKS.values():
        for name in locks:
            (tmp_path / "requirements" / name).touch()
    monkeypatch.setattr(environment, "call", pip())
    return tmp_path


def pip(during: Callable[[], object] = lambda: None) -> Call:
    """What stands for a command: it calls `during` and leaves a python where one is to be."""

    def call(*command: str | Path) -> bool:
        during()
        target = Path(command[-1] if command[1:3] == ("-m", "venv") else command[0])
        python = target / "bin" / "python" if command[1:3] == ("-m", "venv") else target
        if python != Path(sys.executable):
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        return True

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_installed_environment_is_ready(kind: str, root: Path) -> None:
    assert not environment.is_ready(kind)
    environment.install(kind)
    assert environment.is_ready(kind)


def test_older_spark_has_an_environment_of_its_own(root: Path) -> None:
    environment.install("spark-4.0.0")
    assert (root / "build" / "spark-4.0.0" / "bin" / "python").exists()
    assert not (root / ".venv").exists()
    assert not environment.is_ready("dev")


def test_tests_find_what_they_need_in_the_environment_of_mutants(root: Path) -> None:
    environment.install("mutants")
    assert environment.is_ready("dev")
    assert not environment.is_ready("spark-4.0.0")


def test_lock_that_changes_during_an_install_is_installed_the_next_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = root / "requirements" / "dev.txt"
    monkeypatch.setattr(environment, "call", pip(lambda: lock.write_text("pyspark==4.2.0")))
    environment.install("dev")
    assert not environment.is_ready("dev")
    environment.install("dev")
    assert environment.is_ready("dev")


def test_every_lock_of_an_environment_exists() -> None:
    for names in environment.LOCKS.values():
        for name in names:
            assert (environment.ROOT / "requirements" / name).exists()
