"""Rounds in blocks: each round in a process of its own, and what became of it in a file.

The file has a line of JSON for each round, written when the round ends, and one for each block,
written after its last round.  Rounds that it already has, of the same commit and options, are not
run again: a run that was killed goes on where it stopped.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from kwire.conformance.chaos import watchdog
from kwire.conformance.chaos.telling import PREFIX, Outcome, keep_files

BLOCK_ROUNDS: Final = 50
DEADLINE_S: Final = 900.0
"""Of a round: some take a minute on a busy machine.  A round that waits in vain for a client, for
the replicas and for each broker to stop ends by itself before that."""
EXIT_MISSING: Final = 77
"""What the rounds need is missing on this machine: test suites exit so when they skip."""
SAID_MAX: Final = 2000
"""Characters of a failed round's output that the file has; all of it is kept beside its history."""
OUTPUT = "output.txt"


@dataclass(frozen=True, slots=True)
class Round:
    """A line of the file: what became of a round."""

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
class Block:
    """A line of the file: what became of the rounds of a block."""

    block: int
    rounds: int
    outcomes: dict[str, int]
    failed: dict[str, str]
    """The seeds of rounds that are not ok."""
    commit: str
    options: str
    time: str


class DamagedResults(ValueError):
    """The file has a line that is not a round's and not a block's."""


class Results:
    """The file, of which only the rounds of this commit and these options count."""

    def __init__(self, path: Path, commit: str, options: str) -> None:
        """Raises DamagedResults."""
        self._path = path
        self.commit = commit
        self.options = options
        lines = list(self._read())
        self._rounds = {line["seed"]: Outcome(line["outcome"]) for line in lines if "seed" in line}
        self._blocks = {(line["block"], line["rounds"]) for line in lines if "rounds" in line}

    def _read(self) -> Iterator[dict[str, Any]]:
        """The lines of this commit and these options."""
        text = self._path.read_text() if self._path.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                values = json.loads(line)
                kind = Round if "seed" in values else Block
                kind(**values)
            except (ValueError, TypeError) as error:
                raise DamagedResults(
                    f"line {number} of {self._path} is neither a round's nor a block's ({error}): "
                    "remove it, and its round is run again"
                ) from error
            if (values["commit"], values["options"]) == (self.commit, self.options):
                yield values

    def outcome(self, seed: int) -> Outcome | None:
        """What became of a round; None if it was not run."""
        return self._rounds.get(seed)

    def has_block(self, seeds: range) -> bool:
        """Whether the file has the line of a block."""
        return (seeds.start, len(seeds)) in self._blocks

    def add_round(self, block: int, seed: int, outcome: Outcome, seconds: float, said: str) -> None:
        passed = outcome is Outcome.OK
        added = Round(
            block=block,
            seed=seed,
            outcome=outcome.value,
            seconds=round(seconds, 1),
            commit=self.commit,
            options=self.options,
            time=_now(),
            said="" if passed else said[-SAID_MAX:],
        )
        self._append(added)
        self._rounds[seed] = outcome

    def add_block(self, seeds: range) -> None:
        outcomes = {seed: self._rounds[seed] for seed in seeds}
        counts = Counter(outcomes.values())
        added = Block(
            block=seeds.start,
            rounds=len(seeds),
            outcomes={each.value: counts[each] for each in Outcome},
            failed={str(seed): each.value for seed, each in outcomes.items() if each != Outcome.OK},
            commit=self.commit,
            options=self.options,
            time=_now(),
        )
        self._append(added)
        self._blocks.add((seeds.start, len(seeds)))

    def _append(self, line: Round | Block) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(line)) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit_of(tree: Path) -> str:
    """The commit of a working tree, and a digest of what was changed since; else "unknown"."""
    asked = ["git", "-C", str(tree)]
    try:
        head = subprocess.run([*asked, "rev-parse", "--short=9", "HEAD"], capture_output=True)
        changes = subprocess.run([*asked, "diff", "HEAD"], capture_output=True)
    except FileNotFoundError:
        return "unknown"
    if head.returncode or changes.returncode:
        return "unknown"
    commit = head.stdout.decode().strip()
    if not changes.stdout:
        return commit
    return f"{commit}+{hashlib.sha256(changes.stdout).hexdigest()[:8]}"


class Runner:
    """Runs rounds, each as `command` with its seed: one that hangs is killed at the deadline."""

    def __init__(self, command: Sequence[str], keep: Path, deadline_s: float) -> None:
        self._command = command
        self._keep = keep
        self._deadline_s = deadline_s

    def run(self, seed: int) -> tuple[Outcome, str]:
        """What became of the round, and what it said, which is printed, too.

        Raises SystemExit if the machine lacks what the round needs.
        """
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
            output = Path(name, OUTPUT)
            environ = {**os.environ, "TMPDIR": name}
            command = [*self._command, f"--seed={seed}"]
            status = watchdog.run(command, output, self._deadline_s, environ)
            said = output.read_text(errors="replace")
            click.echo(said, nl=False, err=status == EXIT_MISSING)
            if status == EXIT_MISSING:
                raise SystemExit(EXIT_MISSING)
            outcome = Outcome.HANG if status is None else Outcome.of_status(status)
            if status is None:
                click.echo(f"seed {seed}  hang: killed after {self._deadline_s:g} s")
                for directory in Path(name).glob(f"{PREFIX}*"):
                    keep_files(directory, self._keep / str(seed))
            if outcome is not Outcome.OK:
                (self._keep / str(seed)).mkdir(parents=True, exist_ok=True)
                shutil.copy(output, self._keep / str(seed) / OUTPUT)
            return outcome, said


def run_blocks(
    seeds: range,
    block_rounds: int,
    results: Results,
    run: Callable[[int], tuple[Outcome, str]],
) -> bool:
    """Whether all rounds pass; what the file has of them is not run again."""
    for first in range(seeds.start, seeds.stop, block_rounds):
        block = range(first, min(first + block_rounds, seeds.stop))
        missing = [seed for seed in block if results.outcome(seed) is None]
        if len(missing) < len(block):
            click.echo(f"block {first}: {len(block) - len(missing)} rounds are in the file already")
        for seed in missing:
            began = time.monotonic()
            outcome, said = run(seed)
            results.add_round(first, seed, outcome, time.monotonic() - began, said)
        if not results.has_block(block):
            results.add_block(block)
    return tell({seed: results.outcome(seed) for seed in seeds})


def tell(outcomes: dict[int, Outcome | None]) -> bool:
    """Print the last line, which names the failed rounds; whether there are none."""
    failed = {seed: outcome for seed, outcome in outcomes.items() if outcome is not Outcome.OK}
    named = ", ".join(f"{seed} ({outcome})" for seed, outcome in failed.items())
    click.echo(f"{len(outcomes)} rounds, {len(failed)} failed{': ' if named else ''}{named}")
    return not failed
