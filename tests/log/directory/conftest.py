"""Managers of log directories in the test's folder, and their clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.log import LogManager
from kwire.log.directory.files import Files
from tests.log.configs import DEFAULTS

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"


class Clock:
    now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


MakeManager = Callable[..., LogManager]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manager_of(tmp_path: Path, clock: Clock) -> Iterator[MakeManager]:
    """manager_of("a", "b"): a manager of these directories; what is left open is unlocked."""
    made: list[LogManager] = []

    def make(*names: str, load: bool = True, files: Files | None = None) -> LogManager:
        manager = LogManager(
            [tmp_path / name for name in names or ("a",)],
            defaults=DEFAULTS,
            clock=clock,
            files=files,
        )
        made.append(manager)
        if load:
            manager.load()
        return manager

    yield make
    for manager in made:
        kill(manager)


def kill(manager: LogManager) -> None:
    """Release the locks without writing anything, as the end of a process does."""
    for directory in manager.online_dirs:
        directory.unlock()
