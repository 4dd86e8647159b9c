"""Running a simulation: a trio program whose whole course follows from a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

import trio
from trio._core import _run
from trio.testing import MockClock

Result = TypeVar("Result")

Step = tuple[int, int, int]
"""What a simulation makes an event of."""
Simulation = Callable[[list[Step], Path, int, MockClock], Awaitable[Counter[str]]]
"""Lives through a schedule, over files in a folder, with chance by a seed; gives what was seen."""


def simulated(simulate: Simulation, schedule: list[Step], seed: int) -> Counter[str]:
    """In memory, where the machine has such a folder: what fsync costs is no part of this."""
    memory = Path("/dev/shm")
    clock = MockClock()
    _run._r.seed(seed)
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        patch("trio.to_thread.run_sync", _here),
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
    ):
        return trio.run(simulate, schedule, Path(folder), seed, clock, clock=clock)


async def _here(work: Callable[..., Result], *arguments: Any) -> Result:  # noqa: ANN401 - as there
    """In the place of a thread, whose end nobody could say again."""
    await trio.lowlevel.checkpoint()
    return work(*arguments)


def drawn(seed: int, length_max: int = 150) -> list[Step]:
    draw = random.Random(seed)
    length = draw.randint(1, length_max)
    return [(draw.randrange(999), draw.randrange(999), draw.randrange(999)) for _ in range(length)]
