"""Reads the tables and figures of a page, as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

SPACES = re.compile(r"\s+")


class PageText(HTMLParser):
    """Collects the cells of all tables, the figures, and the other text of a page."""

    def __init__(self, html: str) -> None:
        """`html` is a page of the console."""
        super().__init__()
        self.tables: list[list[list[str]]] = []
        """The rows of each table; the first row has the heads."""
        self.figures: dict[str, str] = {}
        """The figures at the top of a page, by their names."""
        self.words = ""
        """All text of the page."""
        self._cell: list[str] | None = None
        self._term = ""
        self.feed(html)
        self.words = SPACES.sub(" ", self.words).strip()

    def rows(self, number: int = 0) -> list[dict[str, str]]:
        """The rows of a table, by the names of its columns."""
        heads, *rows = self.tables[number]
        return [dict(zip(heads, row, strict=False)) for row in rows]

    def row(self, name: str, number: int = 0) -> dict[str, str]:
        """The row of a table whose first cell begins with a name."""
        rows = self.rows(number)
        return next(row for row in rows if next(iter(row.values())).split(" ")[0] == name)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th", "dt", "dd"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("td", "th", "dt", "dd") or self._cell is None:
            return
        text = SPACES.sub(" ", " ".join(self._cell)).strip()
        self._cell = None
        if tag in ("td", "th"):
            self.tables[-1][-1].append(text)
        elif tag == "dt":
            self._term = text
        else:
            self.figures[self._term] = text

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"
        if self._cell is not None:
            self._cell.append(data)
