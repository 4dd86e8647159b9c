"""The workflows of GitHub run what exists here, with few rights and known versions of actions."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
NAMED = re.compile(r"^(?!\s*#).*?\bmake ((?:[a-z-]+ ?)+)", re.MULTILINE)
"""The targets of a `make` in a script: words until an argument in capitals, or the line's end."""
VERSIONED = re.compile(r"[\w./-]+@v\d+\.\d+\.\d+")


def workflow(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in workflow(path)["jobs"].values():
        yield from job.get("steps", [])


def scripts(path: Path) -> Iterator[str]:
    """The scripts of all steps, and the commands of a matrix of commands."""
    for job in workflow(path)["jobs"].values():
        yield from job.get("strategy", {}).get("matrix", {}).get("what", [])
    for step in steps(path):
        yield step.get("run", "")


def test_all_four_workflows_are_there() -> None:
    assert {path.stem for path in FILES} == {"test", "nightly", "release", "docs"}


def test_each_make_target_that_a_workflow_runs_exists() -> None:
    found = set()
    for path in FILES:
        for script in scripts(path):
            for words in NAMED.findall(script):
                found |= set(words.split())
    assert {"test", "dist", "workflows", "chaos"} <= found
    assert found <= TARGETS, found - TARGETS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_have_full_versions(path: Path) -> None:
    for step in steps(path):
        uses = step.get("uses")
        assert uses is None or VERSIONED.fullmatch(uses), uses


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_job_states_its_few_rights_and_its_longest_time(path: Path) -> None:
    content = workflow(path)
    assert content["permissions"] == {}
    for name, job in content["jobs"].items():
        assert job["permissions"], name
        assert "uses" in job or job["timeout-minutes"] <= 360, name
        if job["permissions"].get("contents") == "write":
            assert (path.stem, name) == ("release", "github")


def test_pythons_of_the_tests_are_the_classifiers() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    stated = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    for name, job in (("test", "test"), ("nightly", "wheel")):
        matrix = workflow(FOLDER / f"{name}.yml")["jobs"][job]["strategy"]["matrix"]
        assert matrix["python"] == stated


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH, which builds actionlint")
def test_actionlint_and_zizmor_find_nothing() -> None:
    done = subprocess.run(
        ["make", "workflows"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
