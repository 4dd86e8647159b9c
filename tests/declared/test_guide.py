"""The blocks of docs/declared-state.md do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BrokerFactory
from tests.testing.test_plugin import run_pytest

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "declared-state.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(GUIDE) if found == language]


def test_every_block_is_run_here() -> None:
    assert {language for language, _ in BLOCK.findall(GUIDE)} == {"yaml", "sh", "python"}
    assert len(blocks("yaml")) == len(blocks("sh")) == 1


def test_the_file_and_the_commands(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory(AUTHORIZED)
    (tmp_path / "cluster.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "more.jsonl").write_text('{"key": "pears", "value": {"count": 4}}\n')
    variables = {
        **os.environ,
        "ALICE_PASSWORD": "geheim",
        "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
    }
    statuses = []
    for line in blocks("sh")[0].splitlines():
        words = line.partition("#")[0].split()
        if words == ["kwire", "apply", "cluster.yaml"]:
            words.append("--yes")  # there is nobody to be asked
        done = subprocess.run(
            [sys.executable, "-m", "kwire.cli", *words[1:]],
            cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        statuses.append(done.returncode)
        assert "Traceback" not in done.stderr
    assert statuses == [0, 0, 0, 0], "at the time of --check nothing is left to change"
    assert (tmp_path / "copies" / "orders.jsonl").read_text().count("\n") == 2
    assert "consumer.session.timeout.ms: '50000'" in (tmp_path / "copy.yaml").read_text()


def test_the_fixture(tmp_path: Path) -> None:
    for text in blocks("python"):
        name = text.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(text)
    assert "1 passed" in run_pytest(tmp_path)
