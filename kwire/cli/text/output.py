"""What commands print: tables for people and pipes, JSON for programs."""

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
"""What a terminal obeys instead of showing it: control characters, the ESC of escape codes among
them, line ends, and what turns the direction of writing.  Records and groups may hold all of it."""
UNPRINTABLE_IN_JSON = re.compile(f"[{BEYOND_ASCII}]")
"""What JSON need not escape, and so does not.  It can only lie in strings."""
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str) -> str:
    """Text as one line that is shown as it is: what is unprintable stands there by its number."""
    return UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that is safe on a terminal, and says the same to a program."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return UNPRINTABLE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for commands whose answer a program may want."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: object) -> None:
    """One JSON document, indented."""
    click.echo(json_text(value, indent=2))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str | None = None
) -> None:
    """A table: with rules and colours on a terminal, as aligned columns in a pipe.

    Numbers are aligned to the right; None prints as a dash.
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
    """Whether there is somebody to be told what is waited for."""
    return sys.stderr.isatty()


def say(sentence: str) -> None:
    """Tell what was done; on stderr, so that pipes hold answers alone."""
    click.echo(sentence, err=True)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number_text(number: float) -> str:
    """`1048576`, `0.25`: the shortest digits that are this number, without an exponent."""
    return format(Decimal(repr(float(number))), "f").removesuffix(".0")


UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(count: int) -> str:
    """`512 B`, `4 kB`, `1.5 MB`: powers of 1024."""
    size = float(count)
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"
