"""Builds Python source text."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

LINE_MAX = 100


class CodeSource:
    """Lines of Python code with a current indentation."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def add(self, line: str = "") -> None:
        self.lines.append(f"{'    ' * self.indent}{line}" if line else "")

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Add `line`, which ends with a colon, and indent the lines that are added in the block."""
        self.add(line)
        self.indent += 1
        yield
        self.indent -= 1

    def call(self, before: str, arguments: Sequence[str], after: str) -> None:
        """Add a call.  `before` ends and `after` starts with a bracket.

        Arguments get lines of their own if the call is too long for one line.
        """
        line = f"{before}{', '.join(arguments)}{after}"
        if 4 * self.indent + len(line) <= LINE_MAX:
            self.add(line)
            return
        self.add(before)
        self.indent += 1
        self.fill([f"{argument}," for argument in arguments])
        self.indent -= 1
        self.add(after)

    def fill(self, words: Iterable[str]) -> None:
        """Add words in as few lines as possible."""
        line = ""
        for word in words:
            if line and 4 * self.indent + len(line) + 1 + len(word) > LINE_MAX:
                self.add(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
        if line:
            self.add(line)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def format_name(codes: str) -> str:
    """A `struct` format in a form that can be part of a name."""
    return codes.replace("?", "t")


def format_size(codes: str) -> int:
    return struct.calcsize(f">{codes}")
