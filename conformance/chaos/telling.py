"""What a command line of chaos does with each round: run it, tell of it, keep what it left."""

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
"""Of temporary folders."""


class Outcome(StrEnum):
    """What became of a round."""

    OK = "ok"
    VIOLATION = "violation"
    """A check failed, or a broker did not start."""
    HANG = "hang"
    """A client did not end, so the round cannot be judged."""
    HARNESS_ERROR = "harness error"
    """The round raised what it does not expect, or was killed."""

    @property
    def status(self) -> int:
        """Of a process that runs one round; Python itself exits with 1 and 2."""
        return _STATUSES[self]

    @classmethod
    def of_status(cls, status: int) -> Outcome:
        known = {status: outcome for outcome, status in _STATUSES.items()}
        return known.get(status, cls.HARNESS_ERROR)


_STATUSES: Final = {
    Outcome.OK: 0,
    Outcome.VIOLATION: 10,
    Outcome.HANG: 11,
    Outcome.HARNESS_ERROR: 12,
}


class Verdict(Protocol):
    """What a round has found; `notes` is what else is to be told of it, maybe nothing."""

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
    """Have SIGTERM end what was started, and unmount what was mounted."""
    signal.signal(signal.SIGTERM, _ended)


def _ended(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def all_pass(seeds: range, passes: Callable[[int], bool]) -> bool:
    """Whether the rounds of all seeds do, which the last line says."""
    failed = [seed for seed in seeds if not passes(seed)]
    click.echo(f"{len(seeds)} rounds, {len(failed)} with violations {failed or ''}")
    return not failed


def passes(head: str, run: Callable[[Path], Verdict], kept: Path) -> bool:
    """Whether a round passes; see `judged`."""
    return judged(head, run, kept) is Outcome.OK


def judged(head: str, run: Callable[[Path], Verdict], kept: Path) -> Outcome:
    """Run one round, print its line, keep what it left if it failed."""
    click.echo(head, nl=False)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        directory = Path(name)
        try:
            verdict = run(directory)
        except (SubjectFailed, BrokerStartError, ClientHangs) as failure:
            click.echo(f"  {type(failure).__name__}: {failure}")
            keep_files(directory, kept)
            return Outcome.HANG if isinstance(failure, ClientHangs) else Outcome.VIOLATION
        except Exception:
            click.echo("  harness error")
            keep_files(directory, kept)
            raise
        click.echo(_outcome(verdict))
        for violation in verdict.violations:
            click.echo(f"    {violation}")
        if verdict.violations:
            keep_files(directory, kept)
        return Outcome.VIOLATION if verdict.violations else Outcome.OK


def _outcome(verdict: Verdict) -> str:
    result = f"{len(verdict.violations)} VIOLATIONS" if verdict.violations else "ok"
    told = [f"{verdict.operations} operations", f"{verdict.not_ok} not ok", verdict.notes]
    return f"  {', '.join(filter(None, told))}  {verdict.seconds:.1f} s  {result}"


def keep_files(directory: Path, target: Path) -> None:
    """The history, and each broker's log; disks with the data are unmounted by now."""
    target.mkdir(parents=True, exist_ok=True)
    for history in directory.glob("*.jsonl"):
        shutil.copy(history, target / history.name)
    for log in directory.glob(f"*/{BROKER_LOG}"):
        shutil.copy(log, target / f"{log.parent.name}.log")
    if (directory / BROKER_LOG).exists():
        shutil.copy(directory / BROKER_LOG, target / BROKER_LOG)
    click.echo(f"    kept in {target}")
