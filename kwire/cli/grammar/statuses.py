"""Exit statuses, the same for all commands; docs/commands.md documents them.

0    Success.  A command that checks something has found nothing.
1    The cluster refused or cannot be reached, or the user answered no.  A command that checks has
     found something.
2    The command line is wrong.  A command that checks could not do so.
130  Ctrl-C.

As with `diff` and `grep`, 1 is a result of a command that checks.  `cluster status` and `ping`
check whether the cluster can be reached, so they exit with 1 if it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar

import click

R = TypeVar("R")

EXIT_FAILURE: Final = 1
EXIT_FOUND: Final = 1
EXIT_NOT_CHECKED: Final = 2
_CHECKS: Final = "kwire.checks"


def checks(command: Callable[..., R]) -> Callable[..., R]:
    """Decorate a command that checks: it exits with 2 if it fails, since 1 means a finding."""

    def run(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        """Runs the command.  A file that cannot be read or written ends it with the status of a
        failed check, which differs from that of a check with findings."""
        does_check()
        try:
            return command(*args, **kwargs)
        except OSError as error:
            tell_of_file(error)
            raise SystemExit(failure_status()) from error

    return update_wrapper(run, command)


def does_check() -> None:
    """Mark the running command as one that checks."""
    click.get_current_context().meta[_CHECKS] = True


def failure_status() -> int:
    """The exit status of the running command if it fails."""
    context = click.get_current_context(silent=True)
    is_check = context is not None and context.meta.get(_CHECKS, False)
    return EXIT_NOT_CHECKED if is_check else EXIT_FAILURE


def tell_of_file(error: OSError) -> None:
    """Print on standard error which file cannot be read or written, and why."""
    reason = (error.strerror or str(error)).lower()
    click.echo(
        f"kwire: {error.filename}: {reason}" if error.filename else f"kwire: {reason}", err=True
    )
