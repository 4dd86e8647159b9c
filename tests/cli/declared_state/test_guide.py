"""The blocks of docs/declared-state.md do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing.test_plugin import run_pytest
from tests.typed import serving, typed

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "declared-state.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(GUIDE) if found == language]


def write_files(folder: Path, language: str) -> None:
    """Write each block of the language into the file that its first line names."""
    for text in blocks(language):
        (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)


def test_each_code_block_of_the_guide_is_tested() -> None:
    assert {language for language, _ in BLOCK.findall(GUIDE)} == {"yaml", "sh", "python"}
    assert len(blocks("yaml")) == 2
    assert len(blocks("sh")) == 3


def test_first_example_works_on_a_plain_broker_as_written(tmp_path: Path) -> None:
    """On `kwire serve` as the page has it: no authorizer, no file but those of the page."""
    write_files(tmp_path, "yaml")
    assert "With a broker that runs (`kwire serve`)" in GUIDE
    with serving("kwire serve", tmp_path) as bootstrap:
        here = {"KWIRE_BOOTSTRAP_SERVERS": bootstrap}
        said = typed(blocks("sh")[0], tmp_path, here, replies="y\n")
    assert said.count("+ topic orders") == 2, "in the plan alone, and when it is carried out"
    assert (tmp_path / "copies" / "orders.jsonl").read_text().count("\n") == 2
    copy = (tmp_path / "copy.yaml").read_text()
    assert "consumer.session.timeout.ms: '50000'" in copy


def test_rules_example_works_on_the_broker_it_starts(tmp_path: Path) -> None:
    write_files(tmp_path, "yaml")
    _, serve, commands = blocks("sh")
    with serving(serve, tmp_path) as bootstrap:
        said = typed(commands, tmp_path, {"KWIRE_BOOTSTRAP_SERVERS": bootstrap})
    assert "User:alice" in said


def test_fixture_of_the_guide_works(tmp_path: Path) -> None:
    write_files(tmp_path, "python")
    assert "1 passed" in run_pytest(tmp_path)
