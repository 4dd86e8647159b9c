"""The pytest fixture of a registry, and `kwire serve --registry`."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.commands.beside import beside_a_broker
from tests.registry.asking import Asking, record

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import json
import urllib.request

import pytest


def register(registry, subject):
    body = json.dumps({"schema": '"string"'}).encode()
    headers = {"Content-Type": "application/json"}
    url = f"{registry.url}/subjects/{subject}/versions"
    request = urllib.request.Request(url, body, headers)
    return json.load(urllib.request.urlopen(request))["id"]


def subjects(registry):
    return json.load(urllib.request.urlopen(f"{registry.url}/subjects"))


def test_first(kafka_registry, kafka_topic):
    assert register(kafka_registry, f"{kafka_topic.name}-value") == 1


def test_second_has_what_the_first_left(kafka_registry):
    assert len(subjects(kafka_registry)) == 1


def test_reset(kafka_registry, kafka_reset):
    assert subjects(kafka_registry) == []
    assert register(kafka_registry, "s") == 1


def test_killed(kafka_registry):
    kafka_registry.kill()


def test_whole_again(kafka_registry):
    assert subjects(kafka_registry) == ["s"]
"""


def test_fixture_is_a_registry_that_a_reset_empties(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    page = (ROOT / "docs" / "registry.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    (tmp_path / "test_page.py").write_text(example[1])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 passed" in ran.stdout


@pytest.mark.parametrize(
    "options", [[], pytest.param(["--secure"], marks=pytest.mark.long)], ids=" ".join
)
def test_registry_of_serve_is_beside_the_broker_and_ends_with_it(
    tmp_path: Path, options: list[str]
) -> None:
    with beside_a_broker("registry", tmp_path, options) as url, Asking(url) as asking:
        assert asking.register("s", record("R", "a")).data["id"] == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/subjects")
    assert "Traceback" not in (tmp_path / "log").read_text()
