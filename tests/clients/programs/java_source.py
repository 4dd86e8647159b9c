"""Java programs that come with the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kwire.conformance import java

COMPILER = "jdk.compiler"


def compiled(source: Path, libs: Path, folder: Path) -> Path:
    """The folder with the program's classes; the test is skipped where there is no compiler."""
    modules = subprocess.run(
        [java.executable(), "--list-modules"], capture_output=True, text=True, check=True
    )
    if COMPILER not in modules.stdout:
        pytest.skip(f"NOT TESTED: {java.executable()} has no compiler: a JDK is needed")
    compiler = [str(java.executable()), "-m", f"{COMPILER}/com.sun.tools.javac.Main"]
    jars = ":".join(str(jar) for jar in libs.glob("*.jar"))
    options = ["-cp", jars, "-d", str(folder)]
    done = subprocess.run([*compiler, *options, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
