"""How a command is listed in `kwire --help` and in docs/commands.md."""

from __future__ import annotations

from typing import NamedTuple


class Listing(NamedTuple):
    """A command of `kwire` in the lists of commands; its module declares it as `LISTING`.

    `make generated` writes kwire.cli.grammar.command_table from the listings, so that
    `kwire --help` imports no module of a command.
    """

    position: int
    """Commands are listed by this number.  Existing ones are multiples of 10, so that a new command
    fits between two."""
    summary: str
    """What the command does, as a sentence for the help."""
    guide: str = ""
    """What docs/commands.md says, in Markdown; empty if it says the same as the summary."""

    @property
    def row(self) -> str:
        """The text of the command's row in docs/commands.md: no capital letter, no full stop."""
        return self.guide or f"{self.summary[0].lower()}{self.summary[1:].removesuffix('.')}"
