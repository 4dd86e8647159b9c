"""Pauses of the loop at random, for tests that hold only while nothing comes between two tasks.

`pytest --shaken SEED` runs the async tests alone. The loop of each stops now and then before a task
goes on, as on a busy machine: other processes and threads go on, and more arrives on sockets.
"""

from __future__ import annotations

import random
import time

from trio.abc import Instrument
from trio.lowlevel import Task

PAUSED = 1 / 25
"""The share of the tasks' steps with a pause before them."""
PAUSE_S = 0.005


class Shaking(Instrument):
    """Pauses the loop before steps of tasks that are drawn from a seed."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def before_task_step(self, task: Task) -> None:
        if self._rng.random() < PAUSED:
            time.sleep(self._rng.uniform(0, PAUSE_S))
