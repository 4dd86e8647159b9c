"""What commands print: tables for people and pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

Cell = str | int | None


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, for commands whose answer a program may want."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: object) -> None:
    """One JSON document, indented."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str | None = None
) -> None:
    """A table: with rules and colours on a terminal, as aligned columns in a pipe.

    Numbers are aligned to the right; None prints as a dash.
    """
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [all(isinstance(row[i], int | None) for row in rows) for i in range(len(columns))]
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


def say(sentence: str) -> None:
    """Tell what was done; on stderr, so that pipes hold answers alone."""
    click.echo(sentence, err=True)


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
