"""Java on this machine: which one, and is it new enough for Apache Kafka 4 and Spark 4."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST_RELEASE = 17  # Apache Kafka 4's broker and Spark 4 are compiled for it

COMPILER = "jdk.compiler"
"""The module that a runtime alone has not."""


class JavaMissing(RuntimeError):
    """Java (or Maven) is missing or too old; the message says which and what would help."""


class CompilationFailed(RuntimeError):
    """What the compiler has said of a program."""


@cache
def executable() -> Path:
    """The `java` to use: that of JAVA_HOME, else the first one on PATH.

    Raises JavaMissing when there is none, or one older than OLDEST_RELEASE.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise JavaMissing(f"no java in {where}: Java {OLDEST_RELEASE} or newer is needed")
    release = release_of(version(Path(found)))
    if release < OLDEST_RELEASE:
        raise JavaMissing(f"{found} is Java {release}: Java {OLDEST_RELEASE} or newer is needed")
    return Path(found)


def version(java: Path) -> str:
    """What `java -version` names between quotes, e.g. "17.0.15" or "1.8.0_392"."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    quoted = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    if quoted is None:
        raise JavaMissing(f"{java} -version names no version: {done.stderr.strip()[:200]}")
    return quoted[1]


def release_of(version: str) -> int:
    """The feature release of a Java version: 17 of "17.0.15", 8 of "1.8.0_392"."""
    parts = [int(digits) for digits in re.findall(r"\d+", version)]
    return parts[1] if parts[0] == 1 else parts[0]


def why_missing() -> str | None:
    """None when Java is here, else the sentence that says what is missing."""
    try:
        executable()
    except JavaMissing as missing:
        return str(missing)
    return None


def compiled(source: Path, libs: Path, folder: Path) -> Path:
    """`folder`, with the classes of a program on the jars in `libs`.

    Raises JavaMissing where there is no compiler, and CompilationFailed.
    """
    java = executable()
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    if COMPILER not in modules.stdout:
        raise JavaMissing(f"{java} has no compiler: a JDK is needed")
    jars = ":".join(str(jar) for jar in libs.glob("*.jar"))
    compiler = [str(java), "-m", f"{COMPILER}/com.sun.tools.javac.Main"]
    options = ["-cp", jars, "-d", str(folder), str(source)]
    done = subprocess.run([*compiler, *options], capture_output=True, text=True)
    if done.returncode:
        raise CompilationFailed(done.stdout + done.stderr)
    return folder
