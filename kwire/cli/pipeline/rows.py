"""Prints the rows of a query: tables on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.text.output import Cell, print_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPAN = {"start", "end"}
"""The fields of a window."""


class Rows:
    """Prints the rows of each micro-batch, and counts them."""

    def __init__(self, *, as_lines: bool) -> None:
        self.count = 0
        self._as_lines = as_lines

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Print the rows of a batch.  Spark's foreachBatch calls it from a thread of its own."""
        from pyspark.sql import functions as f

        rows = rows.toDF(*apart(rows.columns))
        whole = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
        lines = [row[0] for row in rows.select(whole).collect()]
        if not lines:
            return
        self.count += len(lines)
        if self._as_lines:
            click.echo("\n".join(lines))
        else:
            found = [json.loads(line) for line in lines]
            print_table(rows.columns, [[cell(row[c]) for c in rows.columns] for row in found])
        sys.stdout.flush()


def apart(names: list[str]) -> list[str]:
    """The names made unique: two columns `year`, as a join may give, become year and year_2."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name.lower()] += 1
        number = seen[name.lower()]
        found.append(name if number == 1 else f"{name}_{number}")
    return found


def cell(value: Any) -> Cell:  # noqa: ANN401 - JSON
    """A value as a cell of a table: a window as its two ends, objects and lists as JSON."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, dict) and value.keys() == SPAN:
        return f"{_short(value['start'])} - {_short(value['end'])}"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _short(time: str) -> str:
    """`2013-01-01 06:00` of `2013-01-01T06:00:00.000Z`."""
    return time.removesuffix("Z").removesuffix(".000").removesuffix(":00").replace("T", " ")
