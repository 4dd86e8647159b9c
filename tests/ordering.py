"""The order of the test files: drawn from the run's seed, and such that all workers end together.

A worker of xdist takes the next file when it has done its last (`--dist loadfile`).  Whoever takes
a long one at the end works on alone, so those that start Java or Spark come within the first part,
at any place of it, and the last part is of short ones only.

Files whose tests share a Spark session are one piece of work: a session that starts, and Java code
that is compiled, once a worker cost as much as a tenth of the run.  It is the longest piece, as
long as all others on four workers, so it comes first, its files in the order that was drawn.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from xdist.scheduler import LoadFileScheduling

SPARK = "the files on Spark"
ON_SPARK = ("tests/pipeline/", "tests/spark/")
OF_THEIR_OWN = ("_kills.py", "/test_guide.py", "/test_demo.py")
"""Files in these folders that start each Spark in a process of its own."""

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
    first.sort(key=lambda file: piece_of(file) != SPARK)
    return first + last


def piece_of(file: str) -> str:
    """The name of the piece of work that a file belongs to, which one worker does as a whole."""
    is_shared = file.startswith(ON_SPARK) and not file.endswith(OF_THEIR_OWN)
    return SPARK if is_shared else file


class ByPiece(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out files as `--dist loadfile` does, but those on one Spark session together."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(super()._split_scope(nodeid))
