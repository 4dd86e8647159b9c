"""The jars of Spark's modules: once resolved, they are found again without Spark's resolver.

Ivy, which spark.jars.packages runs, takes a second or more of every start, when it has nothing to
download too.  What it found is noted in the user's cache directory, by the names that were asked
for; while those files are there, as large as they were, they are given as spark.jars.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlparse

PREFIX = "spark-jars-"


def known(packages: Iterable[str]) -> list[str] | None:
    """The files that these Maven coordinates came to; None where one of them is not there."""
    try:
        noted: dict[str, int] = json.loads(_note_of(packages).read_text())
        whole = all(Path(path).stat().st_size == size for path, size in noted.items())
    except (OSError, ValueError):  # never resolved, or removed since
        return None
    return list(noted) if whole and noted else None


@contextlib.contextmanager
def resolving() -> Iterator[None]:
    """While Spark's resolver may download: two at once damage each other's files in Ivy's folder.

    Where the cache directory cannot be written to, nobody is waited for.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            target = _cache_dir() / f"{PREFIX}resolving.lock"
            target.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(held.enter_context(target.open("w")), fcntl.LOCK_EX)
        yield


def note(packages: Iterable[str], jars: str) -> None:
    """Note what they came to: spark.jars of a session whose packages were resolved.

    A cache directory that cannot be written to costs the next start its second again.
    """
    paths = [Path(urlparse(jar).path) for jar in jars.split(",") if jar]
    with contextlib.suppress(OSError):
        sizes = {str(path): path.stat().st_size for path in paths}
        target = _note_of(packages)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        fresh.write_text(json.dumps(sizes, indent=1))
        fresh.rename(target)


def _note_of(packages: Iterable[str]) -> Path:
    name = hashlib.sha256(",".join(sorted(packages)).encode()).hexdigest()[:16]
    return _cache_dir() / f"{PREFIX}{name}.json"


def _cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire")
