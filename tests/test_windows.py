"""On Windows kwire says how to have a broker, instead of failing oddly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.test_plugin import run_pytest

pytestmark = pytest.mark.slow

# What click and Python's own modules do there is theirs: they are imported before.
COMMAND = """
import click, logging, socket, subprocess, sys
sys.platform = "win32"
sys.argv = ["kwire", "serve"]
from kwire.cli import main
main()
"""


def test_serve_on_windows_is_refused_in_one_line_that_names_wsl() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: a broker of kwire runs on Linux and macOS, not on ")
    assert "WSL" in done.stderr
    assert done.stderr.count("\n") == 1


def test_fixture_and_kafka_class_are_refused_on_windows(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        'def test_it(kafka): pass\n\ndef test_import():\n    sys = __import__("sys")\n'
        '    sys.platform = "win32"\n    from kwire.testing import Kafka\n'
    )
    (tmp_path / "conftest.py").write_text(
        "import pytest, sys\n\n@pytest.fixture(autouse=True, scope='session')\n"
        "def on_windows():\n    sys.platform = 'win32'\n    yield\n    sys.platform = 'linux'\n"
    )
    output = run_pytest(tmp_path)
    assert "1 failed, 1 error" in output, output
    assert (
        len(re.findall(r"^E +kwire.UnsupportedSystem: a broker of kwire runs on", output, re.M))
        == 2
    )
