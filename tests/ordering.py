"""The order of the test files: drawn from the run's seed, and such that all workers end together.

A worker of xdist takes the next file when it has done its last (`--dist loadfile`).  Whoever takes
a long one at the end works on alone, so those that start Java or Spark, or hold a test that is
marked as slow, come within the first part, at any place of it, and the last part is of short ones
only.

Files whose tests use a Spark session are two pieces of work, each as a whole for one worker: a
session that starts, and Java code that is compiled, once a worker cost as much as a tenth of the
run, and with one session alone its worker was the last to end by minutes.  They are the longest
pieces, so they come first, the files of each in the order that was drawn.  The same holds for the
files that share a cluster, a console and a browser, data that took nodes of Apache Kafka to write,
or the parsed modules.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from xdist.scheduler import LoadFileScheduling

SESSIONS = {
    "the first Spark session": (
        "tests/pipeline/archiving/test_archive.py",
        "tests/pipeline/archiving/test_archive_command.py",
        "tests/pipeline/querying/test_query.py",
        "tests/pipeline/querying/test_query_command.py",
        "tests/pipeline/querying/test_registered.py",
        "tests/pipeline/replaying/test_replay.py",
        "tests/pipeline/test_arrow.py",
        "tests/spark/connector/",
        "tests/spark/test_workers_python.py",
    ),
    "the second Spark session": (
        "tests/pipeline/audit/test_audit.py",
        "tests/pipeline/audit/test_audit_command.py",
        "tests/pipeline/audit/test_compare.py",
        "tests/pipeline/mirroring/test_mirror.py",
        "tests/pipeline/test_following.py",
        "tests/pipeline/test_secured.py",
    ),
    "the lively cluster and its console": (
        "tests/console/browser/",
        "tests/console/test_questions.py",
        "tests/console/test_random_requests.py",
        "tests/console/test_who_may_ask.py",
    ),
    "each case of the wire on both brokers": ("tests/conformance/test_wire.py",),
    "the directories that each broker wrote": ("tests/log/interchange/",),
    "the modules, which are parsed once": (
        "tests/test_layering.py",
        "tests/test_tidy.py",
    ),
}
"""Pieces and their files, or folders of them."""

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
    first.sort(key=lambda file: piece_of(file) not in SESSIONS)
    return first + last


def piece_of(file: str) -> str:
    """The name of the piece of work that a file belongs to, which one worker does as a whole."""
    return next((piece for piece, files in SESSIONS.items() if file.startswith(files)), file)


class ByPiece(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out files as `--dist loadfile` does, but those on one Spark session together."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(super()._split_scope(nodeid))
