"""Commands that ask before they change anything.

CONTRIBUTING (section "Add a command") says which commands do.  Each shows its planned changes, then
asks.  With --dry-run it ends after it has shown them; with --yes it does not ask.
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
    "there is no terminal for the question: give --yes to do it, or --dry-run to see what it does"
)


def asking_options(*, old: Sequence[str] = ()) -> Callable[[C], C]:
    """Add --dry-run and --yes, which the command gets as `dry_run` and `yes`.

    `old` are former names of --yes.
    """

    def decorate(command: C) -> C:
        """Adds the options to a command."""
        command = renamed_option("-y", "--yes", old=old, is_flag=True, help="Do not ask.")(command)
        return click.option(
            "--dry-run", is_flag=True, help="Show what would change, and change nothing."
        )(command)

    return decorate


def has_terminal() -> bool:
    """Whether a user can see a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def must_agree(question: str, *, yes: bool) -> None:
    """Ask the user at the terminal, unless `yes` is set.

    Raises UsageError if there is no terminal.  Exits with status 1 if the answer is no.
    """
    if yes:
        return
    if not has_terminal():
        raise click.UsageError(f"{question} ({NO_TERMINAL})")
    if not click.confirm(question, err=True):
        say(NOT_CHANGED)
        raise SystemExit(EXIT_FAILURE)
