"""The blocks of docs/testing.md do what it says, as whoever follows it would run them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from kwire.testing import Kafka
from tests.testing.test_plugin import run_pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_guide(tmp_path: Path) -> None:
    files = FILE.findall(GUIDE.read_text())
    assert len(files) == GUIDE.read_text().count("```python")
    for name, text in files:
        assert not (tmp_path / name).exists(), f"{name} stands there twice"
        (tmp_path / name).write_text(text)
    told = run_pytest(tmp_path)
    tests = sum(text.count("def test_") for _, text in files)
    assert f"{tests} passed" in told, told


SHELL = re.compile(r"^```sh\n(curl .*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_guide_for_other_languages() -> None:
    with Kafka() as kafka:
        assert said(kafka, "/faults") == [{"rules": [1]}, {"happened": []}]
        deadline = time.monotonic() + 60
        while kafka.running:  # it answers, and then it dies
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.slow
def test_the_guide_for_forks_in_other_languages() -> None:
    with Kafka() as kafka:
        taken, fork, listed, restored = said(kafka, "/forks")
    assert (taken["snapshot"], fork["fork"], fork["snapshot"]) == ("seeded", 1, "seeded")
    assert listed == {"forks": [fork]}
    assert restored == {"restored": 0}


def said(kafka: Kafka, path: str) -> list[dict[str, Any]]:
    """What is told to the block of shell commands that asks for `path`."""
    (lines,) = [block for block in SHELL.findall(GUIDE.read_text()) if f"{path} " in block]
    here = lines.replace("localhost:9644", f"localhost:{kafka.control_port}")
    script = "command -v curl >/dev/null || exit 77\n" + here
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("there is no curl here")
    return [json.loads(line) for line in done.stdout.splitlines()]


PROOF = re.compile(r"`(test_\w+\.py)::(\w+)` \|$", re.MULTILINE)


def test_what_the_table_names_are_tests() -> None:
    named = PROOF.findall(GUIDE.read_text())
    assert len(named) > 10
    for file, name in named:
        files = Path(__file__).parent.rglob(file)  # two rooms may have a file of one name
        assert any(f"def {name}(" in each.read_text() for each in files), f"{file}::{name}"
