"""The order of the test files: drawn from the run's seed, and such that both workers end together.

A worker of xdist takes the next file when it has done its last (`--dist loadfile`).  Whoever takes
a long one at the end works on alone, so those that start Java or Spark come within the first part,
at any place of it, and the last part is of short ones only.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

LAST_PART = 3
"""Of so many parts the last has short files only; they take some seconds each."""


def drawn(files: Mapping[str, bool], seed: str) -> list[str]:
    """The files in the order of this seed; each with whether it is a long one."""
    rng = random.Random(f"order of files:{seed}")
    short = sorted(name for name, is_long in files.items() if not is_long)
    long = sorted(name for name, is_long in files.items() if is_long)
    rng.shuffle(short)
    count = min(len(short), len(files) // LAST_PART)
    last, rest = short[:count], short[count:]
    first = long + rest
    rng.shuffle(first)
    return first + last
