"""Remembers the jars of Spark's modules, so that later starts need not resolve them again.

spark.jars.packages runs Ivy, which takes a second or more of every start, even if it downloads
nothing.  So the resolved files are noted in the user's cache directory, by their Maven coordinates.
While those files exist with their sizes, a start gives them to Spark.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlparse

from kwire.pipeline.cache import cache_dir

PREFIX = "spark-jars-"


def known(packages: Iterable[str]) -> list[str] | None:
    """The files of these Maven coordinates, or None if they were not noted or a file is missing."""
    try:
        noted: dict[str, int] = json.loads(_note_of(packages).read_text())
        whole = all(Path(path).stat().st_size == size for path, size in noted.items())
    except (OSError, ValueError):  # never resolved, or removed since
        return None
    return list(noted) if whole and noted else None


def beside(known: Iterable[str], own: Path) -> list[str]:
    """The known files of artifacts that the folder `own` of Spark's own jars has in no version.

    Ivy names a file by organization, artifact and version, as in
    org.apache.kafka_kafka-clients-3.9.2.jar.
    """
    artifacts = {_artifact(path.name) for path in own.glob("*.jar")}
    return [path for path in known if _artifact(Path(path).name.partition("_")[2]) not in artifacts]


def _artifact(name: str) -> str:
    """The name of a jar without its version: spark-avro_2.13 of spark-avro_2.13-4.2.0.jar."""
    return re.sub(r"-\d[\w.]*(-\w+)?\.jar$", "", name)


@contextlib.contextmanager
def resolving() -> Iterator[None]:
    """Hold a lock while Spark's resolver may download: two at once damage files in Ivy's folder.

    Without a writable cache directory, there is no lock.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            target = cache_dir() / f"{PREFIX}resolving.lock"
            target.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(held.enter_context(target.open("w")), fcntl.LOCK_EX)
        yield


def note(packages: Iterable[str], jars: str) -> None:
    """Note the files of these packages; `jars` is spark.jars of a session that resolved them.

    Without a writable cache directory, nothing is noted, and the next start resolves again.
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
    return cache_dir() / f"{PREFIX}{name}.json"
