"""Checks that Spark will find a Java, and that it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from kwire.pipeline.errors import SparkMissing

OLDEST = {3: 8, 4: 17}
"""The oldest Java release of each major version of Spark, by Spark's own documentation."""


def require(spark_version: str) -> None:
    """Raise SparkMissing if this version of Spark would not start."""
    major = int(spark_version.split(".")[0])
    oldest = OLDEST.get(major, max(OLDEST.values()))
    needed = f"Spark {spark_version} needs Java {oldest} or newer"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "there is no java on PATH"
        raise SparkMissing(f"{needed}, and {where}: install a JDK, or set JAVA_HOME to one")
    if (release := _release(java)) < oldest:
        raise SparkMissing(
            f"{needed}, and {java} is Java {release}: install a newer JDK, or set JAVA_HOME to one"
        )


def _release(java: str) -> int:
    """The feature release: 17 of "17.0.15", 8 of "1.8.0_392"."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    quoted = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if quoted is None:
        raise SparkMissing(f"{java} -version names no version: {done.stderr.strip()[:200]}")
    return int(quoted[1])
