"""Commands that ask before they change anything.

Which commands do is said in CONTRIBUTING (section "Add a command").  Each of them shows what it is
about to change, has --dry-run, which ends there, and --yes, which answers beforehand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from kwire.cli.grammar.commands import renamed_option
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import say

C = TypeVar("C", bound=Callable[..., Any])

NOT_CHANGED = "nothing is changed"
NO_TERMINAL = (
    "there is no terminal to ask at: give --yes to do it, or --dry-run to see what it does"
)


def asking_options(*, old: Sequence[str] = ()) -> Callable[[C], C]:
    """--dry-run and --yes, which a command is given as `dry_run` and `yes`.

    `old` are former names of --yes.
    """

    def decorate(command: C) -> C:
        command = renamed_option("-y", "--yes", old=old, is_flag=True, help="Do not ask.")(command)
        return click.option(
            "--dry-run", is_flag=True, help="Show what would be changed, and change nothing."
        )(command)

    return decorate


def has_terminal() -> bool:
    """Whether somebody sees a question, and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def must_agree(question: str, *, yes: bool) -> None:
    """Ask somebody at the terminal, unless `yes` answers already.

    Raises UsageError where there is no terminal, and ends the command where the answer is no.
    """
    if yes:
        return
    if not has_terminal():
        raise click.UsageError(f"{question} ({NO_TERMINAL})")
    if not click.confirm(question, err=True):
        say(NOT_CHANGED)
        raise SystemExit(EXIT_FAILURE)
