"""The projects of docs/other-languages.md are green as they stand there, and leave nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "other-languages.md"
FILE = re.compile(r"^```\w+\n(?:// |<!-- )([\w./]+)(?: -->)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.*?)$", re.MULTILINE)

pytestmark = [pytest.mark.slow, pytest.mark.long]  # they fetch their libraries


def section(heading: str) -> str:
    """The text below a heading of the page."""
    parts = SECTION.split(PAGE.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def run_project(heading: str, folder: Path) -> str:
    """What the commands of a section say, in a folder with its files; kwire is on the PATH."""
    for name, text in FILE.findall(section(heading)):
        file = folder / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "tmp").mkdir()
    (commands,) = SHELL.findall(section(heading))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder / "project",
        env={
            **os.environ,
            "PATH": path,
            "TMPDIR": str(folder / "tmp"),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder / 'tmp'}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert not brokers_below(folder), said
    return said


def brokers_below(folder: Path) -> list[str]:
    """The command lines of processes that have to do with the folder."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


@pytest.mark.java
def test_junit(tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("NOT TESTED: no mvn on PATH")
    assert "Tests run: 1, Failures: 0, Errors: 0" in run_project("JUnit", tmp_path)
    assert list((tmp_path / "tmp").glob("junit*")) == []


def test_go(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("NOT TESTED: no go on PATH")
    said = run_project("Go", tmp_path)
    assert "ok  \texample.com/orders" in said
    assert list((tmp_path / "tmp").iterdir()) == []
