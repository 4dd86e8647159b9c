"""Python source text under construction."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

LINE_MAX = 100


class CodeSource:
    """Lines of Python at a current indentation."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def add(self, line: str = "") -> None:
        self.lines.append(f"{'    ' * self.indent}{line}" if line else "")

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """`line` ends with a colon; what is added inside stands under it."""
        self.add(line)
        self.indent += 1
        yield
        self.indent -= 1

    def call(self, before: str, arguments: Sequence[str], after: str) -> None:
        """`before` ends and `after` starts with a bracket; arguments go on lines of their own when
        the whole is too long for one.
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
        """Words in as few lines as possible."""
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
    """A `struct` format as part of a name."""
    return codes.replace("?", "t")


def format_size(codes: str) -> int:
    return struct.calcsize(f">{codes}")
