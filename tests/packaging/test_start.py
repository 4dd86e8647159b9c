"""What is imported before a command does anything: it decides how soon each of them starts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import kwire

PROGRAM = """
import contextlib, json, sys
before = set(sys.modules)
sys.argv = ["kwire", "--version"]
with contextlib.suppress(SystemExit):
    {statement}
after = set(sys.modules) - before
names = sorted(name for name in after if name.split(".")[0] not in sys.stdlib_module_names)
print(json.dumps(names))
"""

pytestmark = pytest.mark.slow


def imported_by(statement: str) -> tuple[list[str], str]:
    """Modules outside the standard library that a new Python imports, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    *printed, names = done.stdout.splitlines()
    return json.loads(names), "\n".join(printed)


def test_import_of_kwire_imports_nothing_else() -> None:
    assert imported_by("import kwire") == (["kwire"], "")


def test_version_is_printed_without_click_and_without_any_command() -> None:
    names, printed = imported_by("from kwire.cli import main; main()")
    assert names == ["kwire", "kwire.cli", "kwire.cli.streams"]
    assert printed == f"kwire {kwire.__version__}"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
def test_version_on_a_full_disk_exits_with_1_and_says_why() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "kwire", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "kwire: standard output: no space left on device\n"
