"""Blocks of a benchmark, each of which is kept in a file as soon as it is measured.

The file has a line of JSON for each block.  A run skips the blocks that the file has from the same
sources, machine and options, so that an interrupted run goes on where it stopped.  Other blocks in
the file are left alone and not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from kwire.conformance.bench import machine
from kwire.conformance.chaos.blocks import commit_of
from kwire.conformance.chaos.kept_lines import append_line, now_utc

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = ("*.py", "*.java", "pyproject.toml")
"""What a figure may depend on; the pages that benchmarks write are not part of it."""

Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A line of the file: the outcome of one block.

    key       the name of the block within its benchmark
    outcome   what was measured, as JSON
    run       when the run that measured it began
    time      when it was measured; both in UTC
    load      the load average of the machine then
    """

    key: str
    outcome: Any
    commit: str
    machine: Facts
    options: str
    run: str
    time: str
    load: float


class DamagedBlocks(ValueError):
    """The file has a line that is not a block's."""


class BlockFile:
    """The file; only blocks of this commit, this machine and these options count."""

    def __init__(self, path: Path, commit: str, facts: Facts, options: str) -> None:
        """Read the file.  Raises DamagedBlocks."""
        self.path = path
        self.commit, self.machine, self.options = commit, facts, options
        self._run = now_utc()
        self._lines: dict[str, KeptBlock] = {}
        self.others = 0
        """How many blocks of other commits, machines or options the file has."""
        for line in self._read():
            if (line.commit, line.machine, line.options) == (commit, facts, options):
                self._lines[line.key] = line
            else:
                self.others += 1

    def _read(self) -> Iterable[KeptBlock]:
        """Yield all lines; the last one may be incomplete if a run was killed."""
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        for number, text in enumerate(lines, 1):
            try:
                yield KeptBlock(**json.loads(text))
            except (ValueError, TypeError) as error:
                if number == len(lines) and not text.endswith("\n"):
                    return
                raise DamagedBlocks(
                    f"line {number} of {self.path} is not a block's ({error}): remove it, and its "
                    "block is measured again"
                ) from error

    def __contains__(self, key: str) -> bool:
        return key in self._lines

    def outcome(self, key: str) -> Any:  # noqa: ANN401 - what the benchmark has measured
        """The outcome of a block that the file has."""
        return self._lines[key].outcome

    def add(self, key: str, outcome: object) -> None:
        """Append the outcome of a block, and write it to disk."""
        line = KeptBlock(
            key=key,
            outcome=outcome,
            commit=self.commit,
            machine=self.machine,
            options=self.options,
            run=self._run,
            time=now_utc(),
            load=round(os.getloadavg()[0], 1),
        )
        append_line(self.path, asdict(line))
        self._lines[key] = line

    def measure(self, key: str, measure: Callable[[], object]) -> None:
        """Measure a block that the file does not have, and keep it."""
        if key not in self:
            self.add(key, measure())

    def forget(self, keys: Iterable[str]) -> None:
        """Remove these blocks from the file, to measure them again."""
        removed = [self._lines.pop(key) for key in keys if key in self]
        kept = [line for line in self._read() if line not in removed]
        if self.path.exists():
            text = "".join(json.dumps(asdict(line)) + "\n" for line in kept)
            partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            partial.write_text(text)
            partial.replace(self.path)

    def facts(self, keys: Iterable[str]) -> list[tuple[str, str]]:
        """When, how and from what these blocks were measured, for the head of a report."""
        lines = [self._lines[key] for key in keys if key in self]
        if not lines:
            return []
        times = sorted(line.time[:16].replace("T", " ") for line in lines)
        loads = sorted(line.load for line in lines)
        runs = len({line.run for line in lines})
        return [
            ("kwire's sources", self.commit),
            ("measured", f"{times[0]} to {times[-1]} UTC, in {_number(runs, 'run')}"),
            ("load average after a block", f"{loads[0]:g} to {loads[-1]:g}"),
        ]


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def opened(
    path: Path, options: Mapping[str, object], keys: Sequence[str], *, fresh: bool
) -> BlockFile:
    """Open the file for blocks of these sources, on this machine, with these options.

    Says how many of the blocks `keys` it has; `fresh` removes them first.  Raises ClickException
    if the file is damaged.
    """
    commit = commit_of(REPOSITORY, SOURCES)
    try:
        file = BlockFile(path, commit, dict(machine.facts()), json.dumps(options, sort_keys=True))
    except DamagedBlocks as error:
        raise click.ClickException(str(error)) from error
    if file.others:
        others = _number(file.others, "block")
        click.echo(f"{path}: {others} of other sources, machines or options: not used", err=True)
    if fresh:
        file.forget(keys)
    say_progress(file, keys)
    return file


def say_progress(file: BlockFile, keys: Sequence[str]) -> None:
    """Say how many of these blocks the file has, and what the same command does next."""
    present = sum(key in file for key in keys)
    said = f"{file.path} has {present} of {_number(len(keys), 'block')}"
    if present == len(keys):
        said += "; --fresh measures them again"
    elif present:
        said += "; the same command measures the others, and --fresh all of them"
    click.echo(said, err=True)
