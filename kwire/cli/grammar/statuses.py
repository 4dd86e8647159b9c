"""Exit statuses, the same of every command; docs/commands.md tells them to users.

0  All went well; of a command that checks something: nothing was found.
1  The cluster refused or cannot be reached, or somebody said no; of a command that checks:
   something was found.
2  The command line is wrong; of a command that checks: the check could not be made.

As with `diff` and `grep`, 1 of a command that checks is an answer.  `cluster status` and `ping` are
about whether the cluster can be reached: that it cannot is what they find.  130 is what Ctrl-C
gives.
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
    """Have a command end with 2 where it cannot do its work, for 1 is what it finds."""

    def run(*args: Any, **kwargs: Any) -> R:  # noqa: ANN401 - whatever the command takes
        does_check()
        try:
            return command(*args, **kwargs)
        except OSError as error:
            tell_of_file(error)
            raise SystemExit(failure_status()) from error

    return update_wrapper(run, command)


def does_check() -> None:
    """As `checks`, of the command that runs now."""
    click.get_current_context().meta[_CHECKS] = True


def failure_status() -> int:
    """What the command that runs now ends with where it cannot do its work."""
    context = click.get_current_context(silent=True)
    is_check = context is not None and context.meta.get(_CHECKS, False)
    return EXIT_NOT_CHECKED if is_check else EXIT_FAILURE


def tell_of_file(error: OSError) -> None:
    """Say on stderr which file cannot be read or written, and why."""
    reason = (error.strerror or str(error)).lower()
    click.echo(
        f"kwire: {error.filename}: {reason}" if error.filename else f"kwire: {reason}", err=True
    )
