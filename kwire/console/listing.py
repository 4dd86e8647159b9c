"""Tables that the server filters, sorts and cuts into pages.

The state of a table is in the URL: `q` (the text to find), `sort` (a column, with a minus sign for
the reverse order), `page` (from 1 on) and `per` (rows on a page).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")

ROWS: Final = 50
"""Rows on a page, unless the URL names another number."""
ROWS_CHOICES: Final = (25, 50, 100, 250)
TEXT_LENGTH_MAX: Final = 250
"""Characters of the text to find; a topic's name has 249 at most."""
PAGE_MAX: Final = 10**9


@dataclass(frozen=True)
class TableColumn(Generic[T]):
    """A column of a table.  It can be sorted by if it has a `key`."""

    name: str
    label: str
    key: Callable[[T], Any] | None = None
    """What rows are sorted by.  Rows for which it is None come last in either order."""
    is_number: bool = False
    """Whether it is aligned to the right; then the first click sorts the largest first."""
    title: str = ""
    """What the column means, if the label does not say it."""


@dataclass(frozen=True)
class TableState:
    """What the URL says of a table."""

    text: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1
    per_page: int = ROWS
    others: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the URL that are not about the table.  Its links keep them."""

    def link(self, **changes: str | int) -> str:
        """The query of a URL with these changes.  A default value is left out."""
        named = {
            "q": self.text,
            "sort": ("-" if self.descending else "") + self.sort,
            "page": self.page,
            "per": self.per_page,
            **changes,
        }
        defaults = {"q": "", "sort": "", "page": 1, "per": ROWS}
        kept = {name: value for name, value in named.items() if value != defaults.get(name)}
        return "?" + urlencode({**self.others, **kept}, errors="replace")


def table_state(parameters: Mapping[str, str], keep: Sequence[str] = ()) -> TableState:
    """The state in the parameters of a URL.  What is invalid counts as not given.

    `keep` names the other parameters that links of the table keep.
    """
    sort = parameters.get("sort", "")[:60]
    return TableState(
        parameters.get("q", "").strip()[:TEXT_LENGTH_MAX],
        sort.removeprefix("-"),
        sort.startswith("-"),
        number_in(parameters.get("page", ""), 1, PAGE_MAX, 1),
        number_in(parameters.get("per", ""), 1, max(ROWS_CHOICES), ROWS),
        {name: parameters[name] for name in keep if parameters.get(name)},
    )


def number_in(text: str, least: int, most: int, default: int) -> int:
    """The whole number in a text, if it is from `least` to `most`, else the default."""
    digits = text.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20:
        return default
    number = int(text)
    return number if least <= number <= most else default


@dataclass(frozen=True)
class ShownTable(Generic[T]):
    """One page of a table."""

    columns: Sequence[TableColumn[T]]
    rows: Sequence[T]
    state: TableState
    """As it was given, but with the sort column and the page that are shown."""
    found: int
    """Rows that have the text."""
    total: int
    """Rows without the filter."""

    @property
    def pages(self) -> int:
        """The number of pages, at least 1."""
        return max(1, -(-self.found // self.state.per_page))

    @property
    def first(self) -> int:
        """The number of the first row that is shown, counted from 1; 0 if there is none."""
        return (self.state.page - 1) * self.state.per_page + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row that is shown."""
        return max(0, self.first + len(self.rows) - 1)

    def sort_link(self, column: TableColumn[T]) -> str:
        """The query that sorts by a column, or turns the order if it is sorted by it."""
        if column.name == self.state.sort:
            descending = not self.state.descending
        else:
            descending = column.is_number
        return self.state.link(sort=("-" if descending else "") + column.name, page=1)

    def order_of(self, column: TableColumn[T]) -> str:
        """The `aria-sort` of a column's head."""
        if column.name != self.state.sort:
            return "none"
        return "descending" if self.state.descending else "ascending"


def shown_table(
    rows: Sequence[T],
    columns: Sequence[TableColumn[T]],
    state: TableState,
    text_of: Callable[[T], str],
) -> ShownTable[T]:
    """The page of the table that the state asks for.

    Rows are filtered by `text_of`: each word of the text must be in it, in any case.  Without a
    known column the rows keep their order.  A page past the last is the last.
    """
    words = state.text.casefold().split()
    found = list(rows)
    if words:
        found = [row for row in rows if all(word in text_of(row).casefold() for word in words)]
    column = next((each for each in columns if each.key and each.name == state.sort), None)
    if column is not None and column.key is not None:
        keyed = [(column.key(row), row) for row in found]
        with_key = [each for each in keyed if each[0] is not None]
        with_key.sort(key=itemgetter(0), reverse=state.descending)
        found = [row for _, row in with_key] + [row for key, row in keyed if key is None]
    page = min(state.page, max(1, -(-len(found) // state.per_page)))
    start = (page - 1) * state.per_page
    shown = TableState(
        state.text,
        column.name if column is not None else "",
        state.descending and column is not None,
        page,
        state.per_page,
        state.others,
    )
    cut = found[start : start + state.per_page]
    return ShownTable(columns, cut, shown, len(found), len(rows))
