"""Run a simulation: a trio program that does the same each time it gets the same seed."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
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
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        patch("trio.to_thread.run_sync", _here),
    ):
        seen: Counter[str] = repeatable(simulate, schedule, Path(folder), seed=seed)
        return seen


def repeatable(simulate: Any, *arguments: Any, seed: int) -> Any:  # noqa: ANN401 - any program
    """Call `simulate` with the arguments, the seed and a clock that jumps when all tasks wait.

    trio chooses the next task by the seed, so the same seed gives the same course.
    """
    clock = MockClock()
    _run._r.seed(seed)
    with patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True):
        return trio.run(simulate, *arguments, seed, clock, clock=clock)


def run_seeds(run: Callable[[int], Counter[str]], seeds: Iterable[int]) -> Counter[str]:
    """The counts of all runs together.  The error of a run that fails names its seed."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        try:
            seen += run(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error
    return seen


def many_seeds(rng: random.Random) -> range:
    """As many as `make simulate SEEDS=N` asks for, from one that is drawn."""
    first = rng.getrandbits(40)
    return range(first, first + int(os.environ.get("KWIRE_SIMULATED_SEEDS", "500")))


async def _here(work: Callable[..., Result], *arguments: Any) -> Result:  # noqa: ANN401 - as there
    """In the place of a thread, whose end nobody could say again."""
    await trio.lowlevel.checkpoint()
    return work(*arguments)


def drawn(seed: int, length_max: int = 150) -> list[Step]:
    draw = random.Random(seed)
    length = draw.randint(1, length_max)
    return [(draw.randrange(999), draw.randrange(999), draw.randrange(999)) for _ in range(length)]
