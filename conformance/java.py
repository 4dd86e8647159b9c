"""Finds Java on this machine and checks that it can run Apache Kafka 4 and Spark 4."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST_RELEASE = 17  # Apache Kafka 4's broker and Spark 4 are compiled for it

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options for programs that run for seconds: a quick start, and half of the processor time."""

COMPILER = "jdk.compiler"
"""The module that a JDK has and a JRE has not."""


class JavaMissing(RuntimeError):
    """Java (or Maven) is missing or too old; the message says what to install."""


class CompilationFailed(RuntimeError):
    """The compiler rejected a program; the message is its output."""


@cache
def executable() -> Path:
    """Return the `java` to use: that of JAVA_HOME, or the first one on PATH.

    Raises JavaMissing if there is none, or if it is older than OLDEST_RELEASE.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise JavaMissing(f"no java in {where}: Java {OLDEST_RELEASE} or newer is needed")
    release = release_of(version(Path(java)))
    if release < OLDEST_RELEASE:
        raise JavaMissing(f"{java} is Java {release}: Java {OLDEST_RELEASE} or newer is needed")
    return Path(java)


def version(java: Path) -> str:
    """Return the version that `java -version` prints, e.g. "17.0.15" or "1.8.0_392"."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    quoted = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    if quoted is None:
        raise JavaMissing(f"{java} -version prints no version: {done.stderr.strip()[:200]}")
    return quoted[1]


def release_of(version: str) -> int:
    """Return the feature release of a Java version: 17 of "17.0.15", 8 of "1.8.0_392"."""
    parts = [int(digits) for digits in re.findall(r"\d+", version)]
    return parts[1] if parts[0] == 1 else parts[0]


def why_missing() -> str | None:
    """Return what is missing for Java, as a sentence, or None if it is installed."""
    try:
        executable()
    except JavaMissing as missing:
        return str(missing)
    return None


def compiled(source: Path, libs: Path, folder: Path) -> Path:
    """Compile a Java program with the jars in `libs` into `folder`; returns `folder`.

    Raises JavaMissing without a compiler, and CompilationFailed.
    """
    java = executable()
    jars = ":".join(str(jar) for jar in libs.glob("*.jar"))
    compiler = [str(java), *QUICK, "-m", f"{COMPILER}/com.sun.tools.javac.Main"]
    options = ["-cp", jars, "-d", str(folder), str(source)]
    done = subprocess.run([*compiler, *options], capture_output=True, text=True)
    if done.returncode:
        if not _has_compiler(java):
            raise JavaMissing(f"{java} has no compiler: a JDK is needed")
        raise CompilationFailed(done.stdout + done.stderr)
    return folder


def _has_compiler(java: Path) -> bool:
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    return COMPILER in modules.stdout
