"""Draws a view on a terminal, with rich."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from kwire.cli.operating.live.choice import HELP, TopChoice
from kwire.cli.operating.live.rows import TopView
from kwire.cli.operating.live.screen_texts import note_of, problems_of, sums_of
from kwire.cli.operating.live.tables import (
    BROKERS,
    GROUPS,
    REQUESTS,
    TOPICS,
    TopColumn,
    TopTable,
    chosen,
    used_columns,
)
from kwire.cli.text.output import printable

NAME_WIDTH_MIN: Final = 12
NAME_WIDTH_MAX: Final = 40
"""Longer names are cut in the middle of a screen; --json has all of them."""
GAP_WIDTH: Final = 2
"""Between two columns."""
HEAD_LINES: Final = 4
FRAME_LINES: Final = 3
"""Title, names of columns, and an empty line of each table."""
OVERVIEW: Final = ((BROKERS, 0.2), (TOPICS, 0.35), (GROUPS, 0.25), (REQUESTS, 0.2))
"""The tables of the overview, and their parts of the lines."""
ROWS_MIN: Final = 3


def drawn(
    view: TopView, choice: TopChoice, width: int, lines: int, trouble: str | None = None
) -> RenderableType:
    """The whole screen of a terminal.  `trouble` is the error of the last sample."""
    parts: list[RenderableType] = [_head(view, choice, trouble)]
    left = lines - HEAD_LINES
    if choice.shows_help:
        parts.append(Text(HELP, style="cyan"))
        left -= 2
    if choice.table is not None:
        parts.append(_table(view, choice.table, choice, left - FRAME_LINES, width))
        return Group(*parts)
    shown = [each for each in OVERVIEW if view.with_metrics or not each[0].needs_metrics]
    limits = _limits(view, shown, left)
    parts += [
        _table(view, table, choice, limit, width)
        for (table, _), limit in zip(shown, limits, strict=True)
    ]
    return Group(*parts)


def _limits(view: TopView, shown: Sequence[tuple[TopTable, float]], lines: int) -> list[int]:
    """How many rows each table of the overview gets; what one does not use, the next ones may."""
    limits = []
    weight = sum(part for _, part in shown)
    left = lines - FRAME_LINES * len(shown)
    for table, part in shown:
        share = round(left * part / weight) if weight else left
        limit = max(ROWS_MIN, min(share, len(getattr(view, table.rows))))
        limits.append(limit)
        left -= limit
        weight -= part
    return limits


def _head(view: TopView, choice: TopChoice, trouble: str | None) -> Text:
    """The lines above the tables: the cluster, its sums, what is not well, and what is chosen."""
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(time.strftime("%H:%M:%S", time.localtime(view.time_s)), style="bold")
    head.append(f"  {sums_of(view)}\n")
    problems = problems_of(view)
    if trouble is not None:
        problems.insert(0, trouble)
    if problems:
        head.append(printable("; ".join(problems)) + "\n", style="bold red")
    else:
        head.append(f"{note_of(view) or 'all partitions are well'}\n", style="green")
    head.append(_chosen_text(choice), style="dim")
    return head


def _chosen_text(choice: TopChoice) -> str:
    parts = ["? help  q quit"]
    if choice.is_typing or choice.wanted:
        parts.append(f"filter: {choice.wanted}{'_' if choice.is_typing else ''}")
    if choice.is_paused:
        parts.append("paused (p)")
    return "   ".join(parts)


def _table(
    view: TopView, table: TopTable, choice: TopChoice, limit: int, columns_width: int
) -> RenderableType:
    """A table with at most `limit` rows and `columns_width` columns of the terminal.  Its title
    says how many rows there are."""
    order = choice.order_of(table)
    rows = chosen(view, table, order, is_reversed=choice.is_reversed, wanted=choice.wanted)
    if not rows and table.needs_metrics and not view.with_metrics:
        return Text(f"\n{table.title}: {note_of(view)}", style="yellow")
    title = f"{table.title}  {len(rows)}"
    if len(rows) > limit:
        title += f", {limit} shown"
    shown = rows[: max(0, limit)]
    drawn = RichTable(
        box=None, title=title, title_justify="left", title_style="bold cyan", pad_edge=False,
        header_style="dim",
    )  # fmt: skip
    columns = _fitting(used_columns(rows, table), shown, order, columns_width)
    for each in columns:
        drawn.add_column(
            each.title, justify="right" if each.column.is_number else "left", no_wrap=True,
            overflow="ellipsis", min_width=each.width_min, max_width=NAME_WIDTH_MAX,
        )  # fmt: skip
    for texts in zip(*(each.texts for each in columns), strict=True):
        drawn.add_row(*map(Text, texts))
    return Group(Text(), drawn)


class _Drawn(NamedTuple):
    """A column as it is drawn: its title, its texts, and the width that it needs at least."""

    column: TopColumn
    title: str
    texts: list[str]
    width_min: int


def _fitting(
    columns: Iterable[TopColumn], rows: Sequence[object], order: str, width: int
) -> list[_Drawn]:
    """The columns that fit into `width`, from the left; names are cut before a column is left
    out."""
    found: list[_Drawn] = []
    used = -GAP_WIDTH
    for each in columns:
        title = f"{each.title}*" if each.field == order else each.title
        texts = [printable(each.text(getattr(row, each.field))) for row in rows]
        widest = max(map(len, (title, *texts)))
        width_min = widest if each.is_number else min(widest, NAME_WIDTH_MIN)
        used += GAP_WIDTH + width_min
        if used > width and found:
            break
        found.append(_Drawn(each, title, texts, width_min))
    return found
