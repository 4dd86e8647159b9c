"""Runs rounds in blocks, each round in a process of its own, and stores the outcomes in a file.

The file has a line of JSON for each round, written when the round ends, and one for each block,
written after its last round. A run skips the rounds that the file already has for the same commit
and options, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from kwire.conformance.chaos import watchdog
from kwire.conformance.chaos.kept_lines import append_line, now_utc
from kwire.conformance.chaos.reporting import PREFIX, RoundOutcome, keep_files

BLOCK_ROUNDS: Final = 50
DEADLINE_S: Final = 900.0
"""Deadline of a round; some take a minute on a busy machine.

A round that waits in vain for a client, for the replicas and for each broker to stop ends by itself
before that.
"""
EXIT_MISSING: Final = 77
"""Exit status if the machine lacks something that rounds need; test suites skip with it, too."""
OUTPUT_MAX: Final = 2000
"""Characters of a failed round's output in the file; the whole output is stored with its
history."""
OUTPUT = "output.txt"


@dataclass(frozen=True, slots=True)
class RoundLine:
    """A line of the file: the outcome of a round."""

    block: int
    """The first seed of its block."""
    seed: int
    outcome: str
    seconds: float
    commit: str
    options: str
    time: str
    said: str


@dataclass(frozen=True, slots=True)
class BlockLine:
    """A line of the file: the outcomes of the rounds of a block."""

    block: int
    rounds: int
    outcomes: dict[str, int]
    failed: dict[str, str]
    """The outcome of each seed whose round failed."""
    commit: str
    options: str
    time: str


class DamagedResults(ValueError):
    """The file has a line that is neither of a round nor of a block."""


class BlockResults:
    """The file; only rounds of this commit and these options count."""

    def __init__(self, path: Path, commit: str, options: str) -> None:
        """Read the file. Raises DamagedResults."""
        self._path = path
        self.commit = commit
        self.options = options
        lines = list(self._read())
        self._rounds = {
            line["seed"]: RoundOutcome(line["outcome"]) for line in lines if "seed" in line
        }
        self._blocks = {(line["block"], line["rounds"]) for line in lines if "rounds" in line}

    def _read(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of this commit and these options."""
        text = self._path.read_text() if self._path.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                values = json.loads(line)
                kind = RoundLine if "seed" in values else BlockLine
                kind(**values)
            except (ValueError, TypeError) as error:
                raise DamagedResults(
                    f"line {number} of {self._path} is neither a round's nor a block's ({error}): "
                    "remove it, and its round runs again"
                ) from error
            if (values["commit"], values["options"]) == (self.commit, self.options):
                yield values

    def outcome(self, seed: int) -> RoundOutcome | None:
        """Return the outcome of a round, or None if the file does not have it."""
        return self._rounds.get(seed)

    def has_block(self, seeds: range) -> bool:
        """Return whether the file has the line of this block."""
        return (seeds.start, len(seeds)) in self._blocks

    def add_round(
        self, block: int, seed: int, outcome: RoundOutcome, seconds: float, said: str
    ) -> None:
        """Store the outcome of a round; what it printed is kept only if it did not pass."""
        passed = outcome is RoundOutcome.OK
        added = RoundLine(
            block=block,
            seed=seed,
            outcome=outcome.value,
            seconds=round(seconds, 1),
            commit=self.commit,
            options=self.options,
            time=now_utc(),
            said="" if passed else said[-OUTPUT_MAX:],
        )
        append_line(self._path, asdict(added))
        self._rounds[seed] = outcome

    def add_block(self, seeds: range) -> None:
        """Store the outcomes of all rounds of a block, whose seeds these are."""
        outcomes = {seed: self._rounds[seed] for seed in seeds}
        counts = Counter(outcomes.values())
        added = BlockLine(
            block=seeds.start,
            rounds=len(seeds),
            outcomes={outcome.value: counts[outcome] for outcome in RoundOutcome},
            failed={
                str(seed): outcome.value
                for seed, outcome in outcomes.items()
                if outcome != RoundOutcome.OK
            },
            commit=self.commit,
            options=self.options,
            time=now_utc(),
        )
        append_line(self._path, asdict(added))
        self._blocks.add((seeds.start, len(seeds)))


