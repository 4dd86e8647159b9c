"""The blocks of docs/first-test.md do what it says, for somebody who has nothing of it yet."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.install_lines import copy_sources
from tests.testing.test_plugin import run_pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "first-test.md"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the files of the page."""
    made = tmp_path / "first"
    made.mkdir()
    for name, text in FILE.findall(PAGE.read_text()):
        (made / name).write_text(text)
    return made


def test_its_tests_are_green(folder: Path) -> None:
    assert "2 passed" in run_pytest(folder)


def test_it_fails_as_it_says_without_idempotence(folder: Path) -> None:
    orders = folder / "orders.py"
    orders.write_text(orders.read_text().replace("True", "False"))
    told = run_pytest(folder)
    (shown,) = SHOWN.findall(PAGE.read_text())
    assert "1 failed, 1 passed" in told, told
    assert shown in told, told


@pytest.mark.long
def test_page_is_green_as_written_beside_a_clone(folder: Path) -> None:
    """Every command as the page has it, in a folder beside a copy of the sources."""
    copy_sources(folder.parent / "kwire")
    install, run = SHELL.findall(PAGE.read_text())
    done = subprocess.run(
        ["sh", "-ec", install + run], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
