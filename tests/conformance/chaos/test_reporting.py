"""Tests the line that the command line prints for a round, and the files of a failed round."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kwire.conformance.chaos.checks import Violation
from kwire.conformance.chaos.reporting import all_pass, passes
from kwire.conformance.chaos.rounds import HISTORY_FILE, ClientHangs


@dataclass(frozen=True)
class FakeResult:
    operations: int = 7
    not_ok: int = 2
    seconds: float = 1.25
    notes: str = ""
    violations: list[Violation] = field(default_factory=list)


def write_round_files(directory: Path) -> None:
    (directory / HISTORY_FILE).write_text("history")
    (directory / "broker.log").write_text("of all")
    (directory / "broker-1").mkdir()
    (directory / "broker-1" / "broker.log").write_text("of one")


def test_passing_round_leaves_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(directory: Path) -> FakeResult:
        write_round_files(directory)
        return FakeResult(notes="in sync")

    assert passes("seed 1", run, tmp_path / "1")
    assert capsys.readouterr().out == "seed 1  7 operations, 2 not ok, in sync  1.2 s  ok\n"
    assert not (tmp_path / "1").exists()


def test_round_with_a_violation_stores_history_and_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(directory: Path) -> FakeResult:
        write_round_files(directory)
        return FakeResult(violations=[Violation("lost", "a record")])

    assert not passes("seed 1", run, tmp_path / "1")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("7 operations, 2 not ok  1.2 s  1 VIOLATIONS")
    assert "a record" in second
    assert third == f"    kept in {tmp_path / '1'}"
    kept = {each.name: each.read_text() for each in (tmp_path / "1").iterdir()}
    assert kept == {HISTORY_FILE: "history", "broker.log": "of all", "broker-1.log": "of one"}


def test_round_whose_clients_hang_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(directory: Path) -> FakeResult:
        raise ClientHangs("for ever")

    assert not passes("seed 1", run, tmp_path / "1")
    assert capsys.readouterr().out.startswith("seed 1  ClientHangs: for ever\n")


def test_last_line_lists_the_seeds_of_failed_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert not all_pass(range(4, 8), lambda seed: seed % 3 != 0)
    assert capsys.readouterr().out == "4 rounds, 1 with violations [6]\n"
    assert all_pass(range(4, 5), lambda _: True)
    assert capsys.readouterr().out == "1 rounds, 0 with violations \n"
