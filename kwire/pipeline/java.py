"""Checks that Spark will find a Java, and that it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from kwire.pipeline.errors import SparkMissing

OLDEST = {3: 8, 4: 17}
"""The oldest Java release of each major version of Spark, by Spark's own documentation."""


LATE_OPTIMIZING: tuple[str, ...] = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options that let Java's optimizing compiler wait for code that is used ten times as often.

In the first seconds of a job it takes a quarter of the processor's time, for code that is soon not
used any more.  What a long job uses is optimized some seconds later.
"""


class Java(NamedTuple):
    """A Java on this machine.

    path       The program, with links resolved.
    release    The feature release, such as 17.
    version    What `java -version` prints.
    options    Those of LATE_OPTIMIZING, or none if this Java does not know them.
    """

    path: Path
    release: int
    version: str
    options: tuple[str, ...] = ()


def require(spark_version: str) -> Java:
    """The Java that Spark will use.  Raises SparkMissing if this version of Spark would not start
    with it."""
    major = int(spark_version.split(".")[0])
    oldest = OLDEST.get(major, max(OLDEST.values()))
    needed = f"Spark {spark_version} needs Java {oldest} or newer"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "there is no java on PATH"
        raise SparkMissing(f"{needed}, and {where}: install a JDK, or set JAVA_HOME to one")
    options = LATE_OPTIMIZING
    if (version := _version(java, options)) is None:
        version, options = _version(java) or "", ()
    if (release := _release(java, version)) < oldest:
        raise SparkMissing(
            f"{needed}, and {java} is Java {release}: install a newer JDK, or set JAVA_HOME to one"
        )
    return Java(Path(java).resolve(), release, version, options)


def _version(java: str, options: tuple[str, ...] = ()) -> str | None:
    """What `java -version` prints, or None if Java does not start with these options."""
    command = [java, *options, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stderr + done.stdout if done.returncode == 0 or not options else None


def _release(java: str, version: str) -> int:
    """The feature release: 17 of "17.0.15", 8 of "1.8.0_392"."""
    quoted = re.search(r'version "(?:1\.)?(\d+)', version)
    if quoted is None:
        raise SparkMissing(f"{java} -version names no version: {version.strip()[:200]}")
    return int(quoted[1])