def commit_of(tree: Path, patterns: Sequence[str] = ()) -> str:
    """Return the commit of a working tree, with a digest of later changes; "unknown" without git.

    With patterns, it is the last commit that changed a file in the tree that one of them matches.
    """
    git = ["git", "-C", str(tree)]
    try:
        last = [*git, "log", "-1", "--format=%h", "--abbrev=9", "--", *patterns]
        head = subprocess.run(last, capture_output=True)
        changes = subprocess.run([*git, "diff", "HEAD", "--", *patterns], capture_output=True)
    except FileNotFoundError:
        return "unknown"
    if head.returncode or changes.returncode or not head.stdout:
        return "unknown"
    commit = head.stdout.decode().strip()
    if not changes.stdout:
        return commit
    return f"{commit}+{hashlib.sha256(changes.stdout).hexdigest()[:8]}"


class BlockRunner:
    """Runs a round as `command` with its seed, and kills it at the deadline."""

    def __init__(self, command: Sequence[str], keep: Path, deadline_s: float) -> None:
        self._command = command
        self._keep = keep
        self._deadline_s = deadline_s

    def run(self, seed: int) -> tuple[RoundOutcome, str]:
        """Return the outcome of the round, and its output, which is also printed.

        Raises SystemExit if the machine lacks something that the round needs.
        """
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
            output = Path(name, OUTPUT)
            environ = {**os.environ, "TMPDIR": name}
            command = [*self._command, f"--seed={seed}"]
            status = watchdog.run(command, output, self._deadline_s, environ)
            printed = output.read_text(errors="replace")
            click.echo(printed, nl=False, err=status == EXIT_MISSING)
            if status == EXIT_MISSING:
                raise SystemExit(EXIT_MISSING)
            outcome = RoundOutcome.HANG if status is None else RoundOutcome.of_status(status)
            if status is None:
                click.echo(f"seed {seed}  hang: killed after {self._deadline_s:g} s")
                for directory in Path(name).glob(f"{PREFIX}*"):
                    keep_files(directory, self._keep / str(seed))
            if outcome is not RoundOutcome.OK:
                (self._keep / str(seed)).mkdir(parents=True, exist_ok=True)
                shutil.copy(output, self._keep / str(seed) / OUTPUT)
            return outcome, printed


def run_blocks(
    seeds: range,
    block_rounds: int,
    results: BlockResults,
    run: Callable[[int], tuple[RoundOutcome, str]],
) -> bool:
    """Run all rounds that the file does not have; return whether all rounds of these seeds
    passed."""
    for first in range(seeds.start, seeds.stop, block_rounds):
        block = range(first, min(first + block_rounds, seeds.stop))
        missing = [seed for seed in block if results.outcome(seed) is None]
        if len(missing) < len(block):
            click.echo(f"block {first}: {len(block) - len(missing)} rounds are in the file already")
        for seed in missing:
            start = time.monotonic()
            outcome, output = run(seed)
            results.add_round(first, seed, outcome, time.monotonic() - start, output)
        if not results.has_block(block):
            results.add_block(block)
    return report({seed: results.outcome(seed) for seed in seeds})


def report(outcomes: dict[int, RoundOutcome | None]) -> bool:
    """Print the last line, which lists the failed rounds; return whether there are none."""
    failed = {seed: outcome for seed, outcome in outcomes.items() if outcome is not RoundOutcome.OK}
    listed = ", ".join(f"{seed} ({outcome})" for seed, outcome in failed.items())
    click.echo(f"{len(outcomes)} rounds, {len(failed)} failed{': ' if listed else ''}{listed}")
    return not failed
