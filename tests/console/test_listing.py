"""Tables that the server filters, sorts and cuts into pages."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kwire.console.listing import ShownTable, TableColumn, number_in, shown_table, table_state


class Item(NamedTuple):
    name: str
    size: int | None


COLUMNS = (
    TableColumn[Item]("name", "Name", lambda item: item.name),
    TableColumn[Item]("size", "Size", lambda item: item.size, is_number=True),
    TableColumn[Item]("note", "Note"),
)
ITEMS = [Item(f"item-{number:03d}", number) for number in range(120)]


def table(
    parameters: dict[str, str], items: list[Item] = ITEMS, keep: tuple[str, ...] = ()
) -> ShownTable[Item]:
    return shown_table(items, COLUMNS, table_state(parameters, keep), lambda item: item.name)


def test_first_page_has_the_default_number_of_rows_in_their_order() -> None:
    shown = table({})
    assert [row.size for row in shown.rows] == list(range(50))
    assert (shown.first, shown.last, shown.found, shown.pages) == (1, 50, 120, 3)


def test_page_past_the_last_is_the_last() -> None:
    shown = table({"page": "9"})
    assert (shown.state.page, shown.first, shown.last) == (3, 101, 120)


def test_filter_needs_each_word_in_any_case() -> None:
    assert [row.size for row in table({"q": "ITEM 11"}).rows] == [11, *range(110, 120)]
    empty = table({"q": "none"})
    assert (empty.rows, empty.first, empty.last, empty.found, empty.total) == ([], 0, 0, 0, 120)


def test_rows_without_a_value_come_last_in_both_orders() -> None:
    items = [Item("a", 2), Item("b", None), Item("c", 3)]
    assert [row.name for row in table({"sort": "size"}, items).rows] == ["a", "c", "b"]
    assert [row.name for row in table({"sort": "-size"}, items).rows] == ["c", "a", "b"]


@pytest.mark.parametrize("sort", ["unknown", "note", "-", "--size"])
def test_column_that_cannot_be_sorted_by_leaves_the_order(sort: str) -> None:
    shown = table({"sort": sort})
    assert shown.rows == ITEMS[:50]
    assert shown.state.sort == ""


def test_sort_link_turns_the_order_and_starts_at_the_first_page() -> None:
    name, size, _ = COLUMNS
    shown = table({"sort": "size", "page": "2", "q": "item", "x": "1"}, keep=("x",))
    assert shown.sort_link(size) == "?x=1&q=item&sort=-size"
    assert shown.sort_link(name) == "?x=1&q=item&sort=name"
    assert table({}).sort_link(size) == "?sort=-size", "numbers: the largest first"
    assert shown.order_of(size) == "ascending"
    assert shown.order_of(name) == "none"


def test_link_leaves_out_defaults_and_other_parameters() -> None:
    state = table_state({"q": " a&b ", "per": "100", "stray": "1"})
    assert state.link(page=2) == "?q=a%26b&page=2&per=100"
    assert table_state({"per": "100"}).link(per=50) == "?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("0", 1),
        ("-3", 1),
        ("101", 1),
        ("\u0667", 1),
        ("9" * 5000, 1),
        ("", 1),
        ("1_0", 1),
    ],
)
def test_number_outside_its_range_is_the_default(text: str, expected: int) -> None:
    assert number_in(text, 1, 100, 1) == expected
