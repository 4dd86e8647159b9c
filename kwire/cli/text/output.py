"""Printing of tables, JSON and messages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import click

Cell = str | int | float | None

BEYOND_ASCII = r"\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
UNPRINTABLE = re.compile(f"[\\x00-\\x1f{BEYOND_ASCII}]")
"""Characters that a terminal obeys instead of showing: control characters with ESC, line ends, and
marks of the writing direction.  Records and names of groups may contain them."""
UNPRINTABLE_IN_JSON = re.compile(f"[{BEYOND_ASCII}]")
"""The unprintable characters that json.dumps does not escape.  They occur only in strings."""
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    """The text as one line, with unprintable characters escaped."""
    return UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that is safe to print on a terminal."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return UNPRINTABLE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json, which the command gets as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: object) -> None:
    """Print one JSON document, indented."""
    click.echo(json_text(value, indent=2))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str | None = None
) -> None:
    """Print a table: with rules and colours on a terminal, as aligned columns in a pipe.

    Numbers are aligned to the right.  None is printed as a dash.
    """
    texts = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    title = None if title is None else printable(title)
    numeric = [
        all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(columns))
    ]
    if sys.stdout.isatty():
        _print_rich(columns, texts, numeric, title)
        return
    if title:
        click.echo(title)
    widths = [max(len(text) for text in column) for column in zip(columns, *texts, strict=True)]
    for line in [[name.upper() for name in columns], *texts]:
        cells = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _print_rich(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    title: str | None,
) -> None:
    """Prints a table on a terminal; long cells are folded, numbers are aligned right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for name, is_number in zip(columns, numeric, strict=True):
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def on_terminal() -> bool:
    """Whether standard error is a terminal, where a user waits."""
    return sys.stderr.isatty()


def say(sentence: str) -> None:
    """Print a message on standard error, so that standard output has results only."""
    click.echo(sentence, err=True)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number_text(number: float) -> str:
    """The shortest text of a number without an exponent, as `1048576` or `0.25`."""
    return format(Decimal(repr(float(number))), "f").removesuffix(".0")


UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(count: int) -> str:
    """A size as `512 B`, `4 kB` or `1.5 MB`, in powers of 1024."""
    size = float(count)
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"
