"""Groups of commands, and options with former names.

Each group of the command line is a `Commands`.  It suggests the nearest command for a misspelt one,
and accepts former names of commands.  `renamed_option` accepts former names of options.  Former
names work, but neither the help nor the shell's completion shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

LISTED_MAX = 12
"""The most commands that an error message lists."""


class Commands(click.Group):
    """A group of commands.

    `old` maps former names of commands to their names.  `modules` maps names to modules that have
    the command as `command`, and `summaries` maps them to their help.  Such modules are imported
    only when the command is used.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        old: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
        summaries: Mapping[str, str] | None = None,
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """`old` has the present names of commands by their former names.  `modules` has the modules
        of commands that are imported on first use, and `summaries` their lines in --help."""
        super().__init__(*args, **attributes)
        self.old = dict(old or {})
        self.modules = dict(modules or {})
        self.summaries = dict(summaries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a present or former name.  Its module is imported only now, so
        that other commands start quickly."""
        name = self.old.get(cmd_name, cmd_name)
        if name not in self.modules:
            return super().get_command(ctx, name)
        command: click.Command = import_module(self.modules[name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command as click does, but suggests the nearest name for an unknown one."""
        # click suggests commands from 8.4 on, but not those that are imported late.
        name = args[0]
        if (
            not ctx.resilient_parsing
            and not name.startswith("-")
            and self.get_command(ctx, name) is None
        ):
            ctx.fail(f"No such command {name!r}{_nearest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands for --help from the summaries, without importing the
        commands."""
        if not self.summaries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))


def _nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown command: the nearest name, or all names if there are few."""
    from kwire.cli.text.suggestions import did_you_mean

    names = f": there are {', '.join(known)}" if len(known) <= LISTED_MAX else "."
    return did_you_mean(name, known) or names


class RenamedOption(click.Option):
    """An option that also works under its former names `old`."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        old: Sequence[str],
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """`old` are the former names of the option, which are accepted but not shown."""
        super().__init__(*args, **attributes)
        self.old = tuple(old)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's own, and private
        """Has click's parser accept the former names, too."""
        shown = self.opts
        self.opts = [*shown, *self.old]  # The parser accepts all; help and errors show `shown`.
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def renamed_option(
    *names: str,
    old: Sequence[str],
    **attributes: Any,  # noqa: ANN401 - click's own
) -> Callable[[C], C]:
    """Return what `click.option` returns, for an option that has the former names `old`."""
    return click.option(*names, cls=RenamedOption, old=old, **attributes)
