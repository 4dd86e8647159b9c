"""Blocks of rounds: what the file has of them, going on after an interruption, rounds that hang."""

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
    DamagedResults,
    Results,
    Runner,
    commit_of,
    run_blocks,
)
from kwire.conformance.chaos.telling import Outcome
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
    """Stands for whatever ends the process that runs the rounds."""


class Fates:
    """Runs rounds whose outcome is given, and keeps their seeds; others raise Interrupted."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        self._outcomes = outcomes
        self.seeds: list[int] = []

    def run(self, seed: int) -> tuple[Outcome, str]:
        if seed not in self._outcomes:
            raise Interrupted
        self.seeds.append(seed)
        return self._outcomes[seed], f"seed {seed}"


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_interrupted_run_goes_on_with_the_first_missing_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "artifacts" / "rounds.jsonl"
    before = Fates({7: Outcome.OK, 8: Outcome.HANG, 9: Outcome.OK})
    with pytest.raises(Interrupted):
        run_blocks(range(7, 12), 2, Results(file, "abc", "--x"), before.run)
    after = Fates({10: Outcome.VIOLATION, 11: Outcome.OK})
    assert not run_blocks(range(7, 12), 2, Results(file, "abc", "--x"), after.run)
    assert after.seeds == [10, 11]
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "5 rounds, 2 failed: 8 (hang), 10 (violation)"
    rounds = [each for each in lines_of(file) if "seed" in each]
    assert [(each["block"], each["seed"]) for each in rounds] == [
        (7, 7), (7, 8), (9, 9), (9, 10), (11, 11),
    ]  # fmt: skip
    assert [each["said"] for each in rounds] == ["", "seed 8", "", "seed 10", ""]
    blocks = [each for each in lines_of(file) if "rounds" in each]
    assert [(each["block"], each["rounds"], each["failed"]) for each in blocks] == [
        (7, 2, {"8": "hang"}), (9, 2, {"10": "violation"}), (11, 1, {}),
    ]  # fmt: skip
    assert {each["commit"] for each in lines_of(file)} == {"abc"}


@pytest.mark.parametrize(("commit", "options"), [("def", "--x"), ("abc", "--y")])
def test_rounds_of_another_commit_or_other_options_are_run_again(
    tmp_path: Path, commit: str, options: str
) -> None:
    file = tmp_path / "rounds.jsonl"
    fates = Fates({1: Outcome.OK})
    assert run_blocks(range(1, 2), 50, Results(file, "abc", "--x"), fates.run)
    assert run_blocks(range(1, 2), 50, Results(file, "abc", "--x"), fates.run)
    assert fates.seeds == [1]
    assert len(lines_of(file)) == 2, "a round and a block"
    assert run_blocks(range(1, 2), 50, Results(file, commit, options), fates.run)
    assert fates.seeds == [1, 1]


def test_damaged_results_are_refused_with_the_line_number(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    file.write_text('{"seed": 1')
    with pytest.raises(DamagedResults, match=r"line 1 of .* remove it"):
        Results(file, "abc", "")


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
    assert all(each.startswith(f"{commit}+") for each in changed)


@pytest.mark.parametrize("status", [0, 1, 10, 11])
def test_outcome_follows_from_the_exit_status_of_the_round(tmp_path: Path, status: int) -> None:
    command = [sys.executable, "-Sc", f"print('told'); raise SystemExit({status})"]
    outcome, said = Runner(command, tmp_path, 60).run(5)
    expected = {0: Outcome.OK, 1: Outcome.HARNESS_ERROR, 10: Outcome.VIOLATION, 11: Outcome.HANG}
    assert outcome is expected[status]
    assert said == "told\n"
    assert (tmp_path / "5" / OUTPUT).exists() == (status != 0)


@pytest.mark.slow
def test_round_that_hangs_is_killed_with_all_it_started_and_its_stacks_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "DUMP_S", 0.5)
    monkeypatch.setattr(watchdog, "CLEANUP_S", 0.2)
    outcome, said = Runner([sys.executable, "-Sc", STUCK], tmp_path, 1.0).run(5)
    assert outcome is Outcome.HANG
    assert "no end within 1 s" in said
    assert "in closes_for_ever" in said
    until(lambda: not process_exists(int(said.split()[0])))
    assert (tmp_path / "5" / OUTPUT).read_text() == said


needs_gdb = pytest.mark.skipif(
    shutil.which("gdb") is None or shutil.which("timeout") is None, reason="gdb shows the stacks"
)

SHOWS_ITSELF = """
import os, sys, threading
from kwire.conformance.chaos.watchdog import native_stacks

threading.stack_size(256 << 10)
for _ in range(200):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print(len(native_stacks(os.getpid())), flush=True)
os._exit(0)
"""
"""Its stacks are more than a pipe holds, and gdb stops it while it writes them."""


@needs_gdb
@pytest.mark.slow
def test_process_with_many_threads_shows_its_own_native_stacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWS_ITSELF], capture_output=True, text=True, timeout=300
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
