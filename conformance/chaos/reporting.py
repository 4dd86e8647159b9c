"""Runs one round for a command line: prints its line, and stores its files if it failed."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn, Protocol

import click

from kwire.conformance.chaos.checks import Violation
from kwire.conformance.chaos.rounds import ClientHangs
from kwire.conformance.chaos.subject import SubjectFailed
from kwire.testing import BrokerStartError

BROKER_LOG = "broker.log"
PREFIX: Final = "kwire-chaos-"
"""Prefix of the names of temporary folders."""


class RoundOutcome(StrEnum):
    """The outcome of a round."""

    OK = "ok"
    VIOLATION = "violation"
    """A check failed, or a broker did not start."""
    HANG = "hang"
    """A client did not end, so the round has no result."""
    HARNESS_ERROR = "harness error"
    """The round raised an unexpected exception, or was killed."""

    @property
    def status(self) -> int:
        """The exit status of a process that runs one round; Python itself exits with 1 and 2."""
        return _STATUSES[self]

    @classmethod
    def of_status(cls, status: int) -> RoundOutcome:
        outcomes = {status: outcome for outcome, status in _STATUSES.items()}
        return outcomes.get(status, cls.HARNESS_ERROR)


_STATUSES: Final = {
    RoundOutcome.OK: 0,
    RoundOutcome.VIOLATION: 10,
    RoundOutcome.HANG: 11,
    RoundOutcome.HARNESS_ERROR: 12,
}


class RoundResult(Protocol):
    """The result of a round; `notes` is further text for its line, and may be empty."""

    @property
    def operations(self) -> int: ...
    @property
    def not_ok(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def violations(self) -> Sequence[Violation]: ...
    @property
    def notes(self) -> str: ...


def end_in_order() -> None:
    """Let SIGTERM end this process in order, so that it ends its processes and unmounts disks."""
    signal.signal(signal.SIGTERM, _raise_exit)


def _raise_exit(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def all_pass(seeds: range, passes: Callable[[int], bool]) -> bool:
    """Run the rounds of all seeds and print a summary; return whether all passed."""
    failed = [seed for seed in seeds if not passes(seed)]
    click.echo(f"{len(seeds)} rounds, {len(failed)} with violations {failed or ''}")
    return not failed


def passes(head: str, run: Callable[[Path], RoundResult], kept: Path) -> bool:
    """Run one round as `run_and_report` does; return whether it passed."""
    return run_and_report(head, run, kept) is RoundOutcome.OK


def run_and_report(head: str, run: Callable[[Path], RoundResult], kept: Path) -> RoundOutcome:
    """Run one round and print its line; a failed round's files are copied to `kept`."""
    click.echo(head, nl=False)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        directory = Path(name)
        try:
            verdict = run(directory)
        except (SubjectFailed, BrokerStartError, ClientHangs) as failure:
            click.echo(f"  {type(failure).__name__}: {failure}")
            keep_files(directory, kept)
            return RoundOutcome.HANG if isinstance(failure, ClientHangs) else RoundOutcome.VIOLATION
        except Exception:
            click.echo("  harness error")
            keep_files(directory, kept)
            raise
        click.echo(_summary(verdict))
        for violation in verdict.violations:
            click.echo(f"    {violation}")
        if verdict.violations:
            keep_files(directory, kept)
        return RoundOutcome.VIOLATION if verdict.violations else RoundOutcome.OK


def _summary(verdict: RoundResult) -> str:
    result = f"{len(verdict.violations)} VIOLATIONS" if verdict.violations else "ok"
    parts = [f"{verdict.operations} operations", f"{verdict.not_ok} not ok", verdict.notes]
    return f"  {', '.join(filter(None, parts))}  {verdict.seconds:.1f} s  {result}"


def keep_files(directory: Path, target: Path) -> None:
    """Copy the history and each broker's log; disks with the data are unmounted by now."""
    target.mkdir(parents=True, exist_ok=True)
    for history in directory.glob("*.jsonl"):
        shutil.copy(history, target / history.name)
    for log in directory.glob(f"*/{BROKER_LOG}"):
        shutil.copy(log, target / f"{log.parent.name}.log")
    if (directory / BROKER_LOG).exists():
        shutil.copy(directory / BROKER_LOG, target / BROKER_LOG)
    click.echo(f"    kept in {target}")
