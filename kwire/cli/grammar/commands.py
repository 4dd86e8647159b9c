"""Groups of commands, and options that still know their old names.

Every group of the command line is a `Commands`: it names the nearest command where one is misspelt,
and takes a command's former name.  `renamed_option` does the same for options.  Former names work
but are shown nowhere, neither in the help nor by the shell's completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

LISTED_MAX = 12
"""A sentence can list so many commands; there are more of them in `kwire --help` alone."""


class Commands(click.Group):
    """A group of commands.

    `old` maps a command's former name to its name.  `modules` maps names to the modules whose
    `command` they are, and `summaries` to what the help says of them: such commands are imported
    when somebody asks for them.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        old: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
        summaries: Mapping[str, str] | None = None,
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **attributes)
        self.old = dict(old or {})
        self.modules = dict(modules or {})
        self.summaries = dict(summaries or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self.old.get(cmd_name, cmd_name)
        if name not in self.modules:
            return super().get_command(ctx, name)
        command: click.Command = import_module(self.modules[name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click itself suggests commands from 8.4 on, and none of those that are imported late.
        name = args[0]
        if (
            not ctx.resilient_parsing
            and not name.startswith("-")
            and self.get_command(ctx, name) is None
        ):
            ctx.fail(f"No such command {name!r}{_nearest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.summaries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))


def _nearest(name: str, known: Sequence[str]) -> str:
    from kwire.cli.text.suggestions import did_you_mean

    names = f": there are {', '.join(known)}" if len(known) <= LISTED_MAX else "."
    return did_you_mean(name, known) or names


class RenamedOption(click.Option):
    """An option that is also taken by its old names."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        old: Sequence[str],
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        super().__init__(*args, **attributes)
        self.old = tuple(old)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's own, and private
        shown = self.opts
        self.opts = [*shown, *self.old]  # the parser takes these, the help and errors `shown`
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def renamed_option(
    *names: str,
    old: Sequence[str],
    **attributes: Any,  # noqa: ANN401 - click's own
) -> Callable[[C], C]:
    """As `click.option`, for an option that had the names `old` before."""
    return click.option(*names, cls=RenamedOption, old=old, **attributes)
