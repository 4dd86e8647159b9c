"""Tests blocks of rounds: the file of results, interrupted runs, rounds that hang."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.conformance.chaos import watchdog
from kwire.conformance.chaos.blocks import (
    OUTPUT,
    BlockResults,
    BlockRunner,
    DamagedResults,
    commit_of,
    run_blocks,
)
from kwire.conformance.chaos.reporting import RoundOutcome
from kwire.testing.hosting.ending import process_exists
from tests.polling import until

STUCK = """
import faulthandler, signal, subprocess, sys, time
faulthandler.register(signal.SIGUSR1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
def closes_for_ever():
    time.sleep(600)
closes_for_ever()
"""


class Interrupted(Exception):
    """Stands for an exception that ends the process that runs the rounds."""


class FakeRounds:
    """Returns the given outcome of a round and keeps its seed; other seeds raise Interrupted."""

    def __init__(self, outcomes: dict[int, RoundOutcome]) -> None:
        self._outcomes = outcomes
        self.seeds: list[int] = []

    def run(self, seed: int) -> tuple[RoundOutcome, str]:
        if seed not in self._outcomes:
            raise Interrupted
        self.seeds.append(seed)
        return self._outcomes[seed], f"seed {seed}"


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_interrupted_run_continues_with_the_first_missing_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "artifacts" / "rounds.jsonl"
    before = FakeRounds({7: RoundOutcome.OK, 8: RoundOutcome.HANG, 9: RoundOutcome.OK})
    with pytest.raises(Interrupted):
        run_blocks(range(7, 12), 2, BlockResults(file, "abc", "--x"), before.run)
    after = FakeRounds({10: RoundOutcome.VIOLATION, 11: RoundOutcome.OK})
    assert not run_blocks(range(7, 12), 2, BlockResults(file, "abc", "--x"), after.run)
    assert after.seeds == [10, 11]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "5 rounds, 2 failed: 8 (hang), 10 (violation)"
    rounds = [line for line in lines_of(file) if "seed" in line]
    assert [(line["block"], line["seed"]) for line in rounds] == [
        (7, 7), (7, 8), (9, 9), (9, 10), (11, 11),
    ]  # fmt: skip
    assert [line["said"] for line in rounds] == ["", "seed 8", "", "seed 10", ""]
    blocks = [line for line in lines_of(file) if "rounds" in line]
    assert [(line["block"], line["rounds"], line["failed"]) for line in blocks] == [
        (7, 2, {"8": "hang"}), (9, 2, {"10": "violation"}), (11, 1, {}),
    ]  # fmt: skip
    assert {line["commit"] for line in lines_of(file)} == {"abc"}


@pytest.mark.parametrize(("commit", "options"), [("def", "--x"), ("abc", "--y")])
def test_rounds_of_another_commit_or_other_options_run_again(
    tmp_path: Path, commit: str, options: str
) -> None:
    file = tmp_path / "rounds.jsonl"
    fake_rounds = FakeRounds({1: RoundOutcome.OK})
    assert run_blocks(range(1, 2), 50, BlockResults(file, "abc", "--x"), fake_rounds.run)
    assert run_blocks(range(1, 2), 50, BlockResults(file, "abc", "--x"), fake_rounds.run)
    assert fake_rounds.seeds == [1]
    assert len(lines_of(file)) == 2, "a round and a block"
    assert run_blocks(range(1, 2), 50, BlockResults(file, commit, options), fake_rounds.run)
    assert fake_rounds.seeds == [1, 1]


def test_damaged_results_are_refused_with_the_line_number(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    file.write_text('{"seed": 1')
    with pytest.raises(DamagedResults, match=r"line 1 of .* remove it"):
        BlockResults(file, "abc", "")


def test_commit_of_a_changed_tree_names_the_change(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("1")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", "One"]):
        subprocess.run([*git, *words], check=True)
    commit = commit_of(tmp_path)
    assert len(commit) == 9
    changed = []
    for text in ("2", "3"):
        (tmp_path / "file").write_text(text)
        changed.append(commit_of(tmp_path))
    assert changed[0] != changed[1]
    assert all(name.startswith(f"{commit}+") for name in changed)


@pytest.mark.parametrize("status", [0, 1, 10, 11])
def test_outcome_of_a_round_follows_from_its_exit_status(tmp_path: Path, status: int) -> None:
    command = [sys.executable, "-Sc", f"print('output'); raise SystemExit({status})"]
    outcome, output = BlockRunner(command, tmp_path, 60).run(5)
    expected = {
        0: RoundOutcome.OK,
        1: RoundOutcome.HARNESS_ERROR,
        10: RoundOutcome.VIOLATION,
        11: RoundOutcome.HANG,
    }
    assert outcome is expected[status]
    assert output == "output\n"
    assert (tmp_path / "5" / OUTPUT).exists() == (status != 0)


@pytest.mark.slow
def test_round_that_hangs_is_killed_with_its_descendants_and_its_stacks_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "DUMP_S", 0.5)
    monkeypatch.setattr(watchdog, "CLEANUP_S", 0.2)
    outcome, output = BlockRunner([sys.executable, "-Sc", STUCK], tmp_path, 1.0).run(5)
    assert outcome is RoundOutcome.HANG
    assert "no end within 1 s" in output
    assert "in closes_for_ever" in output
    until(lambda: not process_exists(int(output.split()[0])))
    assert (tmp_path / "5" / OUTPUT).read_text() == output


needs_gdb = pytest.mark.skipif(
    shutil.which("gdb") is None or shutil.which("timeout") is None, reason="gdb shows the stacks"
)

OWN_STACKS = """
import os, sys, threading
from kwire.conformance.chaos.watchdog import native_stacks

threading.stack_size(256 << 10)
for _ in range(200):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(len(native_stacks(os.getpid())), flush=True)
os._exit(0)
"""
"""A program whose stacks exceed the size of a pipe, and which gdb stops while it shows them."""


@needs_gdb
@pytest.mark.slow
def test_process_with_many_threads_shows_its_own_native_stacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_STACKS], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1 << 16


@needs_gdb
@pytest.mark.slow
def test_gdb_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GDB_S", 0.001)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            assert "gdb took more than 0.001 s" in watchdog.native_stacks(process.pid)
            assert process.poll() is None
        finally:
            process.kill()
